"""Looks up the keys of a change in data files. The functions run in Spark tasks, and do not know Spark."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.merge.messages import FileKeys
from cdclake.lake.merge.read_changes import sorted_batch
from cdclake.lake.merge.resolve import FILE_INDEX, PARTITION_ID, SOFT_DELETED
from cdclake.lake.storage.arrow_ipc import Rows, concat, kept
from cdclake.lake.storage.bloom import filtered_column, row_group_filter, with_filter_hashes
from cdclake.lake.storage.key_ranges import candidate_rows, overlapping_files
from cdclake.lake.storage.keys import KEY, LEADING_KEY
from cdclake.lake.storage.partitions import partition_id
from cdclake.lake.storage.reader import read_batches
from cdclake.lake.storage.shape import is_deleted
from cdclake.lake.storage.tombstones import tombstone_schema
from cdclake.lake.storage.types import arrow_schema
from cdclake.lake.storage.wanted_keys import WantedKeys
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.schema import OP_COLUMN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyarrow.fs import FileSystem

    from cdclake.lake.merge.messages import Batch
    from cdclake.lake.merge.read_changes import Locations, ReadStats
    from cdclake.lake.storage.reader import RowGroupFilter
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.snapshot import DataFile


def keys_by_file(batch: Batch[Any], *, files: Sequence[DataFile], shape: TableShape) -> Iterator[tuple[int, FileKeys]]:
    """The keys of a batch by index of each data file that may contain them."""
    rows = with_filter_hashes(batch.rows.columns([LEADING_KEY, KEY]), shape)
    candidates = candidate_rows(rows[LEADING_KEY].combine_chunks(), files)
    for i, keys in kept({i: rows.slice(start, end - start) for i, start, end in candidates}).items():
        yield i, FileKeys(i, keys)


def grouped_by_file(wanted: Iterable[FileKeys]) -> Iterator[tuple[int, pa.Table]]:
    """The keys of `keys_by_file` of several batches, file by file."""
    by_file: dict[int, list[Rows]] = defaultdict(list)
    for one in wanted:
        by_file[one.file].append(one.keys)
    for i, batches in by_file.items():
        yield i, concat(batches, pa.schema([]))


def sorted_keys(batches: Iterable[Batch[Any]], shape: TableShape) -> pa.Table:
    """The leading keys, keys and filter hashes of batches, at least one, in one table sorted by leading key."""
    keys = pa.concat_tables([batch.rows.columns([LEADING_KEY, KEY]) for batch in batches])
    return with_filter_hashes(keys.take(pc.sort_indices(keys, [(LEADING_KEY, "ascending")])).combine_chunks(), shape)


def keys_of_files(
    indices: Iterable[int], *, keys: Rows, files: Mapping[int, DataFile]
) -> Iterator[tuple[int, pa.Table]]:
    """The keys that each data file may contain.

    Args:
        indices: Indices of the files.
        keys: `sorted_keys`.
        files: The data files, by index.
    """
    rows, chosen = keys.table, list(indices)
    for number, start, end in candidate_rows(rows[LEADING_KEY], [files[i] for i in chosen]):
        yield chosen[number], rows.slice(start, end - start)


def find_existing_rows(
    wanted: Iterable[tuple[int, pa.Table]],
    *,
    locations: Locations,
    shape: TableShape,
    files: Mapping[int, DataFile],
    complete: bool,
) -> Iterator[pa.Table]:
    """Look up keys in data files. Unless `complete`, only key columns and positions are read.

    Where the key ranges of files overlap and the keys are few, Bloom filters rule out files.

    Args:
        wanted: Index of a data file, and the leading keys and keys to look up in it.
        files: At least these data files, by index.
        complete: Whether to read all columns.

    Yields:
        The existing rows, see `existing_rows_schema`, in parts.
    """
    fs = locations.lake.open()
    indices = list(files)
    overlapping = {indices[n] for n in overlapping_files(list(files.values()))} if filtered_column(shape) else set()
    for i, wanted_rows in wanted:
        keys = WantedKeys(wanted_rows, shape)
        row_groups = row_group_filter(shape, wanted_rows) if i in overlapping else None
        path = locations.layout.data_key(files[i].path)
        yield from existing_rows(fs, path, i, files[i], shape, keys, complete=complete, row_groups=row_groups)


def existing_rows(
    fs: FileSystem,
    path: str,
    i: int,
    file: DataFile,
    shape: TableShape,
    keys: WantedKeys,
    *,
    complete: bool,
    row_groups: RowGroupFilter | None = None,
) -> Iterator[pa.Table]:
    """Rows of a data file that have one of these keys, see `existing_rows_schema`, in parts.

    Args:
        path: Object key of the file.
        i: Its index.
        complete: Whether to read all columns, or only key columns and positions.
        row_groups: See `read_batches`.
    """
    columns = None if complete else [*shape.key_columns_stored(), POSITION]
    columns = [*columns, OP_COLUMN] if columns and file.deleted else columns
    for rows in keys.read(fs, path, file, columns, row_groups=row_groups):
        yield _existing_rows(rows, i, file, shape, complete=complete)


def read_existing_rows(
    files: Iterable[tuple[int, DataFile]], *, locations: Locations, shape: TableShape
) -> Iterator[Batch[ReadStats]]:
    """All rows of data files, each given with its index, with all columns, in batches sorted by leading key."""
    fs = locations.lake.open()
    for i, file in files:
        for rows in read_batches(fs, locations.layout.data_key(file.path), shape, file=file):
            yield sorted_batch(_existing_rows(rows, i, file, shape, complete=True))


def _existing_rows(rows: pa.Table, i: int, file: DataFile, shape: TableShape, *, complete: bool) -> pa.Table:
    leading_key, key = shape.keys_of(rows, file.partition)
    columns = {
        LEADING_KEY: leading_key,
        KEY: key,
        POSITION: rows[POSITION],
        FILE_INDEX: pa.repeat(pa.scalar(i, pa.int32()), rows.num_rows),
        PARTITION_ID: pa.repeat(partition_id(file.partition), rows.num_rows),
        SOFT_DELETED: is_deleted(rows) if file.deleted else pa.repeat(False, rows.num_rows),
    }
    if complete:
        columns.update({**shape.source_columns(rows, file.partition), OP_COLUMN: rows[OP_COLUMN]})
    return pa.table(columns, schema=existing_rows_schema(shape, complete=complete))


def existing_rows_schema(shape: TableShape, *, complete: bool) -> pa.Schema:
    """Schema of rows that the lake already has.

    Leading key, key, position, file index, partition id, whether the row is soft-deleted, and, if `complete`, all
    source columns and the operation.
    """
    columns = [*arrow_schema(shape.schema), pa.field(OP_COLUMN, pa.string())] if complete else []
    added = [pa.field(FILE_INDEX, pa.int32()), pa.field(PARTITION_ID, pa.string()), pa.field(SOFT_DELETED, pa.bool_())]
    return pa.schema([*tombstone_schema(shape), *added, *columns])
