"""Injects a fault into each call of a run in turn, until a run ends before its fault."""

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
from tests.crash.children import Child
from tests.crash.environments import AwsEnvironment, Environment
from tests.crash.faults import Fault, Injector, Point, kill
from tests.crash.runner import Runner
from tests.crash.sandbox import Sandbox, View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from cdclake_devkit.oracle import LakeRow
    from tests.crash.scenarios import Scenario
    from tests.crash.wire import Watch

ONLY_POINT = "CDCLAKE_CRASH_POINT"
"""Environment variable: the only point to try, as `<fault>:<number of the call>`."""
MAX_FAILURES = 5
TIDY_EVERY, UNDO_EVERY = 3, 6
"""In the slow embedded AWS, and where every call is tried, only every third trial repeats the run and cleans up, and
every sixth also rolls it back: these take longest, and neighboring calls leave much the same. `shift` decides which."""


@dataclass
class Tally:
    """The results of all trials of one run and fault.

    Attributes:
        calls: Number of calls in a run without faults, of those that the fault can hit.
        tried: Number of calls that were hit.
        failures: Errors by number of the call.
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
    environment: Environment,
    folder: Path,
    scenario: Scenario,
    faults: Sequence[Fault],
    sample: int | None = None,
    shift: float = 0.0,
    readers: str = "folder",
) -> Iterator[Tally]:
    """Inject faults into each call of a scenario's run in turn, and check the runs that follow.

    For each fault, ends with the first call that the run does not reach. That run is checked like the others.

    Args:
        environment: An empty environment.
        folder: An empty folder.
        faults: The faults to try, in turn.
        sample: Number of calls to try per fault, spread over the run; None: all of them.
        shift: From 0 to less than 1; shifts the sample, and what is checked after it.
        readers: What readers of the table open, as in its settings.
    """
    sandbox = Sandbox(environment, folder, readers)
    store = environment.name if readers == "folder" else f"{environment.name}, {readers}"
    expected = scenario.prepare(sandbox)
    before = sandbox.view()
    sandbox.save()
    calls: dict[bool, int] = {}
    for turn, fault in enumerate(faults):
        if fault is Fault.PAUSED and not scenario.may_overlap:
            continue
        started = time.perf_counter()
        tally = Tally(store, scenario.name, fault.value)
        writes_only = skips_reads(environment, fault)
        if writes_only not in calls:
            sandbox.restore()
            calls[writes_only] = _Trial(sandbox, scenario, before, expected).count(Point(fault, 0, writes_only))
        tally.calls = calls[writes_only]
        is_long, offset = sample is None or isinstance(environment, AwsEnvironment), turn + int(shift * UNDO_EVERY)
        for call in _numbers(fault, tally.calls, sample, (turn / len(faults) + shift) % 1):
            sandbox.restore()
            trial = _Trial(sandbox, scenario, before, expected)
            try:
                trial.inject(Point(fault, call, writes_only))
                tidy, undo = (not is_long or (call + offset) % every == 1 for every in (TIDY_EVERY, UNDO_EVERY))
                trial.check(tidy=tidy, undo=undo)
            except Exception:  # noqa: BLE001 - every failure is reported at the end
                tally.failures[call] = f"{fault.value}:{call}, {trial.hit or 'not hit'}\n{traceback.format_exc()}"
            if not trial.hit:
                break
            tally.tried += 1
            if len(tally.failures) == MAX_FAILURES:
                break
        tally.seconds = time.perf_counter() - started
        yield tally


def skips_reads(environment: Environment, fault: Fault) -> bool:
    """Whether a fault need not be injected into reads.

    A read changes nothing, so a kill after a read equals one after the last write, and a lost answer to a read equals a
    read that raises. In the slow embedded AWS, reads that raise are tried with one kind of bucket.
    """
    return fault.is_after_call or (isinstance(environment, AwsEnvironment) and not environment.versioned)


def _numbers(fault: Fault, calls: int, sample: int | None, turn: float) -> Iterable[int]:
    """Numbers of the calls to try.

    Args:
        calls: Number of calls, as far as it is known.
        turn: From 0 to less than 1; shifts the sample.
    """
    chosen = os.environ.get(ONLY_POINT)
    if chosen:
        wanted, _, number = chosen.rpartition(":")
        return [int(number)] if wanted == fault.value else []
    if sample is None:
        return count(1)
    return sorted({1 + int((i + turn) * calls / sample) for i in range(sample)})


class _Trial:
    """One fault, and the checks after it."""

    def __init__(self, sandbox: Sandbox, scenario: Scenario, before: View, expected: list[LakeRow]) -> None:
        self._sandbox = sandbox
        self._scenario = scenario
        self._before = before
        self._expected = expected
        self.hit = ""

    def count(self, point: Point) -> int:
        """Make the run without a fault; returns the number of calls that the fault can hit."""
        environment, injector = self._sandbox.environment, Injector(point)
        if isinstance(environment, AwsEnvironment):
            return self._inject_on_wire(environment, Point(Fault.RAISES, point.call, point.writes_only)).calls
        self._run_here(Runner(self._sandbox.spec(), injector))
        return injector.calls

    def inject(self, point: Point) -> None:
        """Make the run with a fault, and set `hit`, which stays empty if the run ends before the fault."""
        environment = self._sandbox.environment
        if isinstance(environment, AwsEnvironment):
            self._inject_on_wire(environment, point)
        elif point.fault.kills:
            outcome = Child(self._scenario.name, self._sandbox.spec(), point).wait()
            assert not outcome.error, outcome.error
            self.hit = outcome.hit
        else:
            injector = Injector(point, meanwhile=self._next_run)
            error = self._run_here(Runner(self._sandbox.spec(), injector))
            self.hit = injector.hit
            if error and not self.hit:
                raise error

    def _inject_on_wire(self, environment: AwsEnvironment, point: Point) -> Watch:
        spec, pid = self._sandbox.spec(), Future[int]()
        error: Exception | None = None
        with environment.wire.watching(point, lambda: kill(pid.result())) as watch:
            if point.fault.kills:
                child = Child(self._scenario.name, spec, None)
                pid.set_result(child.pid)
                outcome = child.wait()
                assert not outcome.error, outcome.error
                assert outcome.killed == bool(watch.hit)
            else:
                error = self._run_here(Runner(spec))
        self.hit = watch.hit
        if error and not self.hit:
            raise error
        return watch

    def _run_here(self, runner: Runner) -> Exception | None:
        """Make the run in this process; returns its error if runs may raise it."""
        try:
            self._scenario.run(runner)
        except (CdclakeError, OSError) as error:
            return error
        return None

    def check(self, *, tidy: bool, undo: bool) -> None:
        """Check what readers see, then make the next runs.

        Args:
            tidy: Whether to check also that another run changes nothing, that a clean-up leaves nothing behind, and
                that the item agrees with the lake.
            undo: Whether to roll back and reapply the last change then.
        """
        sandbox, scenario = self._sandbox, self._scenario
        checks.check_readers(self._before, sandbox.view())
        self._next_run()
        self._check_table()
        if not tidy:
            return
        self._check_idle_run(scenario.idle_run)
        self._clean_up()
        checks.check_clean(sandbox.view())
        self._check_table()
        if not scenario.deactivates:
            sandbox.runner().activate()
            sandbox.runner().bring_up_to_date()
        self._check_table()
        self._check_books()
        if undo:
            self._undo_and_reapply()

    def _next_run(self) -> None:
        self._sandbox.expire_lease()
        self._scenario.next_run(self._sandbox.runner(), self._sandbox)

    def _check_idle_run(self, run: Callable[[Runner], object]) -> None:
        before = self._sandbox.view()
        run(self._sandbox.runner())
        assert self._sandbox.view().objects == before.objects, "an idle run changed something"

    def _clean_up(self) -> None:
        """Clean up, long after the last change.

        The first clean-up may commit a takeover, to fence off a run that was paused. Then it leaves the Iceberg
        metadata that readers may still open.
        """
        head, newest = -1, self._sandbox.view().log.head()
        while newest != head:
            self._sandbox.environment.age_files()
            self._sandbox.runner().clean_up()
            head, newest = newest, self._sandbox.view().log.head()

    def _undo_and_reapply(self) -> None:
        """The last change can be undone and reapplied. What the run itself undid comes back unchanged."""
        sandbox = self._sandbox
        sandbox.runner().rollback(self._scenario.rollback_to)
        undone = sandbox.view()
        checks.check_files(undone, undone.log.snapshot(undone.log.head()))
        assert not sandbox.state().active
        sandbox.runner().reapply()
        self._check_table()
        if self._scenario.deactivates:
            while sandbox.view().visible.keys() != self._before.visible.keys():
                sandbox.runner().reapply()
        self._check_books()

    def _check_table(self) -> None:
        view = self._sandbox.view()
        checks.check_table(view, self._expected)
        checks.check_iceberg(view, is_expected=self._sandbox.state().settings.readers.open_iceberg)

    def _check_books(self) -> None:
        """Item and catalog agree with the lake."""
        sandbox = self._sandbox
        checks.check_item(sandbox.view(), sandbox.state())
        checks.check_catalog(sandbox.view(), sandbox.state(), sandbox.environment.catalog())
