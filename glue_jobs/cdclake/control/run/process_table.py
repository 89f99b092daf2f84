"""ProcessTable: brings lake tables up to date, under each table's lease, by running the Spark jobs they need.

A run works in rounds. Each round lists the raw files of its tables, runs each due job once for all tables that need it,
and records the outcome. A table with more work, or with a new trigger (see `cdclake.control.run.trigger`), keeps its
lease for another round; the leases of the others are released. A failure of one table does not stop the others.

If a Spark job dies at a table, perhaps because of a raw file, the job runs again for the tables after it. That table
gets a run of its own, when the others are done, and fails if that dies, too. It keeps to itself in later runs, until
one succeeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Callable

from cdclake import logs
from cdclake.control.jobs.entry import StoppedError, failures_line
from cdclake.control.run.job_polling import PollPolicy
from cdclake.control.run.lease import Lease
from cdclake.control.run.spark_runs import Death, SparkRuns, run_error
from cdclake.control.run.table_work import Ports, TableReport, TableWork, read_state
from cdclake.control.run.trigger import trigger_tables
from cdclake.errors import LeaseHeldError, LeaseLostError
from cdclake.model.layout import LakeLayout
from cdclake.model.names import JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cdclake.control.run.spark_runs import BatchOutcome
    from cdclake.errors import CdclakeError

__all__ = ["Ports", "TableReport", "process_table", "process_tables"]

log = logs.bind(__name__)

MAX_ROUNDS = 20
"""A table that always has more work is handed over to a new run, before the job's time limit ends this one."""
SHARE_FOR_ROUNDS = 0.5
"""Share of the run's time in which rounds begin; the last round has the rest of the time."""
DEFAULT_TIMEOUT_SECONDS = 645 * 60
"""8 hours for a full load, 2 for an incremental, and 45 minutes in reserve. The deployed job has 15 minutes more."""
MAX_SPARK_RUNS = 4
"""Number of runs of a Spark job in a row that the service may give up before they reach a table."""


@dataclass(frozen=True)
class BatchReport:
    """What a run did, by table."""

    run_id: str
    tables: tuple[TableReport, ...]

    def to_json(self) -> dict[str, object]:
        """JSON data; `error` is one line that names the failed tables, or empty."""
        failed = {report.table: report.failure for report in self.tables if report.failure}
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
    max_rounds: int = MAX_ROUNDS,
) -> TableReport:
    """Bring one lake table up to date; see `process_tables`.

    Raises:
        UnknownTableError: The table is not registered.
        LeaseLostError: Another run took over the table while this one waited.
        CdclakeError: The run failed; the item has the error too.
    """
    (report,) = process_tables([path], out_bucket, out_prefix, run_id, ports, timeout_seconds, max_rounds).tables
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
    max_rounds: int = MAX_ROUNDS,
) -> BatchReport:
    """Bring lake tables up to date.

    Tables that are inactive or leased by another run are skipped; neither is an error. The error of a table is in its
    report and in its item.

    Args:
        paths: Keys of the tables' items.
        out_prefix: Lake prefix, empty or with a trailing slash.
        run_id: Holder of the leases.
        ports: State table, jobs, buckets, time.
        timeout_seconds: The run's time. When it is over, the Spark job is stopped and the leases are released.
        max_rounds: Rounds after which a table that has more work is handed over to a new run.

    Raises:
        StoppedError: The run was stopped, or its time was over.
    """
    return _Run(out_bucket, out_prefix, run_id, ports, timeout_seconds, max_rounds).bring_up_to_date(paths)


class _Run:
    """A run: its leased tables and its Spark jobs."""

    def __init__(
        self, out_bucket: str, out_prefix: str, run_id: str, ports: Ports, timeout_seconds: float, max_rounds: int
    ) -> None:
        self._out_bucket, self._out_prefix, self._run_id, self._ports = out_bucket, out_prefix, run_id, ports
        self._tables: list[TableWork] = []
        self._max_rounds = max_rounds
        begin = ports.clock()
        self._last_round_utc = begin + timedelta(seconds=timeout_seconds * SHARE_FOR_ROUNDS)
        until = begin + timedelta(seconds=timeout_seconds)
        policy = PollPolicy(ports.clock, ports.sleep, ports.random, until, self._renew_leases_to_wait)
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

    def _begin(self, path: str) -> TableReport:
        """Take a table's lease, unless the table must be skipped."""
        report = TableReport(path, self._run_id)
        try:
            state = read_state(self._ports.states, path)
            report.table = str(state.name)
            if not state.active:
                # a mark would delay the first event after the table is turned on
                self._ports.states.clear_request(path)
                report.outcome = "inactive"
                return report
            layout = LakeLayout(self._out_bucket, self._out_prefix, state.name)
            self._renew_leases()
            lease = Lease(self._ports.states, path, state.name, self._run_id, self._ports.clock)
            self._tables.append(TableWork(path, lease, layout, self._ports, report, self._renew_leases))
        except LeaseHeldError as error:
            report.outcome = f"busy: leased by {error.details.get('holder')} until {error.details.get('until')}"
        except StoppedError:
            raise
        except Exception as error:
            log.exception("failed", extra={"table": report.table})
            report.outcome, report.failure = "failed", error
        return report

    def _rounds(self) -> None:
        """Run rounds until no table has more work, and release the leases."""
        for _ in range(self._max_rounds):
            self._round(self._open())
            if not self._open():
                return
            if self._ports.clock() >= self._last_round_utc:
                break
        self._hand_over(self._open())

    def _round(self, tables: Sequence[TableWork]) -> None:
        self._each(tables, TableWork.begin_round)
        self._load([table for table in tables if not table.may_kill])
        for table in tables:
            if table.may_kill:  # known to, or since it did
                self._load([table])

    def _load(self, tables: Sequence[TableWork]) -> None:
        """Run each job for the tables that need it, and finish the round of those at which no run died."""
        for job in (JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL):
            self._renew_leases()
            self._run_job(job, [table for table in tables if table.is_due(job)])
        done = [table for table in tables if not table.may_kill]
        self._each(done, TableWork.finish_round)
        self._each(done, TableWork.release_if_done)

    def _run_job(self, job: str, tables: Sequence[TableWork]) -> None:
        """Run a Spark job for all tables that need it, and again for tables that a run did not reach."""
        given_up = 0
        while due := {table.path: table for table in tables if table.open}:
            outcome = self._run_once(job, list(due.values()))
            if outcome is None:
                return
            for path, error in outcome.failed.items():
                if path in outcome.defects:
                    self._record_death(job, due[path], Death(path, began=True, reported=True), error)
                else:
                    due[path].fail(error)
            self._each([due[path] for path in outcome.succeeded], lambda table: table.sync_after_job(job))
            given_up = given_up + 1 if len(outcome.not_reached) == len(due) else 0
            tables = [due[path] for path in outcome.not_reached]
            death, end = outcome.death, run_error(job, outcome.run)
            if death and (death.path not in outcome.not_reached or given_up == MAX_SPARK_RUNS):
                self._record_death(job, due[death.path], death, end)
                tables, given_up = [table for table in tables if table.path != death.path], 0
            elif given_up == MAX_SPARK_RUNS:
                for table in tables:
                    table.fail(end)

    def _record_death(self, job: str, table: TableWork, death: Death, error: CdclakeError) -> None:
        self._each([table], partial(TableWork.record_death, job=job, death=death, error=error))

    def _run_once(self, job: str, tables: Sequence[TableWork]) -> BatchOutcome | None:
        """Run a Spark job; None if it failed for all its tables, which are closed."""

        def started(run_id: str) -> None:
            for table in tables:
                table.job_started(job, run_id)

        try:
            outcome = self._spark.run(job, [table.job_arguments(job) for table in tables], started)
        except StoppedError:
            raise
        except Exception as error:  # noqa: BLE001 - recorded for each table
            may_run = not self._spark.stop()
            for table in tables:
                table.fail(error, job_may_run=may_run)
            return None
        for table in tables:
            table.job_ended(job, outcome.run)
        return outcome

    def _hand_over(self, tables: Sequence[TableWork]) -> None:
        """Start a new run for the work that is left."""
        self._each(tables, TableWork.hand_over)
        paths = [table.path for table in tables if not table.report.failure]
        states, jobs, now = self._ports.states, self._ports.jobs, self._ports.clock()
        results = trigger_tables(states, jobs, paths, now, even_if_requested=True)
        for table in tables:
            if table.path in results:
                table.report.follow_up = results[table.path].run_id
                table.report.failure = results[table.path].error
                table.report.outcome = "failed" if table.report.failure else "handed on"

    def _each(self, tables: Iterable[TableWork], step: Callable[[TableWork], object]) -> None:
        """Do a step for each open table. An error ends the work on that table alone."""
        for table in tables:
            if not table.open:
                continue
            try:
                with logs.context(**table.log_fields):
                    step(table)
            except LeaseLostError as error:
                table.abandon(error)
            except StoppedError:
                raise
            except Exception as error:  # noqa: BLE001 - recorded for the table
                table.fail(error)

    def _renew_leases(self) -> None:
        """Renew the leases. A table whose lease is lost is closed."""
        for table in self._open():
            try:
                table.lease.renew_if_due()
            except LeaseLostError as error:
                table.abandon(error)

    def _renew_leases_to_wait(self) -> None:
        """Renew the leases before the run goes on waiting.

        Raises:
            LeaseLostError: The run lost all its leases, so there is nothing to wait for.
        """
        self._renew_leases()
        if not self._open():
            remedy = "Nothing to do: the runs that hold them now do the work"
            raise LeaseLostError("This run lost all its leases", remedy=remedy)
