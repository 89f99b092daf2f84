"""ProcessTable: decides what is due for lake tables, and starts the Spark jobs that load it.

It does by itself what needs no rows: it finishes what a dead run left, cleans up, and updates items and the catalog. A
table whose raw files are due gets a Spark run, together with the others: one of LoadInitial if a full load is due, else
one of LoadIncremental. That run takes over the lease, so no other run can start in between, plans again, and brings the
table up to date, see `cdclake.control.run.bring_up_to_date`. ProcessTable does not wait for it.

A table at which a Spark run died gets a run of its own, see `cdclake.control.run.spark_run`.

A Lambda function can do the same, and load small changes itself, see `lambdas/small_changes`. If it dies, Lambda calls
it again for the same request, which is the holder of its leases: so it takes its own over at once. After a second death
at a table, Spark loads it.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Callable

from cdclake import logs
from cdclake.control.jobs.arguments import paths_json
from cdclake.control.jobs.entry import StoppedError
from cdclake.control.run.bring_up_to_date import Host, Rounds
from cdclake.control.run.spark_run import SparkRun
from cdclake.control.run.table_work import TableWork
from cdclake.errors import NoRoomError
from cdclake.model.names import JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL, Argument

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from cdclake.control.run.report import RunReport
    from cdclake.control.run.small_loads import SmallLoads
    from cdclake.ports import Ports

WAIT_FOR_ROOM = timedelta(minutes=45)
"""How long to try again if Glue has no room for a Spark run; it also queues runs by itself."""
PAUSE_SECONDS = 20.0
TIMEOUT_SECONDS = 2 * 3600.0
"""The timeout of the deployed job."""
log = logs.bind(__name__)


def process_tables(
    paths: Sequence[str],
    out_bucket: str,
    out_prefix: str,
    run_id: str,
    ports: Ports,
    arguments: Mapping[str, str],
    sleep: Callable[[float], None],
    small: SmallLoads | None = None,
) -> RunReport:
    """Start the Spark runs that lake tables need. A table that needs none is done.

    Tables that are inactive or leased by another run are skipped; neither is an error. The error of a table is in its
    report and in its item.

    Args:
        paths: Keys of the tables' items.
        out_prefix: Lake prefix, empty or with a trailing slash.
        run_id: Holder of the leases until a Spark run takes them over.
        ports: State table, jobs, buckets, time.
        arguments: Arguments of the Spark runs, besides the tables and the leases.
        sleep: Pauses for a number of seconds.
        small: Loads small changes in this process, a function, which leaves the waiting for room to a run of the job;
            None: Spark loads all.

    Raises:
        StoppedError: The run was stopped.
    """
    timeout_seconds = small.timeout_seconds if small else TIMEOUT_SECONDS
    rounds = Rounds(out_bucket, out_prefix, run_id, ports, Host(timeout_seconds=timeout_seconds))

    def take(table: TableWork) -> bool:
        if small and small.take(table):
            return True
        table.set_aside = bool(table.due_job)
        return not table.set_aside

    def start(tables: Sequence[TableWork]) -> None:
        given_up_utc = ports.clock() + (timedelta() if small else WAIT_FOR_ROOM)
        for job, group in _runs(tables):
            try:
                started = start_one(job, group, given_up_utc)
            except StoppedError:
                raise
            except Exception as error:  # noqa: BLE001 - recorded for each table
                if small and isinstance(error, NoRoomError):
                    rounds.hand_over(group)  # to a run of the job, which can wait
                    continue
                for table in group:
                    table.fail(error)
                continue
            for table in group:
                run = SparkRun(job, started, len(group), table.starts + 1, reason=table.spark_reason)
                rounds.each([table], partial(TableWork.hand_to, run=run))

    def start_one(job: str, group: Sequence[TableWork], given_up_utc: datetime) -> str:
        tables = paths_json([table.path for table in group])
        while True:
            rounds.renew_leases()
            try:
                return ports.jobs.start(job, {**arguments, Argument.PATHS: tables, Argument.LEASE_HOLDER: run_id})
            except NoRoomError as error:
                if ports.clock() >= given_up_utc:
                    raise
                log.warning("%s waits: %s", job, error)
                sleep(PAUSE_SECONDS)

    return rounds.run(paths, take, start)


def _runs(tables: Sequence[TableWork]) -> Iterator[tuple[str, list[TableWork]]]:
    """The job and the tables of each Spark run. The tables at which no run died come first."""
    for job in (JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL):
        together = [table for table in tables if table.due_job == job and not table.needs_own_run]
        if together:
            yield job, together
    for table in tables:
        if table.needs_own_run:
            yield table.due_job, [table]
