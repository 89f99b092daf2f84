"""The kernel: data files (one, several or none) plus their changes give the files that take their place."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.errors import IntegrityError
from cdclake.lake.merge.resolve import in_order, is_last_of_key
from cdclake.lake.raw.rows import BadRow
from cdclake.lake.storage.keys import KEY, matches
from cdclake.lake.storage.reader import read_batches
from cdclake.lake.storage.shape import TableShape, conform, is_deleted
from cdclake.lake.storage.writer import DataFileWriter
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.position import FULL_LOAD_POSITION
from cdclake.model.schema import DELETE, OP_COLUMN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyarrow.fs import FileSystem

    from cdclake.lake.storage.partitions import Partition
    from cdclake.model.snapshot import DataFile


@dataclass(frozen=True)
class MergeSpec:
    """What to merge.

    Attributes:
        base_keys: Keys of the data files to replace, in the order their rows are to have; none if all rows are new.
        base_rows: How many rows they hold.
        partition: Partition of the files and of every row added.
        pieces: How many files to make.
        staged_keys: Keys to write to, at least `pieces`.
        full_load: Whether the added rows are a full load's, which are older than every change: their position, which
            so far holds file and row, is written as the empty one.
        purge_soft_deleted: Whether rows that were deleted softly leave the base files.
    """

    base_keys: tuple[str, ...]
    base_rows: int
    partition: Partition
    pieces: int
    staged_keys: tuple[str, ...]
    full_load: bool = False
    purge_soft_deleted: bool = False


@dataclass(frozen=True)
class MergeResult:
    """What came of a merge.

    Attributes:
        files: The files written, `path` being the staged key; none if no row is left.
        repeated: Rows of a full load whose key a later row of it has too; they were left out.
    """

    files: tuple[DataFile, ...]
    repeated: tuple[BadRow, ...] = ()


def merge(
    fs: FileSystem,
    job: MergeSpec,
    shape: TableShape,
    removals: pa.ChunkedArray | None,
    additions: pa.Table,
    deletes: pa.ChunkedArray | None = None,
) -> MergeResult:
    """Write the base files without some rows and with others.

    Rows that stay keep their order; added rows follow, by key. Only when the result is cut into several files is all of
    it sorted by key, so that the files' key ranges stay apart.

    Args:
        fs: Lake file system.
        removals: Keys of rows that leave the base files, each in them exactly once; None for none.
        additions: Rows in flight, all of the job's partition, any order.
        deletes: Keys of rows that stay as deleted ones, likewise.

    Raises:
        IntegrityError: The base files do not hold exactly the rows that were to be removed or deleted.
    """
    added, repeated = _one_of_each_key(additions, shape)
    if job.full_load:
        added = _with_position(added, FULL_LOAD_POSITION)
    kept_rows = job.base_rows - (len(removals) if removals is not None else 0)
    rows_per_file = ceil((kept_rows + added.num_rows) / job.pieces)
    writer = DataFileWriter(fs, job.staged_keys[: job.pieces], shape, job.partition, rows_per_file)
    leaving, dying = (None if keys is None else keys.combine_chunks() for keys in (removals, deletes))
    batches = _kept(fs, job, shape, leaving, dying)
    if job.pieces > 1:
        rows = pa.concat_tables([*batches, conform(added, shape.stored)])
        writer.write(_sorted_by_route(rows, shape, job.partition))
    else:
        for batch in batches:
            writer.write(batch)
        writer.write(added)
    writer.close()
    return MergeResult(tuple(writer.written), repeated)


def _kept(
    fs: FileSystem, job: MergeSpec, shape: TableShape, removals: pa.Array | None, deletes: pa.Array | None
) -> Iterator[pa.Table]:
    wanted, met = sum(len(keys) for keys in (removals, deletes) if keys is not None), 0
    for base in job.base_keys:
        for batch in read_batches(fs, base, shape, encoded=job.pieces == 1):
            rows = batch
            if wanted:
                keys = shape.keys_of(rows, job.partition)[1]
                gone, dead = (_among(keys, few) for few in (removals, deletes))
                met += gone.true_count + dead.true_count
                rows = _marked(rows, dead) if dead.true_count else rows
                rows = rows.filter(pc.invert(gone)) if gone.true_count else rows
            yield rows.filter(pc.invert(is_deleted(rows))) if job.purge_soft_deleted else rows
    if met != wanted:
        message = f"Of the rows that were to leave data files or be deleted there, {met} of {wanted} are there"
        raise IntegrityError(message, remedy="Reload the table with a full load", file=", ".join(job.base_keys))


def _among(keys: pa.Array, wanted: pa.Array | None) -> pa.Array:
    return pa.repeat(False, len(keys)) if wanted is None else matches(keys, wanted)


def _marked(rows: pa.Table, dead: pa.Array) -> pa.Table:
    """Rows of a data file, some of them as deleted ones."""
    operations = pc.if_else(dead, DELETE, rows[OP_COLUMN].cast(pa.string()))
    return rows.set_column(rows.schema.get_field_index(OP_COLUMN), OP_COLUMN, operations)


def _one_of_each_key(additions: pa.Table, shape: TableShape) -> tuple[pa.Table, tuple[BadRow, ...]]:
    """Rows by key, of one key the last by position; and the others."""
    if not shape.primary_key:
        return additions, ()
    ordered = in_order(additions)
    last = is_last_of_key(ordered[KEY].combine_chunks())
    if last.true_count == len(last):
        return ordered, ()
    return ordered.filter(last), tuple(_repeated(row, shape) for row in ordered.filter(pc.invert(last)).to_pylist())


def _repeated(row: dict[str, Any], shape: TableShape) -> BadRow:
    file, _, number = row[POSITION].rpartition("|")
    reason = f"The key ({', '.join(shape.primary_key)}) of a full-load row comes again in a later one"
    return BadRow(file, int(number), reason, {name: str(row[name]) for name in shape.schema.names})


def _with_position(rows: pa.Table, position: str) -> pa.Table:
    index = rows.schema.get_field_index(POSITION)
    return rows.set_column(index, rows.schema.field(index), pa.repeat(position, rows.num_rows))


def _sorted_by_route(rows: pa.Table, shape: TableShape, partition: Partition) -> pa.Table:
    if not shape.primary_key:
        return rows
    return rows.take(pc.array_sort_indices(shape.leading_key_of(rows, partition)))
