"""What a share of the seeds has besides: it happens, and a mistake in it is found."""

from __future__ import annotations

from collections import Counter

import pytest

from cdclake.lake.raw import normalize
from cdclake.model.table.attributes import Attribute
from cdclake_devkit.patching import replaced
from cdclake_devkit.simulate.case import KEY_UPDATES, Case, Step, drawn
from cdclake_devkit.simulate.faults import FaultPlan
from cdclake_devkit.simulate.simulation import Outcome, simulate

KEY = {Attribute.PRIMARY_KEY: "id"}
UPDATES = {**KEY, KEY_UPDATES: "true", Attribute.UNIQUE_CHECKS: "immediate"}
LOAD = Step(0.0, "load", 0, 1)


def changes(count: int) -> tuple[Step, ...]:
    """Change files, ten minutes apart."""
    return tuple(Step(600.0 * number, "change", 0, number, number) for number in range(1, count + 1))


def simulated(settings: dict[str, str], *steps: Step) -> Outcome:
    """What comes of steps of one table, without faults."""
    return simulate(Case(1, 2.0, (settings,), (LOAD, *steps), FaultPlan(1, 0.0, (), 0.02)))


def test_some_seeds_have_each_feature() -> None:
    found: Counter[str] = Counter()
    for seed in range(200):
        case = drawn(seed)
        found.update({*(name for settings in case.tables for name in settings), *(step.kind for step in case.steps)})
    for feature in (KEY_UPDATES,):
        assert 10 < found[feature] < 60, found


def test_keys_are_updated() -> None:
    assert not simulated(UPDATES, *changes(8)).violations
    with replaced(normalize, "BEFORE_PREFIX", "BEFORE_"):  # the key before is not seen
        (violation, *_) = simulated(UPDATES, *changes(8)).violations
    assert violation.name == "each state equals the oracle"
