"""Writes a direct change as change files, like those of DMS, into the staging folder of the change.

Given rows are brought together with the lake's rows of the same keys, so that an update sends whole rows, and what
cannot be done is known before anything is computed. Rows of a Spark DataFrame stay in tasks.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from cdclake.adapters.filesystem import open_output
from cdclake.lake.merge import tasks
from cdclake.lake.merge.join_by_key import cogroup_by_key, sum_stats
from cdclake.lake.operations.direct.rows import Found, InputStats, change_rows, convert_input
from cdclake.lake.spark.backend import attempt_id, is_spark_dataframe, keep_on_disk
from cdclake.lake.spark.in_process import InProcessRdd
from cdclake.lake.spark.task_errors import SparkTask, raising_task_errors
from cdclake.lake.storage.arrow_ipc import concat_ipc, from_ipc
from cdclake.lake.storage.writer import COMPRESSION
from cdclake.model.schema import INSERT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from cdclake.lake.merge.tasks import Locations
    from cdclake.lake.operations.direct.input_tables import Rows
    from cdclake.lake.spark.backend import Backend, DistributedRows
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.schema import Column
    from cdclake.model.snapshot import DataFile


@dataclass(frozen=True)
class PrepareRequest:
    """A direct change as it is asked for, the rows left out.

    Attributes:
        op: `I`, `U` or `D`, for all its rows.
        shape: Columns and keys of the table.
        order_column: Column that orders its changes; empty for none.
        files: Live data files.
        locations: Where to read and write.
    """

    op: str
    shape: TableShape
    order_column: str
    files: tuple[DataFile, ...]
    locations: Locations

    @property
    def primary_key(self) -> tuple[Column, ...]:
        """The key columns."""
        return tuple(column for name in self.shape.primary_key if (column := self.shape.schema.find(name)))

    @property
    def probed(self) -> TableShape:
        """The shape to look rows up by: of keys to insert it is enough to know that they are there."""
        return replace(self.shape, partial=self.op != INSERT)


class WrittenFile(NamedTuple):
    """A change file: its key, its size, and its number of rows."""

    key: str
    size_bytes: int
    rows: int


@dataclass(frozen=True)
class Prepared:
    """A direct change, ready to be read.

    Attributes:
        given: What the given rows are like.
        found: What the lake holds of their keys; nothing if the rows cannot be taken.
        files: The change files.
    """

    given: InputStats
    found: Found = Found()  # noqa: RUF009 - frozen
    files: tuple[WrittenFile, ...] = ()

    @property
    def rows(self) -> int:
        """Rows of the change."""
        return sum(file.rows for file in self.files)


def prepare(
    spark: Backend, asked: PrepareRequest, rows: Rows, columns_of: Sequence[Sequence[Column | None]]
) -> Prepared:
    """Write the change files of a direct change.

    Args:
        rows: What was given.
        columns_of: Of each table given, or of the DataFrame, which column of the lake each of its columns is; None for
            one to leave out.
    """
    take = partial(convert_input, primary_key=asked.primary_key)
    with raising_task_errors():
        batches: DistributedRows
        if is_spark_dataframe(rows):
            batches = keep_on_disk(_of_frame(rows, partial(take, columns=columns_of[0])))
        else:
            taken = [take(table, columns) for table, columns in zip(rows, columns_of, strict=True)]
            batches = InProcessRdd([taken])
        try:
            return _written(spark, asked, batches)
        finally:
            batches.unpersist()


def _written(spark: Backend, asked: PrepareRequest, batches: DistributedRows) -> Prepared:
    given: InputStats = sum_stats(batches, InputStats())
    if given.unfit or given.no_key or not given.rows:
        return Prepared(given)
    if asked.shape.primary_key:
        entries = cogroup_by_key(spark, batches, given.rows, given.samples, asked.files, asked.probed, asked.locations)
    else:
        entries = batches.map(_as_entry)
    write = SparkTask(partial(_write_file, asked=asked))
    written: list[tuple[Found, WrittenFile | None]] = entries.mapPartitionsWithIndex(write).collect()
    files = tuple(file for _, file in written if file)
    return Prepared(given, reduce(add, (found for found, _ in written), Found()), files)


def _of_frame(frame: DataFrame, take: partial[tuple[InputStats, bytes]]) -> DistributedRows:
    renamed = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))  # names may hold anything
    return renamed.mapInArrow(SparkTask(partial(_take_batches, take=take)), "batch binary").rdd.map(_unpickled)


def _take_batches(
    batches: Iterable[pa.RecordBatch], *, take: partial[tuple[InputStats, bytes]]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            taken = pickle.dumps(take(pa.Table.from_batches([batch])))
            yield pa.RecordBatch.from_arrays([pa.array([taken], pa.binary())], ["batch"])


def _unpickled(row: Sequence[Any]) -> Any:  # noqa: ANN401 - what `_take_batches` pickled
    return pickle.loads(row[0])


def _write_file(
    task: int, entries: Iterable[tuple[int, tuple[bool, bytes]]], *, asked: PrepareRequest
) -> Iterator[tuple[Found, WrittenFile | None]]:
    """A task: the change rows of a range of keys."""
    blobs: dict[bool, list[bytes]] = {True: [], False: []}
    for _, (from_lake, blob) in entries:
        blobs[from_lake].append(blob)
    given = [from_ipc(blob) for blob in blobs[False]]
    if not given:
        return
    lake = concat_ipc(
        blobs[True], tasks.existing_rows_schema(asked.probed) if asked.shape.primary_key else pa.schema([])
    )
    rows, found = change_rows(asked.op, given, lake, asked.shape, asked.order_column)
    if not rows.num_rows:
        yield found, None
        return
    key = f"{asked.locations.staging}direct/{task:05d}-{attempt_id()}.parquet"
    with open_output(asked.locations.lake.open(), key) as sink:
        pq.write_table(rows, sink, compression=COMPRESSION)
        size_bytes = sink.tell()
    yield found, WrittenFile(key, size_bytes, rows.num_rows)


def _as_entry(batch: tuple[InputStats, bytes]) -> tuple[int, tuple[bool, bytes]]:
    return 0, (False, batch[1])
