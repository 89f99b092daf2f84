"""What a share of the seeds has besides: it happens, and a mistake in it is found."""

from __future__ import annotations

from collections import Counter

from cdclake.control.plan import plan_table
from cdclake.control.plan.left_out import LeftOut
from cdclake.control.plan.lost_files import Vanished
from cdclake.lake.raw import normalize
from cdclake.model.table.attributes import Attribute
from cdclake_devkit.patching import replaced
from cdclake_devkit.simulate.case import KEY_UPDATES, LOSE, OVERWRITE, Case, Step, drawn
from cdclake_devkit.simulate.faults import Fault, FaultPlan, Kind
from cdclake_devkit.simulate.simulation import Outcome, simulate

KEY = {Attribute.PRIMARY_KEY: "id"}
UPDATES = {**KEY, KEY_UPDATES: "true", Attribute.UNIQUE_CHECKS: "immediate"}
LOAD = Step(0.0, "load", 0, 1)


def changes(count: int) -> tuple[Step, ...]:
    """Change files, ten minutes apart."""
    return tuple(Step(600.0 * number, "change", 0, number, number) for number in range(1, count + 1))


def simulated(settings: dict[str, str], *steps: Step, faults: tuple[Fault, ...] = ()) -> Outcome:
    """What comes of steps of one table."""
    return simulate(Case(1, 2.0, (settings,), (LOAD, *steps), FaultPlan(1, 0.0, (), 0.02), faults))


def test_some_seeds_have_each_feature() -> None:
    found: Counter[str] = Counter()
    for seed in range(200):
        case = drawn(seed)
        found.update({*(name for settings in case.tables for name in settings), *(step.kind for step in case.steps)})
    for feature in (KEY_UPDATES, LOSE, OVERWRITE):
        assert 10 < found[feature] < 60, found


def test_keys_are_updated() -> None:
    assert not simulated(UPDATES, *changes(8)).violations
    with replaced(normalize, "BEFORE_PREFIX", "BEFORE_"):  # the key before is not seen
        (violation, *_) = simulated(UPDATES, *changes(8)).violations
    assert violation.name == "each state equals the oracle"


def test_a_lost_file_is_missed_until_a_reload() -> None:
    """A run dies that has noted it, and it goes before the next one."""
    steps = (Step(4000.0, "change", 0, 1, 1), Step(4400.0, LOSE, 0, 1, 2))
    dies = Fault("change1.file0.event0.process1.load1", 14, Kind.KILL_BEFORE)
    outcome = simulated(KEY, *steps, faults=(dies,))
    assert not outcome.violations
    assert any("RawFilesLostError" in one.text for one in outcome.time_line)
    with replaced(plan_table, "vanished", lambda *_: Vanished((), 0)):
        assert simulated(KEY, *steps, faults=(dies,)).violations[0].name == "damage is shown"


def test_an_overwritten_file_is_shown_until_a_reload() -> None:
    steps = (*changes(2), Step(2400.0, OVERWRITE, 0, 1, 7))
    outcome = simulated(KEY, *steps)
    assert not outcome.violations
    assert sum("full load" in one.text and "commits" in one.text for one in outcome.time_line) == 2
    with replaced(LeftOut, "findings", lambda *_: ()):
        assert simulated(KEY, *steps).violations[0].name == "damage is shown"
