"""Builds what tests work on: change records, lake tables without an engine, and whole installations on folders.

What only one package needs stays beside its tests, with the reason in its module. `tests/dying_store.py` and
`tests/cdclake/lake/table.py` are shared too: a run that dies, and the raw and lake folder of one table.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Callable, cast

import pyarrow as pa
import pyarrow.parquet as pq

from cdclake.adapters.filesystem import lake_filesystem
from cdclake.adapters.stores import open_store
from cdclake.commit.log import ChangeLog
from cdclake.commit.publish import KeepAlive, no_lease, publish
from cdclake.commit.roll_forward import roll_forward
from cdclake.commit.undo import UndoPlan, apply_undo, plan_reapply, plan_rollback
from cdclake.control.controller import Plan, PlanInputs, execute, plan
from cdclake.control.jobs.arguments import parse_paths
from cdclake.control.jobs.entry import error_line
from cdclake.control.run.bring_up_to_date import Host, bring_up_to_date
from cdclake.control.run.dead_spark_run import continue_after
from cdclake.control.run.process_table import process_tables
from cdclake.control.status import LATE_AFTER_MINUTES, TableStatus, table_statuses
from cdclake.errors import CdclakeError
from cdclake.hash_secret import with_hash_secret
from cdclake.lake.limits import DEFAULT_LIMITS, EngineLimits
from cdclake.lake.operations.job import load_planned
from cdclake.lake.operations.table_run import TableRun
from cdclake.lake.spark.in_process import InProcessBackend
from cdclake.model.change.books import Books
from cdclake.model.change.record import ChangeKind, ChangeRecord, RawFileRows, StagedFile
from cdclake.model.layout import LakeLayout
from cdclake.model.names import JOB_PROCESS_TABLE, Argument, Sentinel
from cdclake.model.schema import Column, Schema
from cdclake.model.snapshot import DataFile, Snapshot, TombstoneFile
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.name import TableName
from cdclake.model.table.settings import TableSettings
from cdclake.ports import JobRun, JobState, Ports
from cdclake_devkit.memory import MemoryJobs, MemoryMetrics, MemoryState, Work
from tests.dying_store import DiedError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from cdclake.adapters.filesystem import FileSystemSpec
    from cdclake.control.run.planned_round import DueLoad
    from cdclake.control.run.report import RunReport
    from cdclake.model.raw.files import RawFile
    from cdclake.model.raw.ledger import Recorded
    from cdclake.model.table.state import TableState
    from cdclake.ports import Clock, ObjectStore

FIRST_CHANGE_UTC = datetime(2024, 3, 5, 10, tzinfo=timezone.utc)
LAYOUT = LakeLayout("lake", "", TableName("shop", "orders"))
SCHEMA = Schema((Column("id", "bigint"),))
RAW, LAKE = "raw", "lake"
"""Buckets of a `FolderInstallation`."""
SPARK = InProcessBackend()
Through = Callable[[Any], Any]


def _directly(port: Any) -> Any:
    return port


def recorded(snapshot: Snapshot, files: Sequence[RawFile]) -> Recorded:
    """Which change files a table contains whose ledger has no segments."""
    assert not snapshot.ledger.segments
    return snapshot.ledger.recorded(files, lambda _: ())


def change_record(change: int = 1, **fields: Any) -> ChangeRecord:
    """A record of an incremental change that changed nothing, with some fields set."""
    defaults: dict[str, Any] = {
        "kind": ChangeKind.INCREMENTAL,
        "created_utc": FIRST_CHANGE_UTC.isoformat(timespec="seconds"),
        "run_id": "run",
        "fencing_token": 1,
        "books": Books(),
        "snapshot_key": "snapshot",
    }
    return ChangeRecord(change=change, **{**defaults, **fields})


class LakeBuilder:
    """Changes a lake table whose data files are a few bytes.

    Args:
        log: The table's change log, or a store for that of `LAYOUT`.
        clock: Returns the time of a change; None: change N is committed N - 1 hours after `FIRST_CHANGE_UTC`.
        content: Returns a data file's bytes for its staged key.
        schema: The table's columns; the first is the key.

    Attributes:
        token: Fencing token of the changes to come.
    """

    def __init__(
        self,
        log: ChangeLog | ObjectStore,
        clock: Clock | None = None,
        content: Callable[[str], bytes] = lambda key: f"rows {key}".encode(),
        schema: Schema = SCHEMA,
    ) -> None:
        self.log = log if isinstance(log, ChangeLog) else ChangeLog(log, LAYOUT)
        self.store, self.layout = self.log.store, self.log.layout
        self.clock: Any = clock or self._hourly
        self._content = content
        self._schema = schema
        self.token = 1

    def _hourly(self) -> datetime:
        return FIRST_CHANGE_UTC + timedelta(hours=self.log.head())

    def stage(
        self,
        files: int = 1,
        retired: Sequence[str] = (),
        run_id: str = "",
        *,
        rows: int | Sequence[int] = 10,
        tombstones: int = 0,
        bad_rows: bytes = b"",
        books: Mapping[str, int] | None = None,
        snapshot: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> ChangeRecord:
        """Do everything of a change but its commit: new data files take the place of the retired ones.

        Args:
            retired: Relative paths of files to retire.
            rows: How many rows each new file has, or how many all have.
            tombstones: Remember that many deletes, in a file that replaces those there are.
            bad_rows: Content of a file of quarantined rows.
            books: Counts that differ from those of rows that were all inserted.
            snapshot: Fields of the snapshot that differ from the snapshot before.
            fields: Fields of the change record that differ from what follows from the rest.
        """
        before = self.log.snapshot(self.log.head())
        number = before.change + 1
        run_id = run_id or f"run-{number}"
        staged = [f"{self.layout.staging_prefix(number, run_id)}{i}.parquet" for i in range(files)]
        contents = [self._content(key) for key in staged]
        for key, content in zip(staged, contents):
            self.store.put(key, content)
        paths = [self.layout.data_path(number, i + 1, (), ()) for i in range(files)]
        sizes = [rows] * files if isinstance(rows, int) else rows
        new = [DataFile(path, size, len(content)) for path, size, content in zip(paths, sizes, contents)]
        known = before.tombstones
        if tombstones:
            key = self.layout.tombstones_key(number, run_id) + ".parquet"
            self.store.put(key, b"deletes")
            known = (TombstoneFile(key, tombstones, f"2024030{number}-000000000", 1, 9, ("int",), "last"),)
        quarantine = (self.layout.quarantine_prefix(number, run_id) + "rows.jsonl",) if bad_rows else ()
        for key in quarantine:
            self.store.put(key, bad_rows)
        after = replace(
            before,
            change=number,
            schema=self._schema,
            primary_key=(self._schema.columns[0].name,),
            watermark=f"2024030{number}-000000000.parquet",
            files=(*(file for file in before.files if file.path not in retired), *new),
            tombstones=known,
        )
        after = replace(after, **(snapshot or {}))
        inserted = sum(file.rows for file in new)
        counts = Books(
            read_insert=inserted,
            applied=inserted,
            inserted=inserted,
            replaced=before.rows + inserted - after.rows,
            rows_before=before.rows,
            rows_after=after.rows,
        )
        counted = replace(counts, **(books or {}))
        derived = {
            "created_utc": self.clock().isoformat(timespec="seconds"),
            "run_id": run_id,
            "fencing_token": self.token,
            "raw_files": (RawFileRows(after.watermark, counted.read, counted.quarantined),),
            "books": counted,
            "added": tuple(StagedFile(key, path) for key, path in zip(staged, paths)),
            "retired": tuple(retired),
            "snapshot_key": self.log.write_snapshot(after, run_id),
            "quarantine": quarantine,
            "bytes_added": sum(file.bytes for file in new),
        }
        return change_record(number, **{**derived, **fields})

    def change(self, files: int = 1, retired: Sequence[str] = (), **more: Any) -> ChangeRecord:
        """Commit and publish a change; see `stage`."""
        roll_forward(self.log)
        record = self.stage(files, retired, **more)
        self.log.commit(record)
        publish(self.log, record)
        return record

    def rollback(self, to: int | None = None) -> ChangeRecord:
        return self.apply(plan_rollback(self.log, to))

    def reapply(self) -> ChangeRecord:
        return self.apply(plan_reapply(self.log))

    def apply(self, plan: UndoPlan, keep_alive: KeepAlive = no_lease) -> ChangeRecord:
        return apply_undo(self.log, plan, "by-hand", self.token, self.clock, keep_alive=keep_alive)

    @property
    def snapshot(self) -> Snapshot:
        return self.log.snapshot(self.log.head())

    def contents(self) -> dict[str, bytes]:
        """What readers see, by relative path."""
        prefix = self.layout.table_prefix
        return {entry.key[len(prefix) :]: self.store.get(entry.key) or b"" for entry in self.store.list(prefix)}

    def visible(self) -> dict[str, str]:
        """Hash of each file that readers see, by relative path."""
        return {path: hashlib.sha256(content).hexdigest() for path, content in self.contents().items()}

    def control_keys(self, folder: str = "") -> list[str]:
        """Keys below a folder of the control area."""
        return [entry.key for entry in self.store.list(self.layout.control_prefix + folder)]


def table_run(
    raw: Path, lake: Path, raw_prefix: str, layout: LakeLayout, item: Mapping[str, str], **fields: Any
) -> TableRun:
    """A run of one table whose buckets are folders.

    Args:
        raw_prefix: The table's folder in the raw bucket.
        fields: Fields of the run that are not as for the first run of all.
    """
    defaults = {
        "raw": open_store(raw.as_uri()),
        "raw_fs": lake_filesystem(raw.as_uri()),
        "raw_prefix": raw_prefix,
        "log": ChangeLog(open_store(lake.as_uri()), layout),
        "lake_fs": lake_filesystem(lake.as_uri()),
        "settings": with_hash_secret(TableSettings.from_item(item)),
        "run_id": "run-1",
        "fencing_token": 1,
        "clock": _now,
    }
    return TableRun(**{**defaults, **fields})


def eventually(condition: Callable[[], object], within_seconds: float = 30) -> bool:
    """Whether a condition becomes true in time."""
    deadline = time.monotonic() + within_seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def parquet_bytes(table: pa.Table, **options: Any) -> bytes:
    """A Parquet file with these rows; the options are those of `pyarrow.parquet.write_table`."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return bytes(sink.getvalue())


def ended(error: str = "") -> JobRun:
    """The run of a job that succeeded, or failed with an error."""
    state = JobState.FAILED if error else JobState.SUCCEEDED
    return JobRun("", state, state.value, error)


class _DeadlyFiles:
    """A raw bucket, as an object store or as a file system, in which some files kill whoever reads them.

    Args:
        bucket: The bucket.
        deadly: Keys of these files.
    """

    def __init__(self, bucket: Any, deadly: Collection[str]) -> None:
        self._bucket, self._deadly = bucket, deadly

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._bucket, name)
        if name == "open":
            return lambda: _DeadlyFiles(found(), self._deadly)
        return self._killing(found) if name in ("get", "open_input_file", "open_input_stream") else found

    def _killing(self, read: Callable[..., Any]) -> Callable[..., Any]:
        def read_or_die(key: str, *args: Any, **more: Any) -> Any:
            if key in self._deadly:
                raise DiedError
            return read(key, *args, **more)

        return read_or_die


class FolderInstallation:
    """The pipeline with its buckets in folders: the Controller, ProcessTable and Spark jobs run in this process.

    A Spark run begins when `run_spark` is called. If it dies, its event starts another run.

    Args:
        root: Folder in which the folders `raw` and `lake` are created, if they do not exist.
        prefix: Raw prefix of all tables.
        clock: Returns the time.
        limits: Those of the Spark jobs' runs.

    Attributes:
        deadly: Keys of raw files at which the run of a Spark job dies.
    """

    def __init__(
        self, root: Path, prefix: str = "", clock: Clock | None = None, limits: EngineLimits = DEFAULT_LIMITS
    ) -> None:
        self.root, self.prefix, self.clock, self.limits = root, prefix, clock or _now, limits
        for bucket in (RAW, LAKE):
            (root / bucket).mkdir(exist_ok=True)
        self.states, self.metrics = MemoryState(), MemoryMetrics()
        self.jobs = MemoryJobs(self.run_job)
        self.deadly: set[str] = set()
        self._runs = 0

    def bucket(self, name: str) -> ObjectStore:
        return open_store((self.root / name).as_uri())

    def state(self, path: str) -> TableState:
        state = self.states.get(path)
        assert state is not None
        return state

    def log(self, path: str) -> ChangeLog:
        return ChangeLog(self.bucket(LAKE), LakeLayout(LAKE, "", self.state(path).name))

    def activate(self, path: str, **attributes: str) -> None:
        """Set attributes and turn a table on, as an operator does."""
        self.states.set_attributes(path, {**attributes, Attribute.ACTIVE_FLAG: Sentinel.ACTIVE})

    def plan(self) -> Plan:
        return plan(PlanInputs(self.bucket(RAW), self.states, RAW, self.prefix), self.clock())

    def statuses(self) -> dict[str, TableStatus]:
        """The status of each table, by name."""
        logs = lambda name: ChangeLog(self.bucket(LAKE), LakeLayout(LAKE, "", name))  # noqa: E731
        found = table_statuses(self.plan().tables, logs, self.clock(), LATE_AFTER_MINUTES)
        return {status.table: status for status in found}

    def run_controller(self) -> None:
        """Run the Controller and all that follows from it."""
        execute(self.plan(), self.states, self.jobs, self.clock)
        self.run_spark()

    def run_spark(self) -> None:
        """Run the Spark runs that were started, and all that follows from them."""
        self.jobs.run_waiting(self.after_failed_run)

    def after_failed_run(self, job: str, run_id: str) -> None:
        """What Glue's event of a run that failed leads to."""
        continue_after(self.states, self.jobs, job, run_id, self.clock())

    def run_job(self, job: str, arguments: Mapping[str, str]) -> JobRun | Work:
        """What the job runner does when a run is started."""
        if job != JOB_PROCESS_TABLE:
            return lambda run_id: self.run_spark_job(job, arguments, run_id)
        self._runs += 1
        try:
            return ended(self.process(arguments, f"run-{self._runs}"))
        except CdclakeError as problem:
            return ended(error_line(problem))

    def ports(self, through: Through = _directly) -> Ports:
        """What a run works on.

        Args:
            through: What lies between the run and each of its ports.
        """
        return Ports(
            states=through(self.states),
            jobs=through(self.jobs),
            open_bucket=lambda name: through(self.bucket(name)),
            clock=self.clock,
            metrics=self.metrics,
        )

    def process(self, arguments: Mapping[str, str], run_id: str, through: Through = _directly) -> str:
        """Run ProcessTable; returns nothing, or its error. See `ports`."""
        paths = parse_paths(arguments[Argument.PATHS])
        report = process_tables(paths, LAKE, "", run_id, self.ports(through), {}, lambda _: None)
        return str(report.to_json()["error"] or "")

    def run_spark_job(
        self, job: str, arguments: Mapping[str, str], run_id: str, through: Through = _directly
    ) -> JobRun:
        """Run a Spark job for the tables that ProcessTable hands over; returns how it ended. See `ports`."""
        host = Host(job, arguments[Argument.LEASE_HOLDER])
        try:
            report = self.bring_up_to_date(parse_paths(arguments[Argument.PATHS]), run_id, host, through)
        except DiedError:
            return ended("The process was ended by signal 6")
        return ended(str(report.to_json()["error"]))

    def bring_up_to_date(
        self,
        paths: Sequence[str],
        run_id: str,
        host: Host = Host(),  # noqa: B008 - immutable
        through: Through = _directly,
    ) -> RunReport:
        """Bring tables up to date in this process. See `ports`."""

        def load(due: DueLoad) -> None:
            run = table_run(
                self.root / RAW,
                self.root / LAKE,
                due.state.raw_prefix,
                due.changes.layout,
                due.state.item,
                log=due.changes,
                run_id=run_id,
                fencing_token=due.token,
                clock=self.clock,
                note_file=due.note_file,
                limits=self.limits,
            )
            if self.deadly:
                raw, raw_fs = _DeadlyFiles(run.raw, self.deadly), _DeadlyFiles(run.raw_fs, self.deadly)
                run = replace(run, raw=cast("ObjectStore", raw), raw_fs=cast("FileSystemSpec", raw_fs))
            load_planned(run, due, SPARK)

        return bring_up_to_date(paths, LAKE, "", run_id, self.ports(through), load, host)


def _now() -> datetime:
    return datetime.now(timezone.utc)
