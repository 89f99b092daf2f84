"""A fault at every call of every run, then the next run: nothing is lost, done twice, or left lying about.

`make crash` tries every call. `make test` tries a part of them, spread over the runs, in the embedded AWS those runs
that publish, retire and restore.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.crash.faults import Fault
from tests.crash.matrix import ONE_POINT, try_points
from tests.crash.scenarios import SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.crash.matrix import Tally
    from tests.crash.worlds import World

    NewWorld = Callable[[str], AbstractContextManager[tuple[World, Path]]]

EVERYTHING = os.environ.get("CDCLAKE_TESTS") == "crash"
FOLDER, BUCKET, VERSIONED = "folder", "bucket", "versioned bucket"
FAULTS = [Fault.KILLED_BEFORE, Fault.KILLED_AFTER, Fault.RAISES, Fault.ANSWER_LOST]
CALL_FAULTS = [*FAULTS, Fault.PAUSED]
OF_REQUESTS = [Fault.KILLED_AFTER, Fault.ANSWER_LOST, Fault.CONNECTION_DROPPED]
REQUEST_FAULTS = [*FAULTS, Fault.CONNECTION_DROPPED] if EVERYTHING else OF_REQUESTS
SAMPLES = {FOLDER: 3, BUCKET: 1, VERSIONED: 1}
"""In `make test`, so many calls of each run are tried with each fault."""
EVERY_DAY = [
    *((FOLDER, scenario) for scenario in SCENARIOS if scenario != "LoadIncremental-purge"),
    (BUCKET, "ProcessTable-takeover"),
    (BUCKET, "rollback"),
    (VERSIONED, "LoadIncremental"),
    (VERSIONED, "rollback-to"),
    (VERSIONED, "reapply"),
]
ALL = [(store, scenario) for store in (VERSIONED, BUCKET, FOLDER) for scenario in SCENARIOS]


@pytest.mark.slow
@pytest.mark.aws
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("store", "scenario"), ALL if EVERYTHING else EVERY_DAY)
def test_a_run_that_is_struck_at_any_call_is_made_good_by_the_next(
    store: str,
    scenario: str,
    new_world: NewWorld,
    keep_tally: Callable[[Tally], None],
    request: pytest.FixtureRequest,
) -> None:
    faults = CALL_FAULTS if store == FOLDER else REQUEST_FAULTS
    failures: list[str] = []
    with new_world(store) as (world, folder):
        for tally in try_points(world, folder, SCENARIOS[scenario], faults, None if EVERYTHING else SAMPLES[store]):
            keep_tally(tally)
            failures += tally.failures.values()
            assert tally.tried or ONE_POINT in os.environ, f"there was nothing to strike: {tally}"
    one = f"CDCLAKE_TESTS=crash {ONE_POINT}='<fault>:<call>' .venv/bin/python -m pytest '{request.node.nodeid}'"
    assert not failures, "\n".join([*failures, f"To try one alone: {one}"])
