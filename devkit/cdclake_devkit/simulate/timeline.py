"""Prints a run: a time line that a person can read, and a test to paste."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cdclake_devkit.simulate.case import Case
    from cdclake_devkit.simulate.simulation import Outcome
    from cdclake_devkit.simulate.world import Entry

_DAY, _HOUR, _MINUTE = 86400, 3600, 60


def time_line(entries: Iterable[Entry]) -> str:
    """One line for each entry: when, who, what."""
    entries = list(entries)
    width = min(max((len(entry.process) for entry in entries), default=0), 48)
    return "\n".join(f"{clock(one.at)}  {one.process:{width}}  {one.text}" for one in entries)


def clock(seconds: float) -> str:
    """A time since the start, for people: `1 02:03:04.56`."""
    days, rest = divmod(seconds, _DAY)
    hours, rest = divmod(rest, _HOUR)
    minutes, rest = divmod(rest, _MINUTE)
    return f"{days:2.0f} {hours:02.0f}:{minutes:02.0f}:{rest:05.2f}"


def as_test(case: Case) -> str:
    """A test of a case, to paste."""
    steps = "".join(
        f"        Step({one.at!r}, {one.kind!r}, {one.table}, {one.seed}, {one.number}),\n" for one in case.steps
    )
    only = "None" if case.only is None else "(\n" + "".join(f"        {one!r},\n" for one in case.only) + "    )"
    kinds = "".join(f"Kind.{kind.name}, " for kind in case.faults.kinds)
    drawn = case.faults
    faults = f"{drawn.seed}, {drawn.rate}, ({kinds}), {drawn.latency_seconds}"
    plan = f"FaultPlan({faults}, {drawn.focus!r}, {drawn.repeated}, {drawn.methods!r})"
    settings = f"{case.seed}, {case.hours}, {case.tables!r}"
    surroundings = f"{case.skew_seconds}, {case.versions}, {case.small_changes}"
    return (
        f"def test_seed_{case.seed}() -> None:\n"
        f"    steps = (\n{steps}    )\n"
        f"    only = {only}\n"
        f"    faults = {plan}\n"
        f"    case = Case(\n        {settings}, steps, faults, only, {surroundings}\n    )\n"
        "    assert simulate(case).violations == ()\n"
    )


def report(outcome: Outcome) -> str:
    """All of it."""
    found = "\n".join(f"{one.name}: {one.text}" for one in outcome.violations)
    return f"{time_line(outcome.time_line)}\n\n{found}\n\n{as_test(outcome.case)}"
