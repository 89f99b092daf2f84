"""After a fault at any call of any run, the next run loses nothing, does nothing twice, and leaves nothing behind.

`make crash` tries every call on a folder, and other calls each time on the slower buckets; of Iceberg tables, with
fewer faults and fewer calls on buckets. CI tries two calls on a folder with each fault, and some on buckets, of runs
that publish, retire and restore; `make test` only some of an Iceberg table.
"""

from __future__ import annotations

import os
from random import random
from typing import TYPE_CHECKING

import pytest

from tests.crash.faults import Fault
from tests.crash.scenarios import SCENARIOS
from tests.crash.trials import ONLY_POINT, Tally, try_points
from tests.tiers import TIER, Tier

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.crash.conftest import NewEnvironment

EVERYTHING = TIER is Tier.THOROUGH
FOLDER, BUCKET, VERSIONED = "folder", "bucket", "versioned bucket"
PLAIN, ICEBERG, BOTH = "folder", "iceberg", "both"
"""What readers open, as in a table's settings."""
FAULTS = [Fault.KILLED, Fault.RAISES, Fault.RESPONSE_LOST]
INTERRUPTED = [Fault.KILLED, Fault.PAUSED]
CALL_FAULTS = {PLAIN: [*FAULTS, Fault.PAUSED], ICEBERG: INTERRUPTED, BOTH: INTERRUPTED}
"""Faults in calls to a folder, by readers."""
SAMPLED_REQUEST_FAULTS = [Fault.KILLED, Fault.RESPONSE_LOST, Fault.CONNECTION_DROPPED]
REQUEST_FAULTS = [*FAULTS, Fault.CONNECTION_DROPPED] if EVERYTHING else SAMPLED_REQUEST_FAULTS
SAMPLES: dict[tuple[str, str], int | None]
"""Number of calls of each run that are tried with each fault, by store and readers; None for all of them."""
if EVERYTHING:
    SAMPLES = {
        (FOLDER, PLAIN): None,
        (BUCKET, PLAIN): 5,
        (VERSIONED, PLAIN): 10,
        (FOLDER, ICEBERG): None,
        (BUCKET, ICEBERG): 2,
        (VERSIONED, ICEBERG): 5,
        (FOLDER, BOTH): 10,
        (BUCKET, BOTH): 2,
        (VERSIONED, BOTH): 2,
    }
else:
    SAMPLES = {(store, readers): 1 for store in (FOLDER, BUCKET, VERSIONED) for readers in (PLAIN, ICEBERG, BOTH)}
    SAMPLES[FOLDER, PLAIN] = 2
LEFT_OUT: dict[str, set[str]] = {PLAIN: {"clean-up-expired"}, ICEBERG: set(), BOTH: set()}
"""Runs that such a table does not have: in a folder nothing expires."""
SCENARIOS_OF = {readers: [name for name in SCENARIOS if name not in left_out] for readers, left_out in LEFT_OUT.items()}
SAMPLED = [
    (FOLDER, ICEBERG, "LoadIncremental-readers"),
    *(
        pytest.param(store, readers, scenario, marks=pytest.mark.long)
        for store, readers, scenario in (
            *(
                (FOLDER, PLAIN, scenario)
                for scenario in (
                    "LoadIncremental",
                    "LoadInitial-reload",
                    "run-takeover",
                    "ProcessTable",
                    "rollback",
                    "rollback-to",
                    "reapply",
                    "repair",
                    "clean-up",
                    "erase",
                )
            ),
            *((FOLDER, ICEBERG, scenario) for scenario in ("rollback-to", "clean-up-expired", "erase")),
            *((FOLDER, BOTH, scenario) for scenario in ("LoadIncremental-both", "rollback-to")),
            (BUCKET, PLAIN, "rollback"),
            (VERSIONED, PLAIN, "rollback-to"),
            (VERSIONED, ICEBERG, "ProcessTable-takeover"),
        )
    ),
]
ALL = [
    (store, readers, scenario)
    for store in (VERSIONED, BUCKET, FOLDER)
    for readers in (PLAIN, ICEBERG, BOTH)
    for scenario in SCENARIOS_OF[readers]
]


@pytest.mark.slow
@pytest.mark.aws
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("store", "readers", "scenario"), ALL if EVERYTHING else SAMPLED)
def test_after_a_fault_at_any_call_the_next_run_completes_the_work(
    store: str,
    readers: str,
    scenario: str,
    new_environment: NewEnvironment,
    record_tally: Callable[[Tally], None],
    request: pytest.FixtureRequest,
) -> None:
    faults = CALL_FAULTS[readers] if store == FOLDER else REQUEST_FAULTS
    failures: list[str] = []
    with new_environment(store) as (environment, folder):
        sample, shift = SAMPLES[store, readers], random() if EVERYTHING else 0.0
        for tally in try_points(environment, folder, SCENARIOS[scenario], faults, sample, shift, readers):
            record_tally(tally)
            failures += tally.failures.values()
            assert tally.tried or ONLY_POINT in os.environ, f"no call was hit: {tally}"
    command = f"CDCLAKE_TESTS=thorough {ONLY_POINT}='<fault>:<call>' .venv/bin/python -m pytest '{request.node.nodeid}'"
    assert not failures, "\n".join([*failures, f"To try one of them: {command}"])
