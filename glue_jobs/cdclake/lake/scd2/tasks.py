"""The functions that Spark tasks run to keep a history. They do not know Spark."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.merge.file_ranges import FileBounds
from cdclake.lake.merge.messages import Batch, Source, SourceRows
from cdclake.lake.merge.read_changes import Locations, ReadStats, sorted_batch
from cdclake.lake.merge.resolve import Counts, ResolvedBatch, in_order, without_column_marks
from cdclake.lake.merge.tasks.resolution import InsertCounting, Resolution, to_resolution
from cdclake.lake.merge.tasks.route import rows_by_source
from cdclake.lake.scd2.versions import (
    existing_versions,
    keyed_shape,
    late_versions,
    loaded_versions,
    merge_versions,
    missing_versions,
    new_versions,
    version_schema,
)
from cdclake.lake.storage.arrow_ipc import concat
from cdclake.lake.storage.bloom import row_group_filter
from cdclake.lake.storage.key_ranges import candidate_rows
from cdclake.lake.storage.keys import KEY, LEADING_KEY, UNSEEN, UNSENT, matches
from cdclake.lake.storage.reader import read_batches
from cdclake.lake.storage.shape import is_deleted
from cdclake.lake.storage.tombstones import find_tombstones
from cdclake.lake.storage.wanted_keys import WantedKeys
from cdclake.model.position import ARRIVED, DISPLACED
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.schema import DELETE, OP_COLUMN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from pyarrow.fs import FileSystem

    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.iceberg.field_ids import FieldIds
    from cdclake.model.snapshot import DataFile, TombstoneFile


@dataclass(frozen=True)
class HistoryPlan:
    """What a change does to a history.

    Attributes:
        change: Number of the change.
        open_files: Data files of open versions; paths are relative to the history's folder.
        closed_files: Data files of closed versions, likewise.
        loads: Numbers of the full loads in the history, including this change if it is one.
        compare_all: Whether the history may differ from the table by more than the change, so that all rows are
            compared.
        tombstones: Tombstone files, in the control area, of deletes that the history may lack.
        time_column: Timestamp column with the time since when a row of the table is valid; empty for none.
        change_time_column: The same for the rows of the change; empty if they do not set it.
        loaded_utc: Start of validity of loaded rows without another time.
        now_utc: The current time.
        rewrite_all: Whether every data file must be rewritten: the type of a column changes, or readers do.
        locations: Where to read and write; the table's folder is the history's.
        field_ids: Of the columns in its files after the change.
    """

    change: int
    open_files: tuple[DataFile, ...]
    closed_files: tuple[DataFile, ...]
    loads: tuple[int, ...]
    compare_all: bool
    tombstones: tuple[TombstoneFile, ...]
    time_column: str
    change_time_column: str
    loaded_utc: datetime
    now_utc: datetime
    rewrite_all: bool
    locations: Locations
    field_ids: FieldIds

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All data files, in the order of `cdclake.lake.scd2.versions.FILE_INDEX`."""
        return (*self.open_files, *self.closed_files)


@dataclass(frozen=True)
class VersionMerge:
    """Outcome of one task, for the files of open and of closed versions."""

    opened: Resolution
    closed: Resolution

    def summary(self) -> VersionMerge:
        """The same without rows."""
        return VersionMerge(self.opened.summary(), self.closed.summary())

    def __add__(self, other: VersionMerge) -> VersionMerge:
        return VersionMerge(self.opened + other.opened, self.closed + other.closed)


NO_VERSIONS = VersionMerge(Resolution(Counts()), Resolution(Counts()))


def read_table_rows(
    files: Iterable[DataFile], *, locations: Locations, shape: TableShape
) -> Iterator[Batch[ReadStats]]:
    """Read data files of the table as rows in flight, without soft-deleted rows, in batches sorted by leading key."""
    fs = locations.lake.open()
    for file in files:
        for stored in read_batches(fs, locations.layout.data_key(file.path), shape, file=file):
            rows = stored.filter(pc.invert(is_deleted(stored))) if file.deleted else stored
            leading_key, key = shape.keys_of(rows, file.partition)
            columns = {**shape.source_columns(rows, file.partition), OP_COLUMN: rows[OP_COLUMN]}
            columns |= {POSITION: without_column_marks(rows), LEADING_KEY: leading_key, KEY: key}
            columns[UNSEEN] = pa.repeat(False, rows.num_rows)
            if shape.partial:
                columns[UNSENT] = pa.repeat("", rows.num_rows)
            yield sorted_batch(pa.table(columns, schema=shape.in_flight))


def read_open_versions(
    files: Iterable[tuple[int, DataFile]], *, plan: HistoryPlan, shape: TableShape
) -> Iterator[Batch[ReadStats]]:
    """Read data files of open versions, each given with its index, in batches sorted by leading key."""
    fs, keyed = plan.locations.lake.open(), keyed_shape(shape)
    for i, file in files:
        for rows in read_batches(fs, plan.locations.layout.data_key(file.path), keyed, file=file):
            yield sorted_batch(existing_versions(rows, i, file, shape))


def find_open_versions(
    wanted: Iterable[tuple[int, pa.Table]], *, files: Mapping[int, DataFile], plan: HistoryPlan, shape: TableShape
) -> Iterator[pa.Table]:
    """Look up keys in the data files of open versions; returns the open versions of the keys, in parts.

    Args:
        wanted: Index of a data file, and the leading keys and keys to look up in it.
        files: At least these data files, by index.
    """
    fs = plan.locations.lake.open()
    for i, wanted_rows in wanted:
        yield from _find(fs, i, files[i], wanted_rows, plan, shape)


def _find(
    fs: FileSystem, i: int, file: DataFile, wanted: pa.Table, plan: HistoryPlan, shape: TableShape
) -> Iterator[pa.Table]:
    """The versions of some keys in a data file. If the keys are few, Bloom filters rule out row groups."""
    keyed = keyed_shape(shape)
    keys, row_groups = WantedKeys(wanted, keyed), row_group_filter(keyed, wanted)
    for rows in keys.read(fs, plan.locations.layout.data_key(file.path), file, row_groups=row_groups):
        yield existing_versions(rows, i, file, shape)


def merge_key_range(
    entries: Iterable[SourceRows],
    *,
    plan: HistoryPlan,
    shape: TableShape,
    counting: InsertCounting,
    full_load: bool,
) -> Iterator[VersionMerge]:
    """Merge all rows of one key range into the history.

    Args:
        entries: Rows of the change and open versions. If history and table are compared, these are all rows and open
            versions of the range, else only open versions of the keys that change.
        counting: How to count new open versions.
        full_load: Whether the rows of the table come from a full load.
    """
    batches = rows_by_source(entries)
    fs = plan.locations.lake.open()
    existing = concat(batches[Source.HISTORY], version_schema(shape))
    rows = concat(batches[Source.CHANGE], shape.in_flight)
    rows = pa.concat_tables([rows, _missing_deletes(fs, rows, plan, shape)])
    new = new_versions(rows, shape, plan.change, plan.change_time_column, plan.loaded_utc, plan.now_utc)
    if plan.compare_all:
        live = concat(batches[Source.TABLE], shape.in_flight)
        make = loaded_versions if full_load else partial(new_versions, default_utc=plan.loaded_utc)
        versions = make(live, shape, plan.change, plan.time_column, plan.loaded_utc)
        ended_utc = plan.loaded_utc if full_load else plan.now_utc
        missing = missing_versions(versions, existing, shape, plan.change, plan.loads, ended_utc)
        new = pa.concat_tables([new, missing])
        existing = existing.filter(matches(existing[KEY], pc.unique(new[KEY])))
    if not new.num_rows:
        return
    existing = pa.concat_tables([existing, *_closed_versions(fs, new, existing, plan, shape)])
    split = len(plan.open_files)
    changes = merge_versions(existing, new, shape, plan.loads, split)
    opened = ResolvedBatch(Counts(), {i: keys for i, keys in changes.removals.items() if i < split}, {}, changes.opened)
    closed = ResolvedBatch(
        Counts(),
        {i - split: keys for i, keys in changes.removals.items() if i >= split},
        {i - split: rows for i, rows in changes.replacements.items()},
        changes.closed,
    )
    counting_closed = replace(counting, file_bounds=FileBounds(()))
    yield VersionMerge(to_resolution(opened, counting), to_resolution(closed, counting_closed))


def _closed_versions(
    fs: FileSystem, new: pa.Table, existing: pa.Table, plan: HistoryPlan, shape: TableShape
) -> Iterator[pa.Table]:
    """The closed versions of keys with a late new version."""
    late = in_order(late_versions(new, existing, plan.loads), (LEADING_KEY,)).combine_chunks()
    for i, start, end in candidate_rows(late[LEADING_KEY], plan.closed_files):
        wanted = late.slice(start, end - start)
        yield from _find(fs, len(plan.open_files) + i, plan.closed_files[i], wanted, plan, shape)


def _missing_deletes(fs: FileSystem, rows: pa.Table, plan: HistoryPlan, shape: TableShape) -> pa.Table:
    """Tombstones later than one of the rows, as rows in flight with only the key set.

    A history that began after these deletes would otherwise take a late, older row for the newest.
    """
    if not (plan.tombstones and rows.num_rows):
        return rows.slice(0, 0)
    tombstones = find_tombstones(fs, plan.tombstones, rows[LEADING_KEY], rows[KEY], shape)
    oldest = pa.TableGroupBy(rows.select([KEY, POSITION]), KEY).aggregate([(POSITION, "min")])
    first = oldest.take(pc.index_in(tombstones[KEY], value_set=oldest[KEY].combine_chunks()))[f"{POSITION}_min"]
    is_delete = pc.invert(pc.ends_with(tombstones[POSITION], DISPLACED))
    tombstones = tombstones.filter(pc.and_(is_delete, pc.greater(tombstones[POSITION], first)))
    same_key = rows.take(pc.index_in(tombstones[KEY], value_set=rows[KEY].combine_chunks()))
    key_columns = {column.name for name in shape.primary_key if (column := shape.schema.find(name))}
    columns = {name: same_key[name] for name in (*key_columns, LEADING_KEY, KEY)}
    positions = pc.utf8_rtrim(tombstones[POSITION], ARRIVED)  # only tombstones have this mark
    columns |= {POSITION: positions, OP_COLUMN: pa.repeat(DELETE, tombstones.num_rows)}
    filled = [columns.get(field.name, pa.nulls(tombstones.num_rows, field.type)) for field in rows.schema]
    return pa.table(filled, schema=rows.schema)
