"""LoadInitial and LoadIncremental: what is new in the raw folder becomes one committed, visible change."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Any

from cdclake.commit.publish import publish, roll_forward
from cdclake.errors import ConfigurationError, InputError
from cdclake.lake import raw_reader
from cdclake.lake.data_file import TableShape
from cdclake.lake.engine import Engine, Request, Result
from cdclake.lake.tasks import Places
from cdclake.model.late import applied_after, begin_after, passed_over, pending_changes
from cdclake.model.names import Attribute, Sentinel
from cdclake.model.rawfiles import file_order
from cdclake.model.schema import Schema, merge_schemas
from cdclake.model.snapshot import Books, ChangeKind, ChangeRecord, DataFile, Snapshot, StagedFile
from cdclake.model.table import TableState
from cdclake.raw_listing import list_raw_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark import SparkContext

    from cdclake.adapters.filesystem import FileSystemSpec
    from cdclake.commit.log import ChangeLog
    from cdclake.model.layout import LakeLayout
    from cdclake.model.rawfiles import RawFile
    from cdclake.model.table import TableSettings
    from cdclake.ports import Clock, ObjectReader

CONCURRENT_LOOKS = 16


@dataclass(frozen=True)
class TableRun:
    """One table and everything a run needs to work on it.

    Attributes:
        raw: Listing of the raw bucket; `raw_fs` reads its files inside tasks.
        log: The lake table's change log.
        lake_fs: The lake bucket inside tasks.
        raw_prefix: The table's folder in the raw bucket.
        run_id: The job run's id; names its staging folder.
        fencing_token: Number of the lease the run works under.
    """

    raw: ObjectReader
    raw_fs: FileSystemSpec
    raw_prefix: str
    log: ChangeLog
    lake_fs: FileSystemSpec
    settings: TableSettings
    run_id: str
    fencing_token: int
    clock: Clock

    @property
    def layout(self) -> LakeLayout:
        """Where the lake table lies."""
        return self.log.layout


def load_initial(run: TableRun, spark: SparkContext, base_change: int | None = None) -> dict[str, Any]:
    """Replace the lake table by the full load in the raw folder.

    A second call with the same arguments does nothing.

    Args:
        base_change: Number of the lake's newest change when the load was decided on: the load is done if there is
            another by now. None: it is done if the table was last loaded from the very same files.

    Returns:
        Summary of the change for a log or a program; `change` is None if nothing was to be done.

    Raises:
        InputError: There is no full load, or it cannot be taken.
    """
    before = _current(run)
    full_load, changes = list_raw_files(run.raw, run.raw_prefix, run.settings.cdc_path)
    if not full_load:
        remedy = "Confirm that the DMS task does a full load of this table into this folder"
        raise InputError("The raw folder holds no full-load files", remedy=remedy, file=run.raw_prefix)
    newest = max(file.modified_utc for file in full_load).strftime(TableState.DATE_FORMAT)
    names = tuple(file.relative for file in full_load)
    same = (before.full_load_files, before.full_load_utc) == (names, newest)
    if same if base_change is None else before.change != base_change:
        return _nothing(run, before, "this full load is in the lake already")

    looks = _inspect(run, full_load)
    shape = _shape(run, _merged(Schema(), full_load, looks))
    result = _compute(run, spark, before, shape, looks, full_load=True)
    begun = begin_after(before, passed_over(full_load, changes) if before.change else "")
    after = replace(_snapshot(run, begun, shape, result, kept=()), full_load_files=names, full_load_utc=newest)
    return _finish(run, before, after, result, ChangeKind.FULL_LOAD, names)


def load_incremental(run: TableRun, spark: SparkContext, last_file: str, new_file: str) -> dict[str, Any]:
    """Apply the change files that the lake table lacks, late ones included, up to a given one.

    What the lake has is told by its own snapshot; `last_file` is used only while there is none. A second call with the
    same arguments does nothing.

    Args:
        last_file: Watermark of the state table, relative to the table's raw folder; empty for none.
        new_file: Last change file to apply, relative; empty for all there are.

    Returns:
        Summary of the change for a log or a program; `change` is None if nothing was to be done.

    Raises:
        InputError: A change file cannot be taken.
        ConfigurationError: The table's keys are not those that the lake table was made with.
    """
    before = _current(run)
    known = before if before.change else begin_after(before, last_file)
    end = file_order(new_file)
    _, changes = list_raw_files(run.raw, run.raw_prefix, run.settings.cdc_path)
    due, too_late = pending_changes(known, changes, run.settings.late_window_hours, _last_change_time(run, before))
    due = [file for file in due if not end or file.order <= end]
    if not due:
        nothing = _nothing(run, before, "every change file is in the lake already")
        return {**nothing, "too_late": [file.relative for file in too_late]}

    looks = _inspect(run, due)
    shape = _shape(run, _merged(before.schema, due, looks))
    _require_same_keys(run, before, shape)
    result = _compute(run, spark, before, shape, looks, full_load=False)
    gone = set(result.rewritten)
    kept = tuple(file for i, file in enumerate(before.files) if i not in gone)
    after = applied_after(_snapshot(run, known, shape, result, kept), due, run.settings.late_window_hours)
    names, left_out = (tuple(file.relative for file in files) for files in (due, too_late))
    return _finish(run, before, after, result, ChangeKind.INCREMENTAL, names, left_out)


def _current(run: TableRun) -> Snapshot:
    change = roll_forward(run.log)
    if change == 0 and any(True for _ in run.log.store.list(run.layout.table_prefix)):
        message = f"The lake folder of {run.layout.name} holds files that cdclake did not write"
        remedy = "Empty the folder, or choose another lake prefix"
        raise ConfigurationError(message, remedy=remedy, folder=run.layout.table_prefix)
    return run.log.snapshot(change)


def _inspect(run: TableRun, files: Sequence[RawFile]) -> list[raw_reader.Inspection]:
    fs = run.raw_fs.open()
    with ThreadPoolExecutor(CONCURRENT_LOOKS) as pool:
        return list(pool.map(lambda file: raw_reader.inspect(fs, file, run.settings), files))


def _merged(schema: Schema, files: Sequence[RawFile], looks: Sequence[raw_reader.Inspection]) -> Schema:
    pairs = zip(files, looks, strict=True)
    return reduce(lambda merged, pair: merge_schemas(merged, pair[1].schema, pair[0].relative), pairs, schema)


def _shape(run: TableRun, schema: Schema) -> TableShape:
    for name in (*run.settings.primary_key, *run.settings.partition_key):
        if schema.find(name) is None:
            message = f"{run.layout.name} has no column {name}"
            remedy = f"Correct PrimaryKey or PartitionKey; the columns are {', '.join(schema.names)}"
            raise ConfigurationError(message, remedy=remedy)
    partial = run.settings.csv.no_sup_value is not None
    return TableShape(schema, run.settings.primary_key, run.settings.partition_key, partial)


def _require_same_keys(run: TableRun, before: Snapshot, shape: TableShape) -> None:
    if not before.change:
        return
    settings = run.settings
    for attribute, was, now in (
        (Attribute.PRIMARY_KEY, ",".join(before.primary_key), ",".join(shape.primary_key)),
        (Attribute.PARTITION_KEY, ",".join(before.partition_key), ",".join(shape.partition_key)),
        (Attribute.ORDER_COLUMN, before.order_column, settings.order_column),
    ):
        if was != now:
            message = f"The lake table was made with {attribute} '{was}', and the settings say '{now}'"
            remedy = (
                f"Set it back, or load the table anew: set {Attribute.LAST_FULL_LOAD_DATE} to {Sentinel.NEVER_LOADED}"
            )
            raise ConfigurationError(message, remedy=remedy, table=run.layout.name)


def _last_change_time(run: TableRun, before: Snapshot) -> datetime | None:
    return datetime.fromisoformat(run.log.record(before.change).created_utc) if before.change else None


def _compute(
    run: TableRun,
    spark: SparkContext,
    before: Snapshot,
    shape: TableShape,
    looks: Sequence[raw_reader.Inspection],
    *,
    full_load: bool,
) -> Result:
    layout, change = run.layout, before.change + 1
    files = () if full_load else before.files
    rewrite_all = _changes_a_type(before.schema, shape.schema)
    if rewrite_all:  # the bounds of a key of another type compare with nothing
        files = tuple(replace(file, key_min=None, key_max=None) for file in files)
    request = Request(
        table=layout.name,
        parts=tuple(part for look in looks for part in look.parts),
        files=files,
        tombstones=() if full_load else before.tombstones,
        oldest=before.horizon,
        shape=shape,
        settings=run.settings,
        places=Places(
            raw=run.raw_fs,
            lake=run.lake_fs,
            table_prefix=layout.table_prefix,
            staging=layout.staging_prefix(change, run.run_id),
            tombstones=layout.tombstones_key(change, run.run_id),
            quarantine=layout.quarantine_prefix(change, run.run_id),
        ),
        full_load=full_load,
        rewrite_all=rewrite_all,
    )
    return Engine(spark).run(request)


def _changes_a_type(before: Schema, after: Schema) -> bool:
    """Whether a column the table had has another type now: readers want one type in all files of a table."""
    return any((now := after.find(was.name)) is not None and now.type != was.type for was in before)


def _snapshot(
    run: TableRun, before: Snapshot, shape: TableShape, result: Result, kept: tuple[DataFile, ...]
) -> Snapshot:
    """The table after the change; new files still carry their staged key as path."""
    return replace(
        before,
        change=before.change + 1,
        schema=shape.schema,
        primary_key=shape.primary_key,
        partition_key=shape.partition_key,
        order_column=run.settings.order_column,
        files=(*kept, *result.written),
        tombstones=result.tombstones,
    )


def _finish(
    run: TableRun,
    before: Snapshot,
    after: Snapshot,
    result: Result,
    kind: ChangeKind,
    raw: tuple[str, ...],
    too_late: tuple[str, ...] = (),
) -> dict[str, Any]:
    started = time.perf_counter()
    staged = {file.path for file in result.written}
    numbers = iter(range(1, len(staged) + 1))
    added: list[StagedFile] = []
    live: list[DataFile] = []
    for file in after.files:
        if file.path in staged:
            path = run.layout.data_path(after.change, next(numbers), after.partition_key, file.partition)
            added.append(StagedFile(file.path, path))
            live.append(replace(file, path=path))
        else:
            live.append(file)
    still = {file.path for file in live}
    after = replace(after, files=tuple(live))
    record = ChangeRecord(
        change=after.change,
        kind=kind,
        created_utc=run.clock().isoformat(timespec="seconds"),
        run_id=run.run_id,
        fencing_token=run.fencing_token,
        raw_files=raw,
        books=_books(before, after, result, kind),
        added=tuple(added),
        retired=tuple(file.path for file in before.files if file.path not in still),
        snapshot_key=run.log.write_snapshot(after, run.run_id),
        too_late=too_late,
        quarantine=result.quarantine_keys,
        bytes_added=sum(file.bytes for file in result.written),
        seconds=result.seconds,
    )
    run.log.commit(record)
    committed = time.perf_counter()
    publish(run.log, record)
    seconds = {
        **result.seconds,
        "commit": round(committed - started, 3),
        "publish": round(time.perf_counter() - committed, 3),
    }
    return {
        "table": str(run.layout.name),
        "change": record.change,
        "kind": kind.value,
        "raw_files": len(raw),
        "too_late": list(too_late),
        "files_added": len(record.added),
        "files_retired": len(record.retired),
        "files_before": len(before.files),
        "books": asdict(record.books),
        "seconds": seconds,
    }


def _books(before: Snapshot, after: Snapshot, result: Result, kind: ChangeKind) -> Books:
    counts = result.decision.counts
    return Books(
        read_insert=result.read.inserts,
        read_update=result.read.updates,
        read_delete=result.read.deletes - result.read.derived,
        read_unknown=result.read.quarantine.rows,
        derived=result.read.derived,
        applied=counts.applied - result.repeated,
        superseded=counts.superseded,
        ignored=counts.ignored,
        quarantined=result.read.quarantine.rows + result.repeated,
        inserted=counts.inserted - result.repeated,
        updated=counts.updated,
        deleted=counts.deleted,
        absent=counts.absent,
        replaced=before.rows if kind is ChangeKind.FULL_LOAD else 0,
        rows_before=before.rows,
        rows_after=after.rows,
    )


def _nothing(run: TableRun, before: Snapshot, reason: str) -> dict[str, Any]:
    return {"table": str(run.layout.name), "change": None, "reason": reason, "newest_change": before.change}
