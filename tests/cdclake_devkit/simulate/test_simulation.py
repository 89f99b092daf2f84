"""Seeds run without a violation, alike each time. That they find mistakes, the mutants show."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from cdclake_devkit.memory import MemoryStore
from cdclake_devkit.patching import replaced
from cdclake_devkit.simulate.case import Case, Step, drawn
from cdclake_devkit.simulate.faults import Fault, FaultPlan, Kind
from cdclake_devkit.simulate.shrink import shrink
from cdclake_devkit.simulate.simulation import Outcome, simulate
from cdclake_devkit.simulate.timeline import as_test, report, time_line
from tests.conftest import COUNTS

HOURS = 2.0


def checked(seed: int) -> Counter[str]:
    outcome = simulate(drawn(seed, HOURS))
    assert not outcome.violations, f"make simulate SEEDS={seed}-{seed} HOURS={HOURS:g} shows\n{outcome.violations}"
    return outcome.counts


@pytest.mark.parametrize(
    "seed",
    [
        *range(3),
        pytest.param(9000336, id="sleeps while a lease is renewed within a call"),
        pytest.param(10010484, id="slow tasks end with the faults"),
        pytest.param(13010796, id="retires a file of the history within a call that came late"),
    ],
)
def test_a_few_seeds_hold_all_invariants(seed: int) -> None:
    assert checked(seed)["calls of lake"] > 50


@pytest.mark.slow
@pytest.mark.parametrize("first", [3, *(pytest.param(first, marks=pytest.mark.long) for first in (53, 103, 153))])
def test_seeds_hold_all_invariants_and_meet_every_kind_of_fault(first: int, request: pytest.FixtureRequest) -> None:
    counts: Counter[str] = Counter()
    seeds = range(first, first + 50)
    for seed in seeds:
        counts.update(checked(seed))
    request.node.user_properties.append((COUNTS, {"seeds": len(seeds), **dict(sorted(counts.items()))}))
    assert all(counts[f"faults: {kind.value}"] for kind in Kind), counts
    for what in ("changes: takeover", "changes: erasure", "done: rollback"):
        assert counts[what] > 1, counts


@pytest.mark.slow
def test_a_seed_gives_the_same_run_byte_for_byte() -> None:
    first, second = simulate(drawn(0, HOURS)), simulate(drawn(0, HOURS))
    assert first.digest == second.digest
    assert time_line(first.time_line) == time_line(second.time_line)
    assert first.digest != simulate(drawn(1, HOURS)).digest


def test_the_faults_of_a_run_alone_give_the_same_run() -> None:
    drawn_outcome = next(outcome for seed in range(20) if (outcome := simulate(drawn(seed, HOURS))).faults)
    assert simulate(replace(drawn_outcome.case, only=drawn_outcome.faults)).digest == drawn_outcome.digest


def test_a_run_that_slept_goes_on_while_the_one_that_overtook_it_works() -> None:
    steps = (Step(0.0, "load", 0, 1), Step(1100.0, "run", 0, 2, 1))
    plan = FaultPlan(1, 0.0, (), 0.02)
    for calls, when in ((0, "run1.process1.load1 has released its lease"), (5, "run1.process1 has its lease")):
        sleeps = Fault("load0.load.event0.process1", 4, Kind.OVERTAKEN, 4000.0, calls)
        outcome = simulate(Case(1, 2.0, ({"PrimaryKey": "id"},), steps, plan, (sleeps,)))
        assert f"goes on, as {when}" in time_line(outcome.time_line)
        assert not outcome.violations


def first_violation() -> Outcome:
    """What the first seed with a violation comes to."""
    for seed in range(200):
        outcome = simulate(drawn(seed, HOURS))
        if outcome.violations:
            return outcome
    raise AssertionError("no seed found it")


@pytest.mark.slow
def test_a_mistake_is_found_shrunk_and_shown() -> None:
    with replaced(MemoryStore, "retire", lambda *_: None):  # old files stay where readers see them
        failed = first_violation()
        small = shrink(failed, seconds=20)
    assert "readers" in small.violations[0].name
    assert small.violations[0].name == failed.violations[0].name
    assert len(small.case.steps) <= 3 < len(failed.case.steps)
    assert small.faults == ()
    text = report(small)
    assert "commits change 2 of a: " in text
    assert "def test_seed_" in text
    assert not simulate(small.case).violations


def test_the_test_to_paste_runs_the_same_case() -> None:
    case = replace(drawn(8, HOURS), only=(Fault("load0.load.event0", 2, Kind.PAUSE_AFTER, 45.0),))
    names = {"Case": Case, "Fault": Fault, "FaultPlan": FaultPlan, "Kind": Kind, "Step": Step}
    ran: list[Case] = []

    def simulates(one: Case) -> Outcome:
        ran.append(one)
        return replace(outcome, violations=())

    outcome = simulate(case)
    exec(as_test(case), {**names, "simulate": simulates}, names)
    names["test_seed_8"]()
    assert ran == [case]
