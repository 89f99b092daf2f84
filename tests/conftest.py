"""Fixtures that many tests share."""

from __future__ import annotations

import gc
import os
import re
import signal
from functools import cache, lru_cache
from threading import RLock
from typing import TYPE_CHECKING

import botocore.parsers
import botocore.session
import pytest
from botocore.loaders import create_loader
from hypothesis import settings
from moto import mock_aws
from moto.core.botocore_stubber import BotocoreStubber
from xdist.scheduler import LoadFileScheduling

from cdclake.adapters.aws import read_time
from cdclake_cli.aws.java_classes import QUICK_JAVA
from cdclake_devkit.memory import ManualClock
from cdclake_devkit.quick_moto import quick_moto
from cdclake_devkit.strict_aws import strict
from cdclake_devkit.strict_aws.s3_conditions import note_arrival
from tests import ROOT
from tests.counts import IS_RECORDED, keep_cases
from tests.examples import THOROUGH_SECONDS
from tests.in_memory import use_memory
from tests.servers import mariadb, postgresql
from tests.tiers import TIER, Tier, is_later, mark_by_fixtures, mark_samples, refuse_unmarked_starts, tier_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from botocore.awsrequest import AWSPreparedRequest
    from xdist.remote import Producer

__all__ = ["mariadb", "postgresql"]  # fixtures

REGION = "eu-central-1"
COUNTS = "counts"
"""The user property of a test whose value, counts by name, the summary prints."""
LONGEST = (
    "test_every_call.py",
    "test_documents_walk.py",
    "test_against_oracle.py",
    "test_rollback_session.py",
    "test_command.py",
    "test_demo.py",
    "test_erase.py",
)
"""Files that take long. They run first, after those on Spark, so that no process waits for one at the end."""
SPARK_FILES = "tests/cdclake/lake on Spark"
"""The scope of files whose tests share a Spark: it takes some ten seconds until it is fast."""
_USES_SPARK = re.compile(r"\bspark_backend: |\b(?:spark|session): Spark(?:Context|Session)\b")
"""How tests ask for the fixtures of `tests/cdclake/lake/conftest.py`, which start Spark once per process."""

# Collecting tests makes no garbage, but hundreds of thousands of objects, which each full collection would visit.
gc.disable()

# Spark's JVM uses only its quick compiler, also in commands that tests start: no test runs long enough for the other.
os.environ["SPARK_SUBMIT_OPTS"] = QUICK_JAVA
use_memory()

# The time of an example depends more on the machine than on the code. Only thorough runs draw new examples each time.
EXAMPLES = {Tier.QUICK: 20, Tier.TEST: 50, Tier.ALL: 60, Tier.THOROUGH: 1_000}
settings.register_profile("cdclake", deadline=None, max_examples=EXAMPLES[TIER], derandomize=TIER is not Tier.THOROUGH)
settings.load_profile("cdclake")


# Each boto3 session looks for the service models and parses them anew, which takes longer than most tests.
setattr(botocore.session, "create_loader", lru_cache(create_loader))  # noqa: B010 - mypy knows no such name
# Clients of tests read times as those of the product do, which takes a third of the time of a listing less.
setattr(botocore.parsers, "DEFAULT_TIMESTAMP_PARSER", read_time)  # noqa: B010 - mypy knows no such name


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give thorough tests more time, before the plugin reads how much they have."""
    if TIER is Tier.THOROUGH and config.option.timeout is None:
        config.option.timeout = THOROUGH_SECONDS


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out folders that only later tiers run."""
    return is_later(collection_path) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test by what it starts, leave out those of later tiers, and run Spark and the longest files first."""
    for item in items:
        mark_by_fixtures(item)
    mark_samples(items)
    later = [item for item in items if tier_of(item) > TIER]
    config.hook.pytest_deselected(items=later)
    rank = {name: number for number, name in enumerate(LONGEST)}
    items[:] = sorted(
        (item for item in items if tier_of(item) <= TIER),
        key=lambda item: (scope_of(item.nodeid) != SPARK_FILES, rank.get(item.path.name, len(rank))),
    )


def pytest_collection_finish() -> None:
    """Collect garbage from now on, though rarely: it took an eighth of the time of tests that call the local AWS."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


def scope_of(nodeid: str) -> str:
    """Tests of a scope run in one process: those of a file, those that share a Spark, and those that share stacks."""
    file = nodeid.partition("::")[0]
    if file.startswith("tests/infra/"):
        return "tests/infra"
    return SPARK_FILES if _uses_spark(file) else file


@cache
def _uses_spark(file: str) -> bool:
    return file.startswith("tests/cdclake/lake/") and bool(_USES_SPARK.search((ROOT / file).read_text("utf-8")))


class ByFile(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """The tests of a file run in one process, and so do files that share something slow to start."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile | None:
    """The scheduler of `--dist loadfile`; xdist has those of other ways."""
    return ByFile(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the counts that tests recorded."""
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.getreports(outcome)]
    counted = [
        (report.nodeid, counts) for report in reports for name, counts in report.user_properties if name == COUNTS
    ]
    for nodeid, counts in counted:
        terminalreporter.section(nodeid)
        for name, count in counts.items():
            terminalreporter.line(f"{name:60}{count:>12}")
    if IS_RECORDED and not terminalreporter.getreports("failed"):
        keep_cases(TIER.name.lower(), counted)


@pytest.fixture(autouse=True)
def _tier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_unmarked_starts(request.node, monkeypatch)


@pytest.fixture
def hangup() -> Iterator[None]:
    """Let SIGHUP have an effect, also if these tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def clock() -> ManualClock:
    """A clock that a test moves."""
    return ManualClock()


@pytest.fixture
def aws(moto: None) -> Iterator[None]:
    """An empty AWS in this process, which follows the rules of `cdclake_devkit.strict_aws`."""
    with strict():
        yield


@pytest.fixture
def moto(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty AWS in this process, as kind as moto; boto3 finds fake credentials and a region.

    It serves one request at a time, because moto lets other threads in between checking a condition and writing.
    """
    lock = RLock()
    process_request = BotocoreStubber.process_request

    def process_serially(stubber: BotocoreStubber, request: AWSPreparedRequest) -> object:
        note_arrival()
        with lock:
            return process_request(stubber, request)

    monkeypatch.setattr(BotocoreStubber, "process_request", process_serially)
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "fake")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with quick_moto(), mock_aws():
        yield
