"""After a fault at any call of any run, the next run loses nothing, does nothing twice, and leaves nothing behind.

`make crash` tries every call on a folder, and other calls each time on the slower buckets. `make test` tries a small
sample on a folder, and CI also one on buckets, of runs that publish, retire and restore.
"""

from __future__ import annotations

import os
from random import random
from typing import TYPE_CHECKING

import pytest

from tests.crash.faults import Fault
from tests.crash.scenarios import SCENARIOS
from tests.crash.trials import ONLY_POINT, try_points

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.crash.environments import Environment
    from tests.crash.trials import Tally

    NewEnvironment = Callable[[str], AbstractContextManager[tuple[Environment, Path]]]

EVERYTHING = os.environ.get("CDCLAKE_TESTS") == "crash"
FOLDER, BUCKET, VERSIONED = "folder", "bucket", "versioned bucket"
FAULTS = [Fault.KILLED, Fault.RAISES, Fault.RESPONSE_LOST]
CALL_FAULTS = [*FAULTS, Fault.PAUSED]
SAMPLED_REQUEST_FAULTS = [Fault.KILLED, Fault.RESPONSE_LOST, Fault.CONNECTION_DROPPED]
REQUEST_FAULTS = [*FAULTS, Fault.CONNECTION_DROPPED] if EVERYTHING else SAMPLED_REQUEST_FAULTS
SAMPLES: dict[str, int | None]
"""Number of calls of each run that are tried with each fault; None for all of them."""
SAMPLES = {FOLDER: None, BUCKET: 10, VERSIONED: 30} if EVERYTHING else {FOLDER: 3, BUCKET: 1, VERSIONED: 1}
SAMPLED = [
    *((FOLDER, scenario) for scenario in SCENARIOS if scenario != "LoadIncremental-purge"),
    *(
        pytest.param(store, scenario, marks=pytest.mark.long)
        for store, scenario in (
            (BUCKET, "ProcessTable-takeover"),
            (BUCKET, "rollback"),
            (VERSIONED, "LoadIncremental"),
            (VERSIONED, "rollback-to"),
            (VERSIONED, "reapply"),
        )
    ),
]
ALL = [(store, scenario) for store in (VERSIONED, BUCKET, FOLDER) for scenario in SCENARIOS]


@pytest.mark.slow
@pytest.mark.aws
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("store", "scenario"), ALL if EVERYTHING else SAMPLED)
def test_after_a_fault_at_any_call_the_next_run_completes_the_work(
    store: str,
    scenario: str,
    new_environment: NewEnvironment,
    record_tally: Callable[[Tally], None],
    request: pytest.FixtureRequest,
) -> None:
    faults = CALL_FAULTS if store == FOLDER else REQUEST_FAULTS
    failures: list[str] = []
    with new_environment(store) as (environment, folder):
        for tally in try_points(
            environment, folder, SCENARIOS[scenario], faults, SAMPLES[store], random() if EVERYTHING else 0.0
        ):
            record_tally(tally)
            failures += tally.failures.values()
            assert tally.tried or ONLY_POINT in os.environ, f"no call was hit: {tally}"
    command = f"CDCLAKE_TESTS=crash {ONLY_POINT}='<fault>:<call>' .venv/bin/python -m pytest '{request.node.nodeid}'"
    assert not failures, "\n".join([*failures, f"To try one of them: {command}"])
