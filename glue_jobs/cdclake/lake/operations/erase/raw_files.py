"""Finds rows in the raw files of a table, and takes them out: change files are written anew, full loads are deleted.

A full load cannot be written anew: the time of its files says that the source was loaded again. Once it is in the lake
it is of no use but to go back to before it.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdclake.errors import InputError
from cdclake.lake.operations.erase.quarantine import is_one
from cdclake.lake.raw import csv
from cdclake.lake.raw.reader import Slice, read
from cdclake.lake.storage.keys import KEY, row_keys
from cdclake.lake.storage.shape import TableShape
from cdclake.model.due_files import full_load_facts, pending_changes
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.position import ROW_DIGITS
from cdclake.model.rawfiles import RawFile, RawFormat, RawKind
from cdclake.raw_listing import list_raw_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from pyarrow.fs import FileSystem

    from cdclake.adapters.filesystem import FileSystemSpec
    from cdclake.lake.operations.erase.progress import Progress
    from cdclake.lake.read.key_filter import RowKeys
    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table import TableName, TableSettings
    from cdclake.ports import ObjectStore


@dataclass(frozen=True)
class RawLocation:
    """Where a table's raw files are.

    Attributes:
        store: The raw bucket.
        fs: The same for pyarrow.
        prefix: Key prefix of the table's folder, with a trailing slash.
        table: The source table.
        last_listed_utc: When a run last had seen to all raw files, see `TableState.last_listed_utc`.
    """

    store: ObjectStore
    fs: FileSystemSpec
    prefix: str
    table: TableName
    settings: TableSettings
    last_listed_utc: datetime | None = None


@dataclass(frozen=True)
class MatchedRawFile:
    """A raw file that holds rows to erase.

    Attributes:
        rows: Numbers of these rows.
    """

    file: RawFile
    rows: frozenset[int]


@dataclass
class RawMatches:
    """Everything in the raw bucket in which rows to erase were found.

    Attributes:
        full_load: All files of the full load, if one of them holds a row.
        full_load_rows: How many rows they hold.
        changes: Change files.
        too_late: Relative keys of change files that came behind the late window since the last run, held or not.
        pending: Relative keys of files that hold a row and are not in the lake yet.
        renamed: Rows that stay, as they tell that a row's key became another one.
        unreadable: Relative keys of files that cannot be read.
    """

    full_load: list[RawFile] = field(default_factory=list)
    full_load_rows: int = 0
    changes: list[MatchedRawFile] = field(default_factory=list)
    too_late: frozenset[str] = frozenset()
    pending: list[str] = field(default_factory=list)
    renamed: int = 0
    unreadable: list[str] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        """Relative keys of the files that are written anew or deleted."""
        return (*(file.relative for file in self.full_load), *(held.file.relative for held in self.changes))

    @property
    def known(self) -> tuple[str, ...]:
        """Relative keys of the change files that are written anew and are in the lake."""
        return tuple(held.file.relative for held in self.changes if held.file.relative not in self.too_late)


def search(raw: RawLocation, lake: Snapshot, keys: RowKeys, progress: Progress) -> RawMatches:
    """Look for rows in all raw files of the table.

    Args:
        lake: The table as it is.
    """
    full_load, changes = list_raw_files(raw.store, raw.prefix, raw.settings.cdc_path)
    due, too_late = pending_changes(lake, changes, raw.settings.late_window_hours, raw.last_listed_utc)
    not_in_lake = {file.relative for file in due}
    if full_load and full_load_facts(full_load) != (lake.full_load_files, lake.full_load_utc):
        not_in_lake.update(file.relative for file in full_load)
    found, fs = RawMatches(too_late=frozenset(file.relative for file in too_late)), raw.fs.open()
    progress.expect("Looking through raw files", len(full_load) + len(changes))
    for file in (*full_load, *changes):
        try:
            rows, renamed = _rows_of(fs, raw, file, lake, keys)
        except InputError:
            found.unreadable.append(file.relative)
            progress.step()
            continue
        found.renamed += renamed
        if rows and file.relative in not_in_lake:
            found.pending.append(file.relative)
        if rows and file.kind is RawKind.FULL_LOAD:
            found.full_load, found.full_load_rows = full_load, found.full_load_rows + len(rows)
        elif rows:
            found.changes.append(MatchedRawFile(file, frozenset(rows)))
        progress.step()
    return found


def _rows_of(fs: FileSystem, raw: RawLocation, file: RawFile, lake: Snapshot, keys: RowKeys) -> tuple[set[int], int]:
    """Numbers of the rows that have one of the keys, and how many others tell that a row had it before."""
    shape = TableShape(lake.schema, raw.settings.primary_key, raw.settings.partition_key)
    wanted = keys.wanted(shape)
    if wanted is None:
        return set(), 0
    ours, others = set[int](), set[int]()
    for batch in read(fs, Slice(file, file.size_bytes), shape, raw.settings, raw.table):
        if KEY in batch.rows.schema.names and shape.primary_key == keys.names:
            found = batch.rows[KEY]
        else:
            _, found = row_keys([batch.rows[name].combine_chunks() for name in keys.names])
        are_ours = pc.fill_null(pc.is_in(found, value_set=wanted.keys), False)
        numbers = _numbers(batch.rows[POSITION])
        ours.update(numbers.filter(are_ours).to_pylist())
        # A delete of an old key stands beside the update that gave the row another: that row stays.
        others.update(numbers.filter(pc.invert(are_ours)).to_pylist())
        ours.update(bad.row for bad in batch.bad_rows if bad.row is not None and is_one(bad.content, keys, lake.schema))
    return ours - others, len(ours & others)


def _numbers(positions: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.utf8_slice_codeunits(positions, -ROW_DIGITS).cast(pa.int64())


def rewrite(raw: RawLocation, held: RawMatches, progress: Progress) -> None:
    """Write change files anew without the rows, and delete a full load, each with what is held of it out of sight.

    A CSV file of which nothing is left is deleted, as an empty one cannot be read.
    """
    fs = raw.fs.open()
    progress.expect("Writing raw files without the rows", len(held.changes))
    for one in held.changes:
        left = _without_rows(fs, one, raw.settings)
        if left.strip():
            raw.store.put(one.file.key, gzip.compress(left, mtime=0) if one.file.format is RawFormat.CSV_GZ else left)
        else:
            raw.store.delete([one.file.key])
        _purge(raw.store, one.file.key)
        progress.step()
    raw.store.delete([file.key for file in held.full_load])
    for file in held.full_load:
        _purge(raw.store, file.key)


def _purge(store: ObjectStore, key: str) -> None:
    store.purge(key, lambda other: other != key)


def _without_rows(fs: FileSystem, one: MatchedRawFile, settings: TableSettings) -> bytes:
    if one.file.format is RawFormat.PARQUET:
        return _parquet_without(fs, one)
    return csv.without_rows(fs, one.file, settings, one.rows)


def _parquet_without(fs: FileSystem, one: MatchedRawFile) -> bytes:
    with fs.open_input_file(one.file.key) as source:
        parquet = pq.ParquetFile(source)
        compression = {column.compression for column in _chunks(parquet)} or {"UNCOMPRESSED"}
        rows = parquet.read(use_threads=False)
    left = pa.array(number not in one.rows for number in range(rows.num_rows))
    sink = pa.BufferOutputStream()
    codec = compression.pop()
    pq.write_table(
        rows.filter(left),
        sink,
        compression="none" if codec == "UNCOMPRESSED" else codec,
        store_schema=False,
        use_dictionary=False,
    )
    return bytes(sink.getvalue())


def _chunks(parquet: pq.ParquetFile) -> Iterator[pq.ColumnChunkMetaData]:
    for group in range(parquet.num_row_groups):
        row_group = parquet.metadata.row_group(group)
        yield from (row_group.column(i) for i in range(row_group.num_columns))
