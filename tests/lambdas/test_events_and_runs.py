"""Events together with the runs that they start, up to storms of events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from cdclake.control.jobs.arguments import parse_paths
from cdclake.control.run.trigger import trigger_tables
from cdclake.errors import JobRunError
from cdclake.model.names import JOB_PROCESS_TABLE, Argument
from cdclake.ports import JobRun, JobState
from cdclake_devkit.memory import ManualClock, MemoryJobs
from on_raw_file.handler import FAILED, Dependencies, handle
from tests.builders import ended
from tests.cdclake.control.world import ORDERS, RAW, World

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from cdclake_devkit.memory import Work

ITEMS = f"{RAW}/dms/shop/items/"
LAMBDA_TRIES = 3
"""How Lambda handles an event whose function fails: https://docs.aws.amazon.com/lambda/latest/dg/invocation-async.html"""


def change_file(number: int) -> str:
    return f"20240305-10{number // 1000 // 60:02}{number // 1000 % 60:02}{number % 1000:03}.parquet"


def record(path: str, name: str, written_utc: datetime) -> dict[str, Any]:
    bucket, _, prefix = path.partition("/")
    return {
        "eventName": "ObjectCreated:Put",
        "eventTime": written_utc.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "s3": {"bucket": {"name": bucket}, "object": {"key": f"{prefix}{name}"}},
    }


@dataclass
class Account:
    """The function, and the runs that it starts, which begin when the test lets them.

    Attributes:
        waiting: The tables of each ProcessTable run that was started and has not begun.
        undelivered: The dead-letter queue.
        refused: Paths of tables whose runs Glue does not start.
    """

    world: World
    waiting: list[list[str]] = field(default_factory=list)
    runs: int = 0
    undelivered: list[dict[str, Any]] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.world.jobs = MemoryJobs(self.start)
        self.dependencies = Dependencies(self.world.states, self.world.jobs, "dms/")

    def start(self, job: str, arguments: Mapping[str, str]) -> JobRun | Work | list[JobState]:
        if job != JOB_PROCESS_TABLE:
            return self.world.run_job(job, arguments)
        paths = parse_paths(arguments[Argument.PATHS])
        if not self.refused.isdisjoint(paths):
            raise JobRunError("Glue has no room for another run now", remedy="Run again when a run has ended")
        self.waiting.append(paths)
        return [JobState.ACTIVE]

    def write(self, numbers: range, path: str = ORDERS) -> list[dict[str, Any]]:
        """Write change files, as DMS does. Returns their events, which are not delivered yet."""
        for number in numbers:
            self.world.put(change_file(number), path=path)
        return [{"Records": [record(path, change_file(number), self.world.clock())]} for number in numbers]

    def deliver(self, *events: dict[str, Any]) -> list[str]:
        """Deliver events with retries, as Lambda does. Returns the outcome of each table at each attempt."""
        outcomes = []
        for event in events:
            for _ in range(LAMBDA_TRIES):
                done, errors = handle(event, self.dependencies, self.world.clock())
                outcomes += [f"{path}: {outcome}" for path, outcome in done.items()]
                if not errors:
                    break
                self.world.clock.advance(60)
            else:
                self.undelivered.append(event)
        return outcomes

    def run_what_was_started(self) -> None:
        """Run what waits, and what follows from it. The event of a Spark run that fails is delivered at once."""
        while self.waiting:
            self.runs += 1
            self.world.run_process_table(*self.waiting.pop(0), run_id=f"run-{self.runs}")
            self.world.jobs.run_waiting(lambda job, run_id: self.deliver(self.end(job, run_id)))

    def end(self, job: str, run_id: str) -> dict[str, Any]:
        """Glue's event of a run that failed."""
        return {"source": "aws.glue", "detail": {"jobName": job, "jobRunId": run_id, "state": "FAILED"}}


@pytest.fixture
def account(clock: ManualClock) -> Account:
    world = World(clock)
    world.register()
    world.register(ITEMS)
    return Account(world)


def test_a_burst_of_a_thousand_events_of_one_table_is_one_run_and_at_most_one_follow_up(account: Account):
    events = account.write(range(1000))
    account.deliver(*events[:200])
    account.world.clock.advance(30)  # Glue starts the run

    def during_listing() -> None:
        account.deliver(*events[200:400])

    def during_job() -> None:
        account.deliver(*events[400:600])

    account.world.raw.after_listing, account.world.during_job = during_listing, during_job
    account.run_what_was_started()
    account.world.clock.advance(30)
    account.deliver(*events[600:], *events[:200])  # some late, some again
    account.run_what_was_started()
    assert sorted(set(account.world.applied)) == [change_file(number) for number in range(1000)]
    assert len(account.world.applied) == 1000
    assert account.runs <= 2


def test_an_event_while_a_run_is_busy_is_not_lost(account: Account):
    account.deliver(*account.write(range(1)))
    late = iter([range(1, 3)])

    def deliver_more() -> None:
        for numbers in late:
            assert account.deliver(*account.write(numbers)) == [f"{ORDERS}: busy", f"{ORDERS}: collapsed"]

    account.world.after_job = deliver_more  # after the job has listed, so it does not see them
    account.run_what_was_started()
    assert account.world.applied == [change_file(number) for number in range(3)]
    assert account.runs == 1


def test_an_event_delivered_again_after_its_file_was_applied_starts_nothing(account: Account, clock: ManualClock):
    events = account.write(range(3))
    account.deliver(*events)
    clock.advance(30)
    account.run_what_was_started()
    assert account.deliver(*reversed(events), *events) == [f"{ORDERS}: seen"] * 6
    assert (account.runs, account.waiting) == (1, [])


def test_an_event_delivered_after_a_later_one_starts_nothing(account: Account, clock: ManualClock):
    (first,) = account.write(range(1))
    clock.advance(60)
    (second,) = account.write(range(1, 2))
    account.deliver(second)
    clock.advance(30)
    account.run_what_was_started()
    assert account.world.applied == [change_file(0), change_file(1)]
    assert account.deliver(first) == [f"{ORDERS}: seen"]


def test_an_event_of_a_file_that_the_last_run_may_not_have_listed_starts_a_run(account: Account, clock: ManualClock):
    account.deliver(*account.write(range(1)))
    account.run_what_was_started()
    clock.advance(5)
    assert account.deliver(*account.write(range(1, 2))) == [f"{ORDERS}: started"]


def test_objects_that_are_not_raw_files_start_nothing(account: Account, clock: ManualClock):
    names = ["", "_SUCCESS", "notes.txt", "sub/folder/report.csv.tmp"]
    assert account.deliver({"Records": [record(ORDERS, name, clock()) for name in names]}) == []
    elsewhere = record(f"{RAW}/other/shop/orders/", change_file(1), clock())
    assert account.deliver({"Records": [elsewhere]}) == []


def test_a_failing_table_is_retried_and_reaches_the_dead_letter_queue_without_repeating_the_others(
    account: Account, clock: ManualClock
):
    account.refused = {ORDERS}
    (of_items,), (of_orders,) = account.write(range(1), ITEMS), account.write(range(1))
    event = {"Records": of_items["Records"] + of_orders["Records"]}
    first, _ = handle(event, account.dependencies, clock())
    assert first == {ITEMS: "started", ORDERS: FAILED}
    clock.advance(30)
    account.run_what_was_started()
    assert account.deliver(event) == [f"{ITEMS}: seen", f"{ORDERS}: failed"] * LAMBDA_TRIES
    assert account.undelivered == [event]
    assert (account.runs, account.waiting) == (1, [])
    account.refused.clear()
    assert account.deliver(*account.undelivered) == [f"{ITEMS}: seen", f"{ORDERS}: started"]
    account.run_what_was_started()
    assert account.runs == 2


def test_a_spark_run_that_dies_is_followed_at_once_by_runs_that_load_its_tables(account: Account, clock: ManualClock):
    account.write(range(2))
    account.write(range(2, 4), ITEMS)
    clock.advance(0.7)
    trigger_tables(account.world.states, account.world.jobs, [ORDERS, ITEMS], clock())  # as the Controller does
    deaths = iter([ended("killed")])
    account.world.instead = lambda _job, _arguments: next(deaths, None)
    account.run_what_was_started()
    assert account.world.applied == [change_file(number) for number in range(4)]
    assert account.runs == 2
    assert account.world.is_free(ORDERS)
    assert account.world.is_free(ITEMS)
