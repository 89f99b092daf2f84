"""Runs a case."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING

from cdclake_devkit.simulate.actors.dms import damage, repair_damaged, write_change, write_load
from cdclake_devkit.simulate.actors.jobs import Jobs, run_controller
from cdclake_devkit.simulate.actors.operators import activate, operate, operate_again
from cdclake_devkit.simulate.case import ADD_COLUMN, ADOPT, HOUR, LOSE, OVERWRITE, QUIET_HOURS, Case, Step
from cdclake_devkit.simulate.invariants import Invariants
from cdclake_devkit.simulate.scheduler import Process
from cdclake_devkit.simulate.standard_library import simulated
from cdclake_devkit.simulate.world import World

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from cdclake_devkit.simulate.faults import Fault
    from cdclake_devkit.simulate.world import Entry, Violation


@dataclass(frozen=True)
class Outcome:
    """What came of a case.

    Attributes:
        time_line: What happened.
        violations: What did not hold; the run ended there.
        faults: The faults that happened.
        counts: Counts of calls, faults, commits, ...
        digest: Tells runs apart: of the time line and of all that the stores hold.
    """

    case: Case
    time_line: tuple[Entry, ...]
    violations: tuple[Violation, ...]
    faults: tuple[Fault, ...]
    counts: Counter[str]
    digest: str


def simulate(case: Case) -> Outcome:
    """Run a case to its end, or to the first violation."""
    world = World(case)
    invariants, jobs = Invariants(world), Jobs(world)
    for step in case.steps:
        world.scheduler.spawn(Process("plan"), _starter(world, jobs, step, step.name), step.at)
    rest = case.hours * HOUR
    for step in case.steps:
        if step.kind == ADOPT:  # again, as the operator may have died
            for again, at in enumerate((step.at + 900, step.at + 2700, rest)):
                name = f"{step.name}.again{again}.{ADOPT}"
                world.scheduler.spawn(Process("plan"), _starter(world, jobs, step, name), at)
    for number in range(len(case.tables)):
        for again in range(3):  # an operator who slept may have turned it off since
            activate(world, number, f"rest.{world.tables[number].name}.{again}", rest + again * 1.2 * HOUR)
    for hour in range(QUIET_HOURS):
        step = Step(0, "controller", 0, 0)
        world.scheduler.spawn(Process("plan"), _starter(world, jobs, step, f"quiet{hour}"), rest + 60 + hour * HOUR)

    def undo_damage() -> None:
        invariants.damage_is_shown()
        repair_damaged(world, jobs, {name: seen.states[-1].applied for name, seen in invariants.seen.items()})

    # Until then DMS may write a file again: who does that after a reload takes rows back.
    world.scheduler.spawn(Process("plan"), undo_damage, rest + 3.9 * HOUR)
    operate_again(world, rest + 2.5 * HOUR)
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with simulated(world.scheduler, Random(f"{case.seed}|ids")):
            world.scheduler.run(rest + QUIET_HOURS * HOUR)
            if not world.violations:
                invariants.at_rest()
    finally:
        logging.disable(disabled)
    return Outcome(
        case,
        tuple(world.time_line),
        tuple(world.violations),
        tuple(world.faults.happened),
        world.counts,
        _digest(world),
    )


def _starter(world: World, jobs: Jobs, step: Step, name: str) -> Callable[[], None]:
    def start() -> None:
        if step.kind == "controller":
            run_controller(world, jobs, name)
        elif step.kind == "run":
            run_controller(world, jobs, name, [world.state(world.tables[step.table]).name])
        elif step.kind == "change":
            write_change(world, jobs, step, name)
        elif step.kind == ADD_COLUMN:
            world.tables[step.table].add_column()
            world.note(name, f"adds a column to {world.tables[step.table].name}")
        elif step.kind in (LOSE, OVERWRITE):
            damage(world, jobs, step, name)
        elif step.kind == "load":
            write_load(world, jobs, step, name)
        else:
            operate(world, step, name)

    return start


def _digest(world: World) -> str:
    hashed = sha256()
    for entry in world.time_line:
        hashed.update(f"{entry.at!r} {entry.process} {entry.text}\n".encode())
    for store in (world.raw, world.lake):
        for listed in store.list(""):
            hashed.update(f"{listed.key} {listed.etag} {listed.modified_utc}\n".encode())
    for state in sorted(world.states.all(), key=lambda one: one.path):
        hashed.update(repr(sorted(state.item.items())).encode())
    return hashed.hexdigest()
