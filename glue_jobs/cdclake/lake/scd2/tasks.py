"""What runs inside Spark's tasks to keep the history of a table. Plain values and blobs, as in `tasks`."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.merge.resolve import Counts, ResolvedBatch, in_order
from cdclake.lake.merge.tasks import (
    SAMPLES_PER_BATCH,
    Locations,
    ReadStats,
    Resolution,
    to_resolution,
    tombstone_schema,
)
from cdclake.lake.scd2.versions import (
    VERSION_FILE,
    compared,
    keyed_shape,
    late_versions,
    loaded_versions,
    merge_versions,
    new_versions,
    version_schema,
)
from cdclake.lake.storage.arrow_ipc import concat_ipc, to_ipc
from cdclake.lake.storage.bloom import row_group_filter
from cdclake.lake.storage.key_ranges import candidate_rows, sample, split_at_bounds
from cdclake.lake.storage.keys import KEY, LEADING_KEY, matches
from cdclake.lake.storage.reader import read_batches
from cdclake.lake.storage.shape import is_deleted
from cdclake.lake.storage.tombstones import find_tombstones
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.schema import DELETE, OP_COLUMN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from pyarrow.fs import FileSystem

    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.snapshot import DataFile, KeyValue, TombstoneFile


class Source(Enum):
    """Where rows that meet in a task come from."""

    CHANGE = "change files"
    LIVE = "the table, as it is before or after a full load"
    KNOWN = "open versions of the history"


@dataclass(frozen=True)
class HistoryPlan:
    """What a change does to a history.

    Attributes:
        change: Number of the change.
        open_files: Data files of open versions; paths are relative to the history's folder.
        closed_files: Data files of closed versions, likewise.
        loads: Numbers of the full loads in it, this change's among them if it is one.
        compares: Whether the history may differ from the table by more than the change: then all rows are compared.
        tombstones: Remembered deletes that may not be in it; they lie in the control area.
        time_column: Timestamp column that says since when a row of the table is so; empty for none.
        change_time_column: The same for the rows of the change, which may not tell it.
        loaded_utc: Since when loaded rows are as they are, if nothing else tells.
        now_utc: The time.
        rewrite_all: Whether every data file must be written anew, as the type of a column changes.
        locations: Where to read and write: the history's folder in the place of the table's.
    """

    change: int
    open_files: tuple[DataFile, ...]
    closed_files: tuple[DataFile, ...]
    loads: tuple[int, ...]
    compares: bool
    tombstones: tuple[TombstoneFile, ...]
    time_column: str
    change_time_column: str
    loaded_utc: datetime
    now_utc: datetime
    rewrite_all: bool
    locations: Locations

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All data files, by `cdclake.lake.scd2.versions.VERSION_FILE`."""
        return (*self.open_files, *self.closed_files)


@dataclass(frozen=True)
class VersionMerge:
    """Outcome of one task: what becomes of the files of open versions, and of those of closed ones."""

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
) -> Iterator[tuple[ReadStats, bytes]]:
    """All rows of data files of the table as rows in flight, in batches sorted by route; deleted ones are left out."""
    fs = locations.lake.open()
    for file in files:
        for stored in read_batches(fs, locations.table_prefix + file.path, shape):
            rows = stored.filter(pc.invert(is_deleted(stored))) if file.deleted else stored
            route, key = shape.keys_of(rows, file.partition)
            columns = {**shape.source_columns(rows, file.partition), OP_COLUMN: rows[OP_COLUMN]}
            columns |= {POSITION: rows[POSITION], LEADING_KEY: route, KEY: key}
            yield _batch(pa.table(columns, schema=shape.in_flight))


def read_open_versions(
    files: Iterable[tuple[int, DataFile]], *, work: HistoryPlan, shape: TableShape
) -> Iterator[tuple[ReadStats, bytes]]:
    """All open versions of some data files, each with its index, in batches sorted by route."""
    fs, keyed = work.locations.lake.open(), keyed_shape(shape)
    for place, file in files:
        for rows in read_batches(fs, work.locations.table_prefix + file.path, keyed):
            yield _batch(_placed(rows, place, file, shape))


def _batch(rows: pa.Table) -> tuple[ReadStats, bytes]:
    rows = rows.take(pc.sort_indices(rows, [(LEADING_KEY, "ascending")])).combine_chunks()
    routes = tuple(sample(rows[LEADING_KEY], SAMPLES_PER_BATCH)) if rows.num_rows else ()
    return ReadStats(inserts=rows.num_rows, samples=routes), to_ipc(rows)


def find_open_versions(
    wanted: Iterable[tuple[int, bytes]], *, work: HistoryPlan, shape: TableShape, bounds: Sequence[KeyValue]
) -> Iterator[tuple[int, bytes]]:
    """Look wanted keys up in the data files of open versions.

    Args:
        wanted: Index of a data file, and a blob of routes and keys.

    Yields:
        Bucket of `tasks.rows_by_key_range`, and the open versions of these keys.
    """
    fs = work.locations.lake.open()
    by_file: dict[int, list[bytes]] = defaultdict(list)
    for place, blob in wanted:
        by_file[place].append(blob)
    for place, blobs in by_file.items():
        asked = concat_ipc(blobs, pa.schema([]))
        found = in_order(_find(fs, place, asked, work, shape), (LEADING_KEY,))
        for bucket, rows in split_at_bounds(found, bounds):
            yield bucket, to_ipc(rows)


def _find(fs: FileSystem, place: int, asked: pa.Table, work: HistoryPlan, shape: TableShape) -> pa.Table:
    """The versions of some keys in a data file; the file's Bloom filters spare a look at it if few are asked for."""
    file, keyed = work.files[place], keyed_shape(shape)
    keys = pc.unique(asked[KEY])
    chosen = row_group_filter(keyed, keys, asked[LEADING_KEY])
    found = [version_schema(shape).empty_table()]
    for rows in read_batches(fs, work.locations.table_prefix + file.path, keyed, row_groups=chosen):
        hit = matches(keyed.keys_of(rows, file.partition)[1], keys)
        found.append(_placed(rows.filter(hit), place, file, shape))
    return pa.concat_tables(found).combine_chunks()


def _placed(rows: pa.Table, place: int, file: DataFile, shape: TableShape) -> pa.Table:
    """Versions of a data file as they are changes."""
    route, key = keyed_shape(shape).keys_of(rows, file.partition)
    locations = pa.repeat(pa.scalar(place, pa.int32()), rows.num_rows)
    columns = {
        **{name: rows[name] for name in rows.schema.names},
        LEADING_KEY: route,
        KEY: key,
        VERSION_FILE: locations,
    }
    return pa.table(columns, schema=version_schema(shape))


def merge_key_range(
    entries: Iterable[tuple[int, tuple[Source, bytes]]], *, work: HistoryPlan, shape: TableShape, full_load: bool
) -> Iterator[VersionMerge]:
    """Weave all rows of one range of keys into the history.

    Args:
        entries: `(bucket, (where the rows come from, blob))`. If the history is compared with the table, all rows and
            open versions of the range are there, else the open versions of the keys that change.
        full_load: Whether the rows of the table are those of a full load.
    """
    blobs: dict[Source, list[bytes]] = defaultdict(list)
    for _, (source, blob) in entries:
        blobs[source].append(blob)
    fs = work.locations.lake.open()
    known = concat_ipc(blobs[Source.KNOWN], version_schema(shape))
    rows = concat_ipc(blobs[Source.CHANGE], shape.in_flight)
    rows = pa.concat_tables([rows, _unwoven_deletes(fs, rows, work, shape)])
    new = new_versions(rows, shape, work.change, work.change_time_column, work.now_utc)
    if work.compares:
        live = concat_ipc(blobs[Source.LIVE], shape.in_flight)
        versions = (loaded_versions if full_load else new_versions)(
            live, shape, work.change, work.time_column, work.loaded_utc
        )
        gone_utc = work.loaded_utc if full_load else work.now_utc
        new = pa.concat_tables([new, compared(versions, known, shape, work.change, work.loads, gone_utc)])
        known = known.filter(matches(known[KEY], pc.unique(new[KEY])))
    if not new.num_rows:
        return
    known = pa.concat_tables([known, *_closed_of_late(fs, new, known, work, shape)])
    changes = merge_versions(known, new, shape, work.loads, len(work.open_files))
    split = len(work.open_files)
    yield VersionMerge(
        to_resolution(
            ResolvedBatch(Counts(), {i: gone for i, gone in changes.removals.items() if i < split}, {}, changes.opened)
        ),
        to_resolution(
            ResolvedBatch(
                Counts(),
                {i - split: gone for i, gone in changes.removals.items() if i >= split},
                {i - split: rows for i, rows in changes.replacements.items()},
                changes.closed,
            )
        ),
    )


def _closed_of_late(
    fs: FileSystem, new: pa.Table, known: pa.Table, work: HistoryPlan, shape: TableShape
) -> Iterator[pa.Table]:
    """The closed versions of the keys of which a new version comes late."""
    late = in_order(late_versions(new, known, work.loads), (LEADING_KEY,)).combine_chunks()
    for i, start, end in candidate_rows(late[LEADING_KEY], work.closed_files):
        yield _find(fs, len(work.open_files) + i, late.slice(start, end - start), work, shape)


def _unwoven_deletes(fs: FileSystem, rows: pa.Table, work: HistoryPlan, shape: TableShape) -> pa.Table:
    """Remembered deletes that come after one of the rows, as rows in flight: only the key is set.

    A history that began after them would take an older row that comes late for the newest.
    """
    if not (work.tombstones and rows.num_rows):
        return rows.slice(0, 0)
    buried = find_tombstones(fs, work.tombstones, rows[LEADING_KEY], rows[KEY], tombstone_schema(shape))
    oldest = pa.TableGroupBy(rows.select([KEY, POSITION]), KEY).aggregate([(POSITION, "min")])
    first = oldest.take(pc.index_in(buried[KEY], value_set=oldest[KEY].combine_chunks()))[f"{POSITION}_min"]
    buried = buried.filter(pc.greater(buried[POSITION], first))
    like = rows.take(pc.index_in(buried[KEY], value_set=rows[KEY].combine_chunks()))
    keys = {column.name for name in shape.primary_key if (column := shape.schema.find(name))}
    columns = {
        field.name: like[field.name] if field.name in {*keys, LEADING_KEY, KEY} else None for field in rows.schema
    }
    columns |= {POSITION: buried[POSITION], OP_COLUMN: pa.repeat(DELETE, buried.num_rows)}
    filled = [
        pa.nulls(buried.num_rows, field.type) if columns[field.name] is None else columns[field.name]
        for field in rows.schema
    ]
    return pa.table(filled, schema=rows.schema)
