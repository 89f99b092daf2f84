"""Commits a staged change and makes it visible."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from cdclake.commit.ledger import seal
from cdclake.commit.publish import publish
from cdclake.commit.storable import require_storable
from cdclake.errors import InputError
from cdclake.lake.storage.reader import lake_file, parquet_file
from cdclake.model.change.books import Books
from cdclake.model.change.record import ChangeKind, ChangeRecord, RawFileRows, StagedFile
from cdclake.model.layout import HISTORY, is_in_iceberg
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.position import file_and_row
from cdclake.model.versions import MONTH, YEAR, history_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.adapters.filesystem import FileSystemSpec
    from cdclake.lake.operations.request import Result
    from cdclake.lake.operations.table_run import TableRun
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.drift import ColumnDrift
    from cdclake.model.raw.files import RawFile
    from cdclake.model.snapshot import DataFile, ErasedKeys, History, Snapshot


def _snapshot_after(run: TableRun, before: Snapshot, facts: Snapshot, shape: TableShape, result: Result) -> Snapshot:
    """The table after a staged change. Paths of new files are still their staged keys."""
    return replace(
        facts,
        change=before.change + 1,
        schema=shape.schema,
        primary_key=shape.primary_key,
        partition_key=shape.partition_key,
        order_column=run.settings.order_column,
        order_type=shape.order_type,
        files=(*result.unchanged, *result.written),
        tombstones=result.tombstones,
        forgotten=max(facts.forgotten, result.forgotten),
        history=result.history,
        added=shape.added if run.settings.keep_missing_columns else facts.added,
        field_ids=shape.with_field_ids(before.field_ids, before.schema).field_ids,
        erased=_still_needed(run, facts),
        policy=run.settings.column_policy.applied(before.policy, before.change + 1),
        days=before.days_after(run.clock(), run.limits.settled_days),
    )


def _still_needed(run: TableRun, lake: Snapshot) -> tuple[ErasedKeys, ...]:
    """The erased keys of which older rows may still arrive after a change, or whose erasure did not finish."""
    if not lake.erased:
        return ()
    first, keeps = run.log.retained().first, bool(run.settings.order_column) or lake.load_in_quarantine
    needed = lake.erased_still_needed(first, keeps_deletes=keeps)
    if len(needed) == len(lake.erased):
        return needed
    unfinished = run.log.unfinished_erasures(lake)
    return tuple(one for one in lake.erased if one in needed or one in unfinished)


def commit(
    run: TableRun,
    before: Snapshot,
    facts: Snapshot,
    shape: TableShape,
    result: Result,
    kind: ChangeKind,
    raw: Sequence[RawFile],
    *,
    reason: str = "",
    made_by: str = "",
    drift: tuple[ColumnDrift, ...] = (),
    missing_columns: tuple[str, ...] = (),
    unknown_keys: int = 0,
    written_utc: tuple[str, str] = ("", ""),
) -> dict[str, Any]:
    """Commit a staged change and make it visible.

    Args:
        before: The table before it.
        facts: The same, but with what the operation knows of the table after it, such as the watermark and ordering.
        shape: Columns and keys after it.
        result: The staged change.
        raw: The raw files that were read.
        reason: Why, if a user requested the change.
        made_by: Who requested it, if a user did.
        drift: Columns that changed at the source.
        missing_columns: Columns of the table that some change file lacks.
        unknown_keys: See `ChangeRecord.unknown_keys`.
        written_utc: See `ChangeRecord.oldest_written_utc` and `newest_written_utc`.

    Returns:
        Summary of the change, for logs and programs.

    Raises:
        InputError: The store cannot hold the change's data files, see `require_storable`; nothing of it is left.
        BooksError: The row counts do not balance; nothing was committed.
        LeaseLostError: Another run took over the table; nothing was committed.
        CommitConflictError: Another run committed first; nothing of this change is visible.
    """
    started = time.perf_counter()
    after = _snapshot_after(run, before, facts, shape, result)
    paths = _FinalPaths(run, after.change, result)
    after = replace(after, files=paths.assign(after.files, after.partition_key), iceberg=None)
    if after.history and after.history.is_kept:
        after = replace(after, history=paths.assign_to_history(after.history))
    _require_storable(run, before, result, paths.added)
    if run.settings.readers.open_iceberg:
        after = _with_manifests(run, before, after, paths.added)
    remaining = {file.path for file in after.all_files}
    replaced = [file for file in before.all_files if file.path not in remaining]
    replaces = kind is ChangeKind.FULL_LOAD and not result.by_difference
    files_read = before.all_files if result.by_difference else () if replaces else replaced
    ledger = seal(run.log, after.ledger, after.change, run.run_id, run.limits.ledger_segment_files)
    after = replace(after, ledger=ledger)
    record = ChangeRecord(
        change=after.change,
        kind=kind,
        run_id=run.run_id,
        fencing_token=run.fencing_token or run.log.fencing_token(before.change),
        raw_files=tuple(
            RawFileRows(name, result.read.by_file.get(name, 0), result.read.quarantine.by_file.get(name, 0))
            for name in (file.relative for file in raw)
        ),
        books=_books(before, after, result, replaces=replaces),
        added=tuple(paths.added),
        retired=tuple(file.path for file in replaced),
        snapshot_key=run.log.write_snapshot(after, run.run_id),
        reason=reason,
        made_by=made_by,
        quarantine=result.quarantine_keys,
        row_rules=run.settings.csv.row_rules if result.quarantine_keys else "",
        drift=drift,
        missing_columns=missing_columns,
        unknown_keys=unknown_keys,
        bytes_read=sum(file.size_bytes for file in raw) + sum(file.bytes for file in files_read),
        bytes_added=sum(file.bytes for file in result.all_written),
        seconds=result.seconds,
        oldest_written_utc=written_utc[0],
        newest_written_utc=written_utc[1],
        place=run.place,
    ).with_iceberg(before, after)
    record = run.log.dated(record, run.clock)
    looked = run.log.commit(record)
    seconds = {"commit": round(time.perf_counter() - started, 3)}
    later = publish(run.log, record, seconds=seconds, snapshot=after, looked=looked)
    return {
        "table": str(run.layout.name),
        "change": record.change,
        "kind": kind.value,
        "raw_files": len(raw),
        "drift": [str(one) for one in drift],
        "missing_columns": list(missing_columns),
        "unknown_keys": unknown_keys,
        "files_added": len(record.added),
        "files_retired": len(record.retired),
        "files_before": len(before.all_files),
        "books": asdict(record.books),
        "bytes_read": record.bytes_read,
        "bytes_added": record.bytes_added,
        "seconds": {**record.seconds, **later},
    }


def _require_storable(run: TableRun, before: Snapshot, result: Result, added: Sequence[StagedFile]) -> None:
    """Refuse a change whose data files can have no place, before the values in their names are stored anywhere.

    Raises:
        InputError: As `require_storable`. What the change has staged is deleted.
    """
    store = run.log.store
    try:
        require_storable(store, run.layout, added, partial(_source_row, run.lake_fs))
    except InputError:
        known = {file.key for file in before.tombstones}
        tombstones = (file.key for file in result.tombstones if file.key not in known)
        staged = (entry.key for entry in store.list(run.layout.staging_prefix(before.change + 1, run.run_id)))
        written = (file.path for file in result.all_written)  # files of an Iceberg table are not staged
        store.delete([*dict.fromkeys((*staged, *written)), *tombstones, *result.quarantine_keys])
        raise


def _source_row(lake_fs: FileSystemSpec, staged_key: str) -> dict[str, object]:
    """File and row, from 1, of the first change row in a staged data file; empty if it is from a full load."""
    with lake_file(lake_fs.open(), staged_key) as source:
        first = pc.min(parquet_file(source).read([POSITION])[POSITION]).as_py()
    if not first:
        return {}
    file, row = file_and_row(first)
    return {"file": file, "row": row + 1}


def _with_manifests(run: TableRun, before: Snapshot, after: Snapshot, added: Sequence[StagedFile]) -> Snapshot:
    """The table after a change, with manifests of its files and of its history's, if it is kept."""
    from cdclake.lake.storage.iceberg_manifests import ManifestWriting  # here: it takes most of a second

    sources = {file.path: file.staged_key for file in added}
    in_folder = run.settings.readers.list_folder
    writing = ManifestWriting(run.log.store, run.lake_fs.open(), run.layout, run.run_id, sources, in_folder, run.limits)
    after = writing.snapshot_with_manifests(before, after)
    if not (after.history and after.history.is_kept):
        return after
    (was, _), (versions, layout) = (history_table(lake, run.layout) for lake in (before, after))
    closed = [file for lake in (before, after) if lake.history for file in lake.history.closed]
    writing = replace(writing, layout=layout, sources={_in_history(path): key for path, key in sources.items()})
    versions = writing.snapshot_with_manifests(was, versions, {_in_history(file.path) for file in closed})
    files = tuple(replace(file, path=HISTORY + file.path) for file in versions.files)
    count = len(after.history.open)
    return replace(
        after, history=replace(after.history, open=files[:count], closed=files[count:], iceberg=versions.iceberg)
    )


def _in_history(path: str) -> str:
    """Path of a file of the history, as of a table of its own."""
    return path.removeprefix(HISTORY)


class _FinalPaths:
    """Assigns final paths to staged files, numbered from 1, and to files that are in the folder of other readers."""

    def __init__(self, run: TableRun, change: int, result: Result) -> None:
        self._run, self._layout, self._change = run, run.layout, change
        self._staged = {file.path for file in result.all_written}
        self._in_iceberg = not run.settings.readers.list_folder
        self.added: list[StagedFile] = []

    def assign(self, files: Sequence[DataFile], key: tuple[str, ...], prefix: str = "") -> tuple[DataFile, ...]:
        """The same files, but staged and moved files with the path that they will be published as.

        Args:
            key: Partition columns of the files.
            prefix: `HISTORY` for files of the history; empty for files of the table.
        """
        named = []
        for file in files:
            if file.path in self._staged:
                named.append(self._add(file, file.path, key, prefix))
            elif is_in_iceberg(file.path) != self._in_iceberg:
                named.append(self._add(file, self._layout.data_key(file.path), key, prefix))
            else:
                named.append(file)
        return tuple(named)

    def _add(self, file: DataFile, source: str, key: tuple[str, ...], prefix: str) -> DataFile:
        number = len(self.added) + 1
        layout = self._layout.history if prefix else self._layout
        own_folder = layout.iceberg_data_prefix(self._change, self._run.run_id)
        if not self._in_iceberg:
            path = prefix + layout.data_path(self._change, number, key, file.partition)
        elif source.startswith(own_folder):
            path = self._layout.data_path_of(source)
        else:
            path = self._layout.data_path_of(f"{own_folder}moved-{number:05d}.parquet")
        self.added.append(StagedFile(source, path))
        return replace(file, path=path)

    def assign_to_history(self, history: History) -> History:
        """The same history, but staged and moved files with the path that they will be published as."""
        opened, closed = (self.assign(files, (YEAR, MONTH), HISTORY) for files in (history.open, history.closed))
        return replace(history, open=opened, closed=closed)


def _books(before: Snapshot, after: Snapshot, result: Result, *, replaces: bool) -> Books:
    counts = result.resolution.counts
    return Books(
        read_insert=result.read.inserts,
        read_update=result.read.updates,
        read_delete=result.read.deletes - result.read.derived,
        read_unknown=result.read.quarantine.rows + result.read.suppressed,
        derived=counts.deleted if result.by_difference else result.read.derived,
        applied=counts.applied - result.repeated,
        superseded=counts.superseded,
        ignored=counts.ignored,
        quarantined=result.read.quarantine.rows + result.repeated,
        suppressed=result.read.suppressed,
        inserted=counts.inserted - result.repeated,
        updated=counts.updated,
        deleted=counts.deleted,
        absent=counts.absent,
        replaced=before.rows if replaces else 0,
        rows_before=before.rows,
        rows_after=after.rows,
    )
