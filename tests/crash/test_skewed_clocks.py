"""Runs and commands on machines whose clocks are minutes and hours apart: paused, killed, and overtaken by others.

Whatever they do to each other, readers see the newest change and no key twice, changes ascend in time, and a read as of
a time finds the last change up to it. A writer whose clock is behind says so in its change. That is what a folder
without a server offers. On AWS all use the server's time, so a live lease is respected, too.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from email.utils import format_datetime
from itertools import cycle, repeat
from typing import TYPE_CHECKING, Any

import pytest

from cdclake.adapters.aws import ServerClock
from cdclake.control.run.lease import LEASE_SECONDS
from cdclake.errors import CdclakeError, LeaseHeldError
from cdclake.lake.read.as_of import table_as_of
from cdclake.model.times import MAX_CLOCK_DIFFERENCE
from cdclake_devkit.local.web import QuietRequestHandler
from tests.conftest import COUNTS
from tests.crash import checks
from tests.crash.children import Child
from tests.crash.environments import Environment, aws_environment
from tests.crash.faults import Fault, Injector, Point
from tests.crash.runner import SPARK_RUN, Runner
from tests.crash.sandbox import Sandbox, View
from tests.crash.scenarios import SCENARIOS, Scenario
from tests.crash.test_pauses import OTHERS, PAUSED, check_readers, complete_erasure, do
from tests.dying_store import PausingStore
from tests.tiers import TIER, Tier

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cdclake.ports import Clock, ObjectStore
    from tests.crash.conftest import NewEnvironment
    from tests.crash.test_pauses import Command

CALLS = {Tier.QUICK: 1, Tier.TEST: 1, Tier.ALL: 1, Tier.THOROUGH: 5}[TIER]
"""Number of calls of each run at which it is paused or killed, with each order of clocks and each fault."""
HOURS, MINUTES = timedelta(hours=3), timedelta(minutes=11)
CLOCKS = {
    "behind, ahead": (-HOURS, HOURS, -MINUTES, MINUTES),
    "ahead, behind": (HOURS, -HOURS, MINUTES, -MINUTES),
    "minutes ahead, right": (MINUTES, timedelta()),
    "minutes behind, right": (-MINUTES, timedelta()),
    "right, minutes ahead": (timedelta(), MINUTES),
    "right, hours behind": (timedelta(), -HOURS),
}
"""How far the clocks of the runs are ahead, in turn: that of the one that is paused or killed comes first."""
SECOND = timedelta(seconds=1)
CALM = timedelta(hours=1)
"""No lease that counts is left after it."""


class Clocks:
    """A run of a scenario that is paused or killed at a call, while others work whose clocks differ."""

    def __init__(self, sandbox: Sandbox, scenario: Scenario, others: tuple[Command, ...]) -> None:
        self._sandbox, self._scenario, self._others = sandbox, scenario, others

    def count(self, skew: timedelta) -> int:
        """Number of calls of the run, on a machine whose clock is ahead by that much."""
        self._sandbox.skews = repeat(skew)
        injector = Injector(Point(Fault.PAUSED, 0, writes_only=False))
        do(self._scenario.run, Runner(self._sandbox.spec(), injector))
        return injector.calls

    def at(self, fault: Fault, call: int, skews: tuple[timedelta, ...], *, lease_expires: bool) -> None:
        """Pause or kill it, let the others work, and check what is left.

        Args:
            lease_expires: Whether its lease has expired by the right time when the others come.
        """
        sandbox = self._sandbox
        sandbox.skews = cycle(skews)
        point = Point(fault, call, writes_only=False)

        def work() -> None:
            if lease_expires:
                sandbox.expire_lease()
            for command in self._others:
                do(command, sandbox.runner())

        if fault is Fault.PAUSED:
            do(self._scenario.run, Runner(sandbox.spec(), Injector(point, meanwhile=work)))
        else:
            assert Child(self._scenario.name, sandbox.spec(), point).wait().killed
            work()
        sandbox.skews = repeat(timedelta())
        sandbox.environment.clock.advance(CALM.total_seconds())
        do(Runner.repair, sandbox.runner())
        sandbox.runner().bring_up_to_date()
        check_readers(sandbox.view())
        check_times(sandbox.view(), sandbox.shown)
        self._check_rollback()
        complete_erasure(sandbox)

    def _check_rollback(self) -> None:
        """A rollback to what a time finds restores its rows."""
        log = self._sandbox.view().log
        times = [record.created_utc for record in log.records(log.retained().first, log.head())]
        found = table_as_of(log, at=times[len(times) // 2])
        error = do(lambda runner: runner.rollback(found.change), self._sandbox.runner())
        after = self._sandbox.view()
        if error is None:
            assert after.log.snapshot(after.log.head()).files == found.snapshot.files
        check_readers(after)


def check_times(view: View, shown: dict[str, datetime]) -> None:
    """Changes ascend in time, a time finds the last change up to it, and one whose writer was behind says so."""
    log = view.log
    records = log.records(1, log.head())
    times = [datetime.fromisoformat(record.created_utc) for record in records]
    assert times == sorted(times)
    for moment in {*times, *(time - timedelta(seconds=1) for time in times)}:
        expected = max((number for number, time in enumerate(times, 1) if time <= moment), default=0)
        if expected >= log.retained().first:
            found = table_as_of(log, at=moment)
            assert (found.change, found.snapshot) == (expected, log.snapshot(expected))
    for before, record, time in zip(times, records[1:], times[1:], strict=False):
        own = next((at for run, at in shown.items() if record.run_id in (run, run + SPARK_RUN)), None)
        if own:
            assert time == max(own.replace(microsecond=0), before)
            is_behind = before - own.replace(microsecond=0) > MAX_CLOCK_DIFFERENCE
            assert bool(record.clock_utc) == is_behind, f"change {record.change} of {record.run_id}"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.sampled(test=3, ci=8)
@pytest.mark.parametrize("clocks", CLOCKS)
@pytest.mark.parametrize("name", PAUSED)
def test_machines_whose_clocks_are_minutes_and_hours_apart_do_no_harm(
    name: str, clocks: str, new_environment: NewEnvironment, request: pytest.FixtureRequest
) -> None:
    tried = 0
    with new_environment("folder") as (environment, folder):
        sandbox, scenario = Sandbox(environment, folder), SCENARIOS[name]
        scenario.prepare(sandbox)
        sandbox.save()
        calls = Clocks(sandbox, scenario, ()).count(CLOCKS[clocks][0])
        others = list(OTHERS.items())
        for number, fault in enumerate((Fault.PAUSED, Fault.KILLED)):
            for step in range(CALLS):
                sandbox.restore()
                call = 1 + int((step + (number + 1) / 3) * calls / CALLS)
                what, commands = others[(step + number + list(CLOCKS).index(clocks)) % len(others)]
                expires = (step + number) % 2 == 0
                try:
                    Clocks(sandbox, scenario, commands).at(fault, call, CLOCKS[clocks], lease_expires=expires)
                except Exception as error:
                    error.add_note(f"{fault.value} at call {call} of {calls}, then {what}; lease expires: {expires}")
                    raise
                tried += 1
    request.node.user_properties.append((COUNTS, {"runs with skewed clocks": tried}))


def date_headers_show(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the embedded AWS answer the product's requests with the time of a clock.

    pyarrow would sign by it and be refused, so it gets the real time.
    """
    real = QuietRequestHandler.date_time_string

    def shown(handler: QuietRequestHandler) -> str:
        is_pyarrow = "aws-sdk-cpp" in handler.headers.get("User-Agent", "")
        return real(handler) if is_pyarrow else format_datetime(clock(), usegmt=True)

    monkeypatch.setattr(QuietRequestHandler, "date_time_string", shown)


class Machines:
    """Makes runs on machines whose clocks are off, and which take the time from AWS.

    Attributes:
        told: What they say of their clocks.
    """

    def __init__(self, environment: Environment, folder: Path) -> None:
        self.sandbox, self._environment = Sandbox(environment, folder), environment
        self.told: list[str] = []

    def run(
        self, skew: timedelta, command: Command, around_lake: Callable[[ObjectStore], Any] = lambda lake: lake
    ) -> CdclakeError | None:
        """Make a run; returns its error.

        Args:
            skew: How far the clock of its machine is ahead.
        """
        runner = Runner(self.sandbox.spec(), around_lake=around_lake)
        clock = ServerClock(lambda: self._environment.clock() + skew)
        clock.report = self.told.append
        runner.hear_server(clock)
        return do(command, runner)


@pytest.mark.slow
@pytest.mark.aws
@pytest.mark.timeout(600)
@pytest.mark.sampled(test=1, ci=3)
@pytest.mark.parametrize("lease_expires", [True, False], ids=["expired lease", "live lease"])
@pytest.mark.parametrize("skew", [-HOURS, -MINUTES, MINUTES, HOURS], ids=lambda skew: f"{skew.total_seconds():.0f} s")
@pytest.mark.parametrize("name", ["run", "rollback-to", "reapply"])
def test_machines_take_the_time_from_aws_respect_live_leases_and_say_that_their_clocks_are_off(
    name: str, skew: timedelta, lease_expires: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with aws_environment(versioned=True) as environment:
        machines, scenario = Machines(environment, tmp_path), SCENARIOS[name]
        sandbox = machines.sandbox
        expected = scenario.prepare(sandbox)
        date_headers_show(environment.clock, monkeypatch)
        first, begin = sandbox.view().log.head() + 1, environment.clock()
        refused: list[CdclakeError | None] = []

        def work() -> None:
            environment.clock.advance(LEASE_SECONDS + 1 if lease_expires else 1)
            refused.append(machines.run(-skew, Runner.bring_up_to_date))
            refused.append(machines.run(skew, Runner.rollback))

        error = machines.run(skew, scenario.run, lambda lake: PausingStore(lake, 1, work, ("put_if_absent",)))
        assert len(refused) == 2
        assert isinstance(refused[1], LeaseHeldError) == (not lease_expires)
        assert (error is None) == (not lease_expires)
        if not lease_expires:
            checks.check_table(sandbox.view(), expected)
        environment.clock.advance(CALM.total_seconds())
        do(Runner.repair, sandbox.runner())
        sandbox.runner().activate()
        sandbox.runner().bring_up_to_date()
        view = sandbox.view()
        check_readers(view)
        check_times(view, {})
        records = view.log.records(first, view.log.head())
        times = [datetime.fromisoformat(record.created_utc) for record in records]
        assert all(begin - SECOND <= time <= environment.clock() + SECOND for time in times)
        assert all(record.clock_utc == "" for record in records)
        assert any("ahead of AWS" in text for text in machines.told)
        assert any("behind AWS" in text for text in machines.told)
