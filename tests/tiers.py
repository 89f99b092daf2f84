"""Tiers of tests: what a test starts, and how long it takes, decides when it runs. See CONTRIBUTING.

A test that starts something slow has a marker for it, from its fixtures or by hand. A test without the marker fails as
soon as it starts the thing, so `make quick` stays quick.
"""

from __future__ import annotations

import os
import sys
from collections import Counter, defaultdict
from enum import IntEnum
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import pytest
from moto.core.models import MockAWS
from moto.server import ThreadedMotoServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path


class Tier(IntEnum):
    """When a test runs; each tier includes those before it."""

    QUICK = 1
    """`make quick`: at each save."""
    TEST = 2
    """`make test`: before a commit."""
    ALL = 3
    """`make test-all`, which CI runs: before a merge."""
    THOROUGH = 4
    """`make thorough`: before a release."""


TIER = Tier[os.environ.get("CDCLAKE_TESTS", "all").upper()]
"""The tier that runs."""
_TIER_OF_MARKER = {
    "spark": Tier.TEST,
    "aws": Tier.TEST,
    "slow": Tier.TEST,
    "browser": Tier.ALL,
    "database": Tier.ALL,
    "deployment": Tier.ALL,
    "long": Tier.ALL,
    "thorough": Tier.THOROUGH,
}
MARKER_OF_FIXTURE = {
    "aws": "aws",
    "moto": "aws",
    "bench": "aws",
    "s3_server": "aws",
    "lake_bucket": "aws",
    "spark": "spark",
    "session": "spark",
    "checked": "deployment",
    "checked_tailored": "deployment",
    "checked_sample": "deployment",
    "everything": "deployment",
    "mariadb": "database",
    "postgresql": "database",
}
"""Fixtures that start something, and the marker of each test that uses one."""
MARKER_OF_FOLDER = {"infra": "slow", "smoke_aws": "slow"}
"""Folders whose tests import what takes seconds, and the marker of each test there."""
_STARTERS = (
    (MockAWS, "start", "aws"),
    (ThreadedMotoServer, "start", "aws"),
    ("cdclake_devkit.local.server.EmbeddedAws", "__enter__", "aws"),
    ("cdclake_devkit.shop.private_server.PrivateServer", "__enter__", "database"),
    ("pyspark.SparkContext", "__init__", "spark"),
    ("playwright.sync_api.PlaywrightContextManager", "__enter__", "browser"),
)
"""Methods that start something, each with the marker that a test needs to call it."""


_GOLDEN_RATIO = (5**0.5 - 1) / 2
"""The fractions of its multiples are spread over 0 to 1, wherever one stops."""


def mark_by_fixtures(item: pytest.Item) -> None:
    """Give a test the markers of the fixtures that it uses, and of its folder."""
    for fixture in getattr(item, "fixturenames", ()):
        if fixture in MARKER_OF_FIXTURE:
            item.add_marker(MARKER_OF_FIXTURE[fixture])
    if folder := MARKER_OF_FOLDER.get(item.path.parent.name):
        item.add_marker(folder)


def is_later(folder: Path) -> bool:
    """Whether only later tiers run the tests of a folder, so that its modules need not be imported."""
    marker = MARKER_OF_FOLDER.get(folder.name)
    return marker is not None and _TIER_OF_MARKER[marker] > TIER


def mark_samples(items: Iterable[pytest.Item]) -> None:
    """Leave only some cases of each test with the marker `sampled` in the first tiers.

    They have each value of each parameter as often as others, and those of a tier are also in later ones.
    """
    cases = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        if item.get_closest_marker("sampled"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for test in cases.values():
        marker = test[0].get_closest_marker("sampled")
        counts = dict(marker.kwargs) if marker else {}
        order = balanced([cast("Any", item).callspec.indices for item in test])
        first = list(islice(order, max(counts.values(), default=0)))
        for tier, later in (("quick", "slow"), ("test", "long"), ("ci", "thorough")):
            tried = {*first[: counts[tier]]} if tier in counts else {*range(len(test))}
            for item in (item for number, item in enumerate(test) if number not in tried):
                item.add_marker(later)


def balanced(cases: Sequence[Mapping[str, int]]) -> Iterator[int]:
    """The numbers of cases, each next one with those values of parameters that the ones before have least often.

    Of cases that are equal in that, the next one is far from those before.

    Args:
        cases: By parameter, the number of its value.
    """
    used = Counter[tuple[str, int]]()
    left = {number: set(case.items()) for number, case in enumerate(cases)}
    while left:
        number = min(left, key=lambda one: (sum(used[value] for value in left[one]), one * _GOLDEN_RATIO % 1))
        used.update(left.pop(number))
        yield number


def tier_of(item: pytest.Item) -> Tier:
    """The first tier that runs a test."""
    return max((_TIER_OF_MARKER.get(mark.name, Tier.QUICK) for mark in item.iter_markers()), default=Tier.QUICK)


def refuse_unmarked_starts(item: pytest.Item, patch: pytest.MonkeyPatch) -> None:
    """Let whatever a test starts without the marker for it fail."""
    for owner, method, marker in _STARTERS:
        starter = _loaded(owner) if isinstance(owner, str) else owner
        if starter is not None and item.get_closest_marker(marker) is None:
            patch.setattr(starter, method, _refusal(marker))


def _loaded(name: str) -> Any:
    """The class of that name; None if nothing has imported its module, so that no test can use it."""
    module, _, attribute = name.rpartition(".")
    return getattr(sys.modules.get(module), attribute, None)


def _refusal(marker: str) -> Callable[..., None]:
    def refuse(*_: object, **__: object) -> None:
        pytest.fail(f"This test needs the marker {marker}: see tests/tiers.py")

    return refuse
