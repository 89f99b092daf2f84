"""The rules that hold for every test and for the local server."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from cdclake_devkit.strict_aws.access.roles import HIDDEN_OBJECTS, ROLES
from cdclake_devkit.strict_aws.cloudwatch_limits import METRICS
from cdclake_devkit.strict_aws.glue_limits import LIMITS, PAGES
from cdclake_devkit.strict_aws.glue_versions import TABLE_VERSIONS
from cdclake_devkit.strict_aws.s3_conditions import CONDITIONAL_WRITES
from cdclake_devkit.strict_aws.s3_keys import LONG_KEYS
from cdclake_devkit.strict_aws.s3_multipart import UPLOAD_TIMES
from cdclake_devkit.strict_aws.s3_versions import FOLDERS, KEY_MARKER, NEWEST_VERSION, SUSPENDED_VERSIONING
from cdclake_devkit.strict_aws.signing_time import SIGNING_TIME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cdclake_devkit.strict_aws.rule import Rule

RULES: tuple[Rule, ...] = (
    LONG_KEYS,
    UPLOAD_TIMES,
    CONDITIONAL_WRITES,
    FOLDERS,
    SUSPENDED_VERSIONING,
    KEY_MARKER,
    NEWEST_VERSION,
    TABLE_VERSIONS,
    LIMITS,
    PAGES,
    METRICS,
    ROLES,
    HIDDEN_OBJECTS,
    SIGNING_TIME,
)


@contextmanager
def strict(rules: Iterable[Rule] = RULES) -> Iterator[None]:
    """Let moto follow rules within the block."""
    with ExitStack() as stack:
        for rule in rules:
            stack.enter_context(rule.applied())
        yield
