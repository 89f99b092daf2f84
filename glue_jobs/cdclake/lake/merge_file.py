"""The kernel: one data file (or none) plus its changes gives the files that take its place."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.errors import BadRowError, IntegrityError
from cdclake.lake.data_file import DataFileWriter, TableShape, conform, matches, read_batches
from cdclake.lake.keys import KEY, ROUTE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyarrow.fs import FileSystem

    from cdclake.lake.decide import Partition
    from cdclake.model.snapshot import DataFile


@dataclass(frozen=True)
class MergeJob:
    """What to merge.

    Attributes:
        base_key: Key of the data file to replace; None if all rows are new.
        base_rows: Its rows.
        partition: Partition of the file and of every row added.
        pieces: How many files to make.
        staged_keys: Keys to write to, at least `pieces`.
    """

    base_key: str | None
    base_rows: int
    partition: Partition
    pieces: int
    staged_keys: tuple[str, ...]


def merge(
    fs: FileSystem, job: MergeJob, shape: TableShape, removals: pa.ChunkedArray | None, additions: pa.Table
) -> Sequence[DataFile]:
    """Write the file without some rows and with others.

    Rows that stay keep their order; added rows follow, by key. Only when the result is cut into several files is all of
    it sorted by key, so that the files' key ranges stay apart.

    Args:
        fs: Lake file system.
        removals: Keys of rows that leave the base file, each in it exactly once; None for none.
        additions: Rows in flight, all of the job's partition, any order.

    Returns:
        The files written, `path` being the staged key; none if no row is left.

    Raises:
        IntegrityError: The base file does not hold exactly the rows that were to be removed.
        BadRowError: Two added rows have one key.
    """
    added = _in_key_order(additions, shape)
    kept_rows = job.base_rows - (len(removals) if removals is not None else 0)
    rows_per_file = ceil((kept_rows + added.num_rows) / job.pieces)
    writer = DataFileWriter(fs, job.staged_keys[: job.pieces], shape, job.partition, rows_per_file)
    batches = _kept(fs, job, shape, removals)
    if job.pieces > 1:
        rows = pa.concat_tables([*batches, conform(added, shape.stored)])
        writer.write(_sorted_by_route(rows, shape, job.partition))
    else:
        for batch in batches:
            writer.write(batch)
        writer.write(added)
    writer.close()
    return writer.written


def _kept(fs: FileSystem, job: MergeJob, shape: TableShape, removals: pa.ChunkedArray | None) -> Iterator[pa.Table]:
    if job.base_key is None:
        return
    wanted = removals.combine_chunks() if removals is not None else None
    removed = 0
    for batch in read_batches(fs, job.base_key):
        if wanted is None:
            yield conform(batch, shape.stored)
            continue
        gone = matches(shape.keys_of(batch, job.partition)[1], wanted)
        removed += gone.true_count
        yield conform(batch.filter(pc.invert(gone)) if gone.true_count else batch, shape.stored)
    if wanted is not None and removed != len(wanted):
        message = f"A data file holds {removed} of the {len(wanted)} rows that were to leave it"
        raise IntegrityError(message, remedy="Reload the table with a full load", file=job.base_key)


def _in_key_order(additions: pa.Table, shape: TableShape) -> pa.Table:
    if not shape.primary_key:
        return additions
    ordered = additions.take(pc.sort_indices(additions, [(ROUTE, "ascending"), (KEY, "ascending")]))
    keys = ordered[KEY].combine_chunks()
    if len(keys) > 1 and pc.any(pc.equal(keys.slice(0, len(keys) - 1), keys.slice(1))).as_py():
        message = "A full load holds a key more than once"
        remedy = "Set PrimaryKey to columns that tell rows apart, or have DMS load the table again"
        raise BadRowError(message, remedy=remedy, column=",".join(shape.primary_key))
    return ordered


def _sorted_by_route(rows: pa.Table, shape: TableShape, partition: Partition) -> pa.Table:
    if not shape.primary_key:
        return rows
    route, _ = shape.keys_of(rows, partition)
    return rows.take(pc.array_sort_indices(route))
