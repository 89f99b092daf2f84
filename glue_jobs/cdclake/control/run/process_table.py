"""ProcessTable: brings lake tables up to date, under each table's lease, by running the Spark jobs they need.

A run goes in rounds. Each polls at the raw files of its tables, runs the jobs that are due, each for all tables that
need it, and writes down the outcome. A table that somebody asked for meanwhile, or that has more to do, keeps its lease
for another round; the others' leases are given back. See `cdclake.control.run.trigger`. Whatever becomes of one
table, the others go on.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Callable

from cdclake import logs
from cdclake.control.jobs.entry import StoppedError, failures_line
from cdclake.control.run.job_polling import PollPolicy
from cdclake.control.run.lease import Lease
from cdclake.control.run.spark_runs import SparkRuns, run_error
from cdclake.control.run.table_run import Ports, Report, TableWork, read_state
from cdclake.control.run.trigger import trigger_tables
from cdclake.errors import LeaseHeldError, LeaseLostError
from cdclake.model.layout import LakeLayout
from cdclake.model.names import JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cdclake.control.run.spark_runs import BatchOutcome

__all__ = ["Ports", "Report", "process_table", "process_tables"]

log = logs.bind(__name__)

MAX_ROUNDS = 20
"""A table that never comes to rest is handed to a fresh run before the job's time limit ends this one."""
SHARE_FOR_ROUNDS = 0.5
"""Share of the run's time in which rounds begin, so that the last one has the rest of it to end."""
DEFAULT_TIMEOUT_SECONDS = 645 * 60
"""A full load of 8 hours and an increment of 2, and 45 minutes beside. The deployed job has 15 minutes more."""
MAX_SPARK_RUNS = 4
"""So often a Spark job is run in one round, for tables that no run before came to."""


@dataclass(frozen=True)
class BatchReport:
    """What a run did, table by table."""

    run_id: str
    tables: tuple[Report, ...]

    def to_json(self) -> dict[str, object]:
        """Good for JSON; `error` says in one line which tables failed, and is empty if none did."""
        failed = {report.table: report.error for report in self.tables if report.failure}
        return {
            "run_id": self.run_id,
            "tables": [report.to_json() for report in self.tables],
            "error": failures_line(failed, len(self.tables)),
        }


def process_table(
    path: str,
    out_bucket: str,
    out_prefix: str,
    run_id: str,
    ports: Ports,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> Report:
    """Bring one lake table up to date; see `process_tables`.

    Raises:
        UnknownTableError: The table is not registered.
        LeaseLostError: Another run took the table over while this one waited.
        CdclakeError: What went wrong; it stands in the item as well.
    """
    (report,) = process_tables([path], out_bucket, out_prefix, run_id, ports, timeout_seconds).tables
    if report.failure:
        raise report.failure
    return report


def process_tables(
    paths: Sequence[str],
    out_bucket: str,
    out_prefix: str,
    run_id: str,
    ports: Ports,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> BatchReport:
    """Bring lake tables up to date.

    A table that is inactive, or that another run is working on, is left alone; neither is an error. What goes wrong
    with a table stands in its report and in its item.

    Args:
        paths: Keys of the tables' items.
        out_bucket: Lake bucket.
        out_prefix: Lake prefix, empty or with a trailing slash.
        run_id: Holder of the leases.
        ports: State table, jobs, buckets, time.
        timeout_seconds: The run's own time: when it is over, the Spark job is stopped and the leases are given back.

    Raises:
        StoppedError: The run was told to stop, or its time was over.
    """
    return _Run(out_bucket, out_prefix, run_id, ports, timeout_seconds).bring_up_to_date(paths)


class _Run:
    """A run: its tables, each under its lease, and its Spark jobs."""

    def __init__(self, out_bucket: str, out_prefix: str, run_id: str, ports: Ports, timeout_seconds: float) -> None:
        self._out_bucket, self._out_prefix, self._run_id, self._ports = out_bucket, out_prefix, run_id, ports
        self._tables: list[TableWork] = []
        begin = ports.clock()
        self._last_round_utc = begin + timedelta(seconds=timeout_seconds * SHARE_FOR_ROUNDS)
        until = begin + timedelta(seconds=timeout_seconds)
        policy = PollPolicy(ports.clock, ports.sleep, ports.random, until, self._keep_some_lease)
        lake = ports.open_bucket(out_bucket)
        self._spark = SparkRuns(ports.jobs, lake, out_bucket, out_prefix, run_id, policy)

    def bring_up_to_date(self, paths: Sequence[str]) -> BatchReport:
        try:
            reports = tuple(self._begin(path) for path in paths)
            self._rounds()
        except BaseException as error:
            may_run = not self._spark.stop()
            for table in self._open():
                table.fail(error, job_may_run=may_run)
            raise
        return BatchReport(self._run_id, reports)

    def _open(self) -> list[TableWork]:
        return [table for table in self._tables if table.open]

    def _begin(self, path: str) -> Report:
        """Take a table's lease, unless there is a reason to leave the table alone."""
        report = Report(path, self._run_id)
        try:
            state = read_state(self._ports.states, path)
            report.table = str(state.name)
            if not state.active:
                # or it would hold up the first event after somebody turns the table on
                self._ports.states.clear_request(path)
                report.outcome = "inactive"
                return report
            self._keep_leases()
            lease = Lease(self._ports.states, path, state.name, self._run_id, self._ports.clock)
            layout = LakeLayout(self._out_bucket, self._out_prefix, state.name)
            self._tables.append(TableWork(path, lease, layout, self._ports, report, self._keep_leases))
        except LeaseHeldError as error:
            report.outcome = f"busy: leased by {error.details.get('holder')} until {error.details.get('until')}"
        except StoppedError:
            raise
        except Exception as error:
            log.exception("failed", extra={"table": report.table})
            report.outcome, report.failure = "failed", error
        return report

    def _rounds(self) -> None:
        """Go round until nobody asks for more, and give the leases back."""
        for _ in range(MAX_ROUNDS):
            self._round(self._open())
            self._each(self._open(), lambda table: table.release_if_done())
            if not self._open():
                return
            if self._ports.clock() >= self._last_round_utc:
                break
        self._hand_on(self._open())

    def _round(self, tables: Sequence[TableWork]) -> None:
        self._each(tables, TableWork.look)
        for job in (JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL):
            self._keep_leases()
            self._run_job(job, [table for table in tables if table.is_due(job)])
        self._each(tables, TableWork.finish_round)

    def _run_job(self, job: str, tables: Sequence[TableWork]) -> None:
        """Run a Spark job for all tables that need it; for those that a run did not come to, once more."""
        for _ in range(MAX_SPARK_RUNS):
            due = {table.path: table for table in tables if table.open}
            if not due:
                return
            verdict = self._run_once(job, list(due.values()))
            if verdict is None:
                return
            for path, error in verdict.failed.items():
                due[path].fail(error)
            self._each([due[path] for path in verdict.good], lambda table: table.sync_after_job(job))
            tables, run = [due[path] for path in verdict.again], verdict.run
        for table in tables:
            table.fail(run_error(job, run))

    def _run_once(self, job: str, tables: Sequence[TableWork]) -> BatchOutcome | None:
        """Run a Spark job; None if that went so wrong that all its tables are closed."""

        def started(run_id: str) -> None:
            for table in tables:
                table.job_started(job, run_id)

        try:
            verdict = self._spark.run(job, [table.job_arguments(job) for table in tables], started)
        except StoppedError:
            raise
        except Exception as error:  # noqa: BLE001 - it is written down with each table
            may_run = not self._spark.stop()
            for table in tables:
                table.fail(error, job_may_run=may_run)
            return None
        for table in tables:
            table.job_ended(job, verdict.run)
        return verdict

    def _hand_on(self, tables: Sequence[TableWork]) -> None:
        """Have a fresh run do what is left to do."""
        self._each(tables, TableWork.hand_over)
        paths = [table.path for table in tables if not table.report.failure]
        states, jobs, now = self._ports.states, self._ports.jobs, self._ports.clock()
        triggered = trigger_tables(states, jobs, paths, now, even_if_requested=True)
        for table in tables:
            if table.path in triggered:
                table.report.follow_up = triggered[table.path].run_id
                table.report.failure = triggered[table.path].error
                table.report.outcome = "failed" if table.report.failure else "handed on"

    def _each(self, tables: Iterable[TableWork], step: Callable[[TableWork], object]) -> None:
        """Do a step for each table that the run still works on; what goes wrong ends the work on that table alone."""
        for table in tables:
            if not table.open:
                continue
            try:
                with logs.about(**table.about):
                    step(table)
            except LeaseLostError as error:
                table.lose(error)
            except StoppedError:
                raise
            except Exception as error:  # noqa: BLE001 - it is written down with the table
                table.fail(error)

    def _keep_leases(self) -> None:
        """Renew the leases. A table whose lease is lost is closed."""
        for table in self._open():
            try:
                table.lease.keep()
            except LeaseLostError as error:
                table.lose(error)

    def _keep_some_lease(self) -> None:
        """Renew the leases, to go on waiting.

        Raises:
            LeaseLostError: All were lost, so there is nothing to wait for.
        """
        self._keep_leases()
        if not self._open():
            remedy = "Nothing to do: the runs that have them now do the work"
            raise LeaseLostError("All leases of this run are others' now", remedy=remedy)
