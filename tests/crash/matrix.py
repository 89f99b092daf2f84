"""Tries a fault at one call of a run after the other, until a run comes to its end without having been struck."""

from __future__ import annotations

import os
import time
import traceback
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from cdclake.errors import CdclakeError
from tests.crash import checks
from tests.crash.actor import Actor
from tests.crash.children import Child
from tests.crash.faults import Fault, Injector, Point, kill
from tests.crash.stage import Stage
from tests.crash.worlds import AwsWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from cdclake.oracle import LakeRow
    from tests.crash.scenarios import Scenario
    from tests.crash.stage import View
    from tests.crash.wire import Watch
    from tests.crash.worlds import World

ONE_POINT = "CDCLAKE_CRASH_POINT"
"""Environment variable: the one point to try, as `<fault>:<number of the call>`."""
MOST_FAILURES = 5
UNDO_EVERY = 5
"""In the embedded AWS, where that takes longest, the table is rolled back after one of so many faults."""


@dataclass
class Tally:
    """What came of the points of one run and fault.

    Attributes:
        calls: Calls that the run makes when nothing happens, of those that the fault may strike.
        tried: Calls that were struck.
        failures: What went wrong after them, by number of the call.
    """

    store: str
    scenario: str
    fault: str
    calls: int = 0
    tried: int = 0
    seconds: float = 0.0
    failures: dict[int, str] = field(default_factory=dict)

    @property
    def survived(self) -> int:
        return self.tried - len(self.failures)


def try_points(
    world: World, folder: Path, scenario: Scenario, faults: Sequence[Fault], sample: int | None = None
) -> Iterator[Tally]:
    """Strike at one call of a scenario's run after the other, and see what the next runs make of it.

    For each fault it ends with the first call that the run does not get to. That run is checked like the others.

    Args:
        world: An empty world.
        folder: An empty folder.
        faults: The faults to try, one after the other.
        sample: Try so many calls of each fault, spread over the run; None: all of them.
    """
    stage = Stage(world, folder)
    expected = scenario.prepare(stage)
    before = stage.look()
    stage.save()
    for turn, fault in enumerate(faults):
        if fault is Fault.PAUSED and not scenario.may_come_twice:
            continue
        started = time.perf_counter()
        tally = Tally(world.name, scenario.name, fault.value)
        changes_only = counts_changes_only(world, fault)
        stage.restore()
        tally.calls = _Trial(stage, scenario, before, expected).count(Point(fault, 0, changes_only))
        for call in _numbers(fault, tally.calls, sample, turn / len(faults)):
            stage.restore()
            trial = _Trial(stage, scenario, before, expected)
            try:
                trial.strike(Point(fault, call, changes_only))
                trial.check(undo=not isinstance(world, AwsWorld) or call % UNDO_EVERY == 1)
            except Exception:  # noqa: BLE001 - every failure is told at the end
                tally.failures[call] = f"{fault.value}:{call}, {trial.struck or 'not struck'}\n{traceback.format_exc()}"
            if not trial.struck:
                break
            tally.tried += 1
            if len(tally.failures) == MOST_FAILURES:
                break
        tally.seconds = time.perf_counter() - started
        yield tally


def counts_changes_only(world: World, fault: Fault) -> bool:
    """Whether a fault need not strike at calls that only read.

    After a read everything is as before it, so that a fault after it is one that strikes before: it is tried there. In
    the embedded AWS, where a trial takes longest, no run is killed before a read either, as that is as if it had been
    killed after the last call that changed something; and reads that raise are tried with one kind of bucket.
    """
    if fault.strikes_after:
        return True
    return isinstance(world, AwsWorld) and (fault.kills or not world.versioned)


def _numbers(fault: Fault, calls: int, sample: int | None, turn: float) -> Iterable[int]:
    """Numbers of the calls to try.

    Args:
        calls: So many there are, as far as is known.
        turn: From 0 to less than 1; with others, other calls are taken for a sample.
    """
    chosen = os.environ.get(ONE_POINT)
    if chosen:
        wanted, _, number = chosen.rpartition(":")
        return [int(number)] if wanted == fault.value else []
    if sample is None:
        return count(1)
    return sorted({1 + int((i + turn) * calls / sample) for i in range(sample)})


class _Trial:
    """One fault and what follows."""

    def __init__(self, stage: Stage, scenario: Scenario, before: View, expected: list[LakeRow]) -> None:
        self._stage = stage
        self._scenario = scenario
        self._before = before
        self._expected = expected
        self.struck = ""

    def count(self, point: Point) -> int:
        """Make the run without a fault; returns how many calls it made, of those that the fault may strike."""
        world, injector = self._stage.world, Injector(point)
        if isinstance(world, AwsWorld):
            return self._strike_on_the_wire(world, Point(Fault.RAISES, point.call, point.changes_only)).calls
        self._run_here(Actor(self._stage.task(), injector))
        return injector.calls

    def strike(self, point: Point) -> None:
        """Make the run with a fault. What was struck stands in `struck`, which is empty if the run is over before."""
        world = self._stage.world
        if isinstance(world, AwsWorld):
            self._strike_on_the_wire(world, point)
        elif point.fault.kills:
            ending = Child(self._scenario.name, self._stage.task(), point).wait()
            assert not ending.error, ending.error
            self.struck = ending.struck
        else:
            injector = Injector(point, meanwhile=self._next_run)
            error = self._run_here(Actor(self._stage.task(), injector))
            self.struck = injector.struck
            if error and not self.struck:
                raise error

    def _strike_on_the_wire(self, world: AwsWorld, point: Point) -> Watch:
        task, pid = self._stage.task(), Future[int]()
        error: Exception | None = None
        with world.wire.watching(point, lambda: kill(pid.result())) as watch:
            if point.fault.kills:
                child = Child(self._scenario.name, task, None)
                pid.set_result(child.pid)
                ending = child.wait()
                assert not ending.error, ending.error
                assert ending.killed == bool(watch.struck)
            else:
                error = self._run_here(Actor(task))
        self.struck = watch.struck
        if error and not self.struck:
            raise error
        return watch

    def _run_here(self, actor: Actor) -> Exception | None:
        """Make the run in this process; returns what it raised, if that is something that a run may raise."""
        try:
            self._scenario.run(actor)
        except (CdclakeError, OSError) as error:
            return error
        return None

    def check(self, *, undo: bool) -> None:
        """See what readers see, then let the next runs come.

        Args:
            undo: Whether to roll back what came of it, and to apply it again.
        """
        stage, scenario = self._stage, self._scenario
        checks.check_for_readers(self._before, stage.look())
        self._next_run()
        checks.check_table(stage.look(), self._expected)
        self._leaves_all_as_it_is(scenario.after_that)
        stage.world.let_files_age()
        stage.actor().clean_up()
        checks.check_clean(stage.look())
        checks.check_table(stage.look(), self._expected)
        if not scenario.pauses:
            stage.actor().turn_on()
            stage.actor().process_table()
        checks.check_table(stage.look(), self._expected)
        checks.check_item(stage.look(), stage.state())
        if undo:
            self._there_and_back()

    def _next_run(self) -> None:
        self._stage.outlive_lease()
        self._scenario.next_run(self._stage.actor(), self._stage)

    def _leaves_all_as_it_is(self, run: Callable[[Actor], object]) -> None:
        before = self._stage.look()
        run(self._stage.actor())
        assert self._stage.look().objects == before.objects, "a run that had nothing to do did something"

    def _there_and_back(self) -> None:
        """The last change can be undone and done again; what the run itself undid comes back as it was."""
        stage = self._stage
        stage.actor().rollback(self._scenario.goes_back_to)
        undone = stage.look()
        checks.check_files(undone, undone.log.snapshot(undone.log.head()))
        assert not stage.state().active
        stage.actor().reapply()
        checks.check_table(stage.look(), self._expected)
        if self._scenario.pauses:
            while stage.look().visible.keys() != self._before.visible.keys():
                stage.actor().reapply()
        checks.check_item(stage.look(), stage.state())
