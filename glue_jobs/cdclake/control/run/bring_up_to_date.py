"""A run: brings lake tables up to date, under each table's lease.

A run works in rounds. In each round it lists the raw files of a table, loads what is due, and records the outcome. A
table with more work, or with a new trigger (see `cdclake.control.run.trigger`), keeps its lease for another round, and
its turn comes after the others'. A failure of one table does not stop the others.

The process that loads the rows is the host: the driver of a Spark job, which takes the leases from the ProcessTable run
that started it, or a process on a laptop. ProcessTable runs the same rounds, and leaves loads to Spark jobs, see
`cdclake.control.run.process_table`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Callable, NamedTuple

from cdclake import logs
from cdclake.control.jobs.entry import StoppedError, error_line
from cdclake.control.run.lease import Lease, renewed_in_background
from cdclake.control.run.report import RunReport, TableReport
from cdclake.control.run.spark_run import RUNNING, SparkRun
from cdclake.control.run.table_item import TableItem, read_state
from cdclake.control.run.table_work import TableWork
from cdclake.control.run.trigger import trigger_tables
from cdclake.errors import CdclakeError, JobRunError, LeaseHeldError, LeaseLostError
from cdclake.model.layout import LakeLayout
from cdclake.model.names import JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL, Argument
from cdclake.model.table.attributes import Attribute
from cdclake.ports import JobState, Ports

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.control.run.planned_round import DueLoad
    from cdclake.model.table.state import TableState

log = logs.bind(__name__)

MAX_ROUNDS = 20
"""A table that always has more work is handed over to a new run, before the job's time limit ends this one."""
SHARE_FOR_ROUNDS = 0.5
"""Share of the run's time in which rounds begin; the last round has the rest of the time."""
DEFAULT_TIMEOUT_SECONDS = 8 * 3600.0

Take = Callable[[TableWork], bool]
"""Takes care of what is due for a table; returns whether its round can be finished."""


class Host(NamedTuple):
    """Where a run works.

    Attributes:
        job: The Spark job whose driver it is; empty if it is none, so that it may do the work of both jobs.
        earlier: Id of the ProcessTable run that hands its leases over; empty: the run acquires them.
        timeout_seconds: The run's time.
        max_rounds: Rounds after which a table that has more work is handed over to a new run.
        can_continue: Whether the process can load further tables; called after an error that is no `CdclakeError`.
    """

    job: str = ""
    earlier: str = ""
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    max_rounds: int = MAX_ROUNDS
    can_continue: Callable[[], bool] = lambda: True


def bring_up_to_date(
    paths: Sequence[str],
    out_bucket: str,
    out_prefix: str,
    run_id: str,
    ports: Ports,
    load: Callable[[DueLoad], object],
    host: Host = Host(),  # noqa: B008 - immutable
) -> RunReport:
    """Bring lake tables up to date: list, plan, load and record until nothing is due.

    Tables that are inactive or leased by another run are skipped; neither is an error. The error of a table is in its
    report and in its item.

    If loading a table raises an error that is none of cdclake's, the table is tried once more, see
    `TableWork.record_defect`. If the process cannot go on then, other runs do the rest.

    Args:
        paths: Keys of the tables' items.
        out_prefix: Lake prefix, empty or with a trailing slash.
        run_id: Holder of the leases.
        ports: State table, jobs, buckets, time.
        load: Commits what is due for a table as one change.
        host: Where the run works.

    Raises:
        StoppedError: The run was stopped.
    """
    note = SparkRun(host.job, run_id, len(paths), began=True) if host.job else None
    rounds = Rounds(out_bucket, out_prefix, run_id, ports, host, note)

    def take(table: TableWork) -> bool:
        if table.due_job == JOB_LOAD_INITIAL and host.job == JOB_LOAD_INCREMENTAL:  # its time is too short
            rounds.hand_over([table])
            return False
        for job in (JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL):
            if table.due_job != job:
                continue
            try:
                table.load(load)
            except (CdclakeError, StoppedError):
                raise
            except Exception as error:
                table.record_defect(error)
                if not host.can_continue():
                    rounds.hand_over(rounds.open)
                    message = f"This run cannot go on: {error_line(error)}"
                    raise StoppedError(message, remedy="Other runs do the rest") from error
                return False
        return True

    return rounds.run(paths, take)


class Rounds:
    """The rounds of a run's tables.

    Args:
        note: See `TableWork`.
    """

    def __init__(
        self, out_bucket: str, out_prefix: str, run_id: str, ports: Ports, host: Host, note: SparkRun | None = None
    ) -> None:
        self._out_bucket, self._out_prefix, self._run_id, self._ports = out_bucket, out_prefix, run_id, ports
        self._host, self._note = host, note
        self._tables: list[TableWork] = []
        self._last_round_utc = ports.clock() + timedelta(seconds=host.timeout_seconds * SHARE_FOR_ROUNDS)

    def run(
        self, paths: Sequence[str], take: Take, finish: Callable[[Sequence[TableWork]], None] = lambda _: None
    ) -> RunReport:
        """Take the leases, and run rounds until no table has more work.

        Args:
            take: Takes care of what is due for a table.
            finish: Takes care of the tables that are open at the end; the others have released their leases.
        """
        try:
            with renewed_in_background(lambda: [table.lease for table in self.open]):
                reports = tuple(self._begin(path) for path in paths)
                self._rounds(take)
                finish(self.open)
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            for table in self.open:
                table.fail(error)
            raise
        finally:
            self._ports.metrics.flush()
        return RunReport(self._run_id, reports)

    @property
    def open(self) -> list[TableWork]:
        """The tables that the run still works on."""
        return [table for table in self._tables if table.open]

    def _begin(self, path: str) -> TableReport:
        """Take a table's lease, unless the table must be skipped."""
        report = TableReport(path, self._run_id)
        try:
            state = read_state(self._ports.states, path)
            report.table = str(state.name)
            if not state.active and not self._host.earlier:
                # a mark would delay the first event after the table is turned on
                self._ports.states.clear_request(path)
                report.outcome = "inactive"
                return report
            if queued := self._queued_run(state):
                report.outcome, report.follow_up = f"busy: run {queued} waits in Glue's queue", queued
                return report
            layout = LakeLayout(self._out_bucket, self._out_prefix, state.name)
            item = TableItem(state, self._lease(state), layout, self._ports, report, self.renew_leases)
            self._tables.append(TableWork(item, self._note))
        except LeaseHeldError as error:
            report.outcome = f"busy: leased by {error.details.get('holder')} until {error.details.get('until')}"
        except LeaseLostError:
            report.outcome = "busy: another run has taken it over"
        except StoppedError:
            raise
        except Exception as error:
            log.exception("failed", extra={"table": report.table})
            report.outcome, report.failure = "failed", error
        return report

    def _queued_run(self, state: TableState) -> str:
        """The run that was handed a lease that has expired meanwhile, and may yet begin; empty if there is none.

        Taking the table over would only put another run at the end of Glue's queue. But a run that runs, and did not
        take the lease or let it expire, can no longer begin with the table, or not soon; nor can one whose lease
        another run took over.

        If this run has handed the lease over itself, it has not expired: Lambda may deliver a request twice. Then the
        run that runs is about to take it.
        """
        run, holder = SparkRun.of(state.item), state.item.get(Attribute.LEASE_HOLDER, "")
        is_leased = state.leased(self._ports.clock())
        if self._host.earlier or not run or run.began or not holder or (is_leased and holder != self._run_id):
            return ""
        try:
            found = self._ports.jobs.get(run.job, run.run)
        except JobRunError:  # it is long gone
            return ""
        waits = found.state is JobState.ACTIVE and (is_leased or found.detail != RUNNING)
        may_adopt = found.arguments.get(Argument.LEASE_HOLDER) == holder
        return run.run if waits and may_adopt else ""

    def _lease(self, state: TableState) -> Lease:
        states, clock, run_id = self._ports.states, self._ports.clock, self._run_id
        if self._host.earlier:
            return Lease.adopt(states, state, self._host.earlier, run_id, clock)
        return Lease.acquire(states, state.path, state.name, run_id, clock, clears_request=True)

    def _rounds(self, take: Take) -> None:
        """Run rounds until no table has more work, and release the leases."""
        for _ in range(self._host.max_rounds):
            for table in self._going_on:
                self.each([table], lambda table: self._round(table, take))
            if not self._going_on:
                return
            if self._ports.clock() >= self._last_round_utc:
                break
        self.hand_over(self._going_on)

    @property
    def _going_on(self) -> list[TableWork]:
        return [table for table in self.open if not table.set_aside]

    @staticmethod
    def _round(table: TableWork, take: Take) -> None:
        table.begin_round()
        if take(table):
            table.finish_round()

    def hand_over(self, tables: Sequence[TableWork]) -> None:
        """Release the leases, and start a ProcessTable run for the work that is left."""
        self.each(tables, TableWork.hand_over)
        paths = [table.path for table in tables if not table.report.failure]
        states, jobs, now = self._ports.states, self._ports.jobs, self._ports.clock()
        results = trigger_tables(states, jobs, paths, now, even_if_requested=paths)
        for table in tables:
            if table.path in results:
                table.report.follow_up = results[table.path].run_id
                table.report.failure = results[table.path].error
                table.report.outcome = "failed" if table.report.failure else "handed on"

    def each(self, tables: Sequence[TableWork], step: Callable[[TableWork], object]) -> None:
        """Do a step for each open table. An error ends the work on that table alone."""
        for table in tables:
            if not table.open:
                continue
            try:
                with logs.context(**table.item.log_fields):
                    step(table)
            except LeaseLostError as error:
                table.abandon(error)
            except StoppedError:
                raise
            except Exception as error:  # noqa: BLE001 - recorded for the table
                table.fail(error)

    def renew_leases(self) -> None:
        """Renew the leases. A table whose lease is lost is closed."""
        for table in self.open:
            try:
                table.lease.renew_if_due()
            except LeaseLostError as error:
                table.abandon(error)
