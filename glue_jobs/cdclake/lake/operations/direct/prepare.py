"""Writes a direct change as change files, as DMS does, into the change's staging folder.

Input rows are first joined with the lake's rows of the same keys. Thus updates become complete rows, and an impossible
change is refused before anything is computed. Rows of a Spark DataFrame stay in tasks.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import partial, reduce
from operator import add, attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from cdclake.adapters.filesystem import open_output
from cdclake.errors import OrderingError
from cdclake.lake.merge.existing_rows import existing_rows_schema
from cdclake.lake.merge.join_by_key import cogroup_by_key
from cdclake.lake.merge.messages import Source, SourceRows
from cdclake.lake.merge.read_changes import ReadStats
from cdclake.lake.merge.tasks.route import rows_by_source
from cdclake.lake.operations.direct.rows import InputStats, KeyStats, change_rows, convert_input
from cdclake.lake.raw.ordering import unsortable_text
from cdclake.lake.spark.backend import is_spark_dataframe
from cdclake.lake.spark.in_process import InProcessBackend
from cdclake.lake.spark.spark_backend import SparkPartitions
from cdclake.lake.spark.task_errors import SparkTask
from cdclake.lake.storage.arrow_ipc import concat
from cdclake.lake.storage.writer import COMPRESSION
from cdclake.model.schema import INSERT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from cdclake.lake.merge.messages import Batch
    from cdclake.lake.merge.read_changes import Locations
    from cdclake.lake.operations.direct.input_tables import InputRows
    from cdclake.lake.spark.backend import Backend, Partitions, Task
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.schema import Column
    from cdclake.model.snapshot import DataFile


@dataclass(frozen=True)
class PrepareRequest:
    """A direct change without its rows.

    Attributes:
        op: `I`, `U` or `D`, for all its rows.
        shape: Columns and keys of the table.
        order_column: The table's ordering column; empty for none.
        order_declared: Whether Schema declares its type.
        files: Live data files.
        locations: Where to read and write.
    """

    op: str
    shape: TableShape
    order_column: str
    order_declared: bool
    files: tuple[DataFile, ...]
    locations: Locations

    @property
    def primary_key(self) -> tuple[Column, ...]:
        """The key columns."""
        return tuple(column for name in self.shape.primary_key if (column := self.shape.schema.find(name)))

    @property
    def needs_values(self) -> bool:
        """Whether the change needs all columns of the lake's rows. Inserts need only their keys."""
        return self.op != INSERT


class WrittenFile(NamedTuple):
    """A change file: its key, its size, and its number of rows."""

    key: str
    size_bytes: int
    rows: int


class _WrittenRange(NamedTuple):
    """What a task found out about its range of keys, and wrote."""

    keys: KeyStats
    file: WrittenFile | None


@dataclass(frozen=True)
class Prepared:
    """A direct change whose change files are written.

    Attributes:
        input_stats: Statistics of the input rows.
        keys: How their keys relate to the lake's rows; all zero if the input rows are invalid.
        files: The change files.
    """

    input_stats: InputStats
    keys: KeyStats = KeyStats()  # noqa: RUF009 - frozen
    files: tuple[WrittenFile, ...] = ()

    @property
    def rows(self) -> int:
        """Number of rows of the change."""
        return sum(file.rows for file in self.files)


def prepare(
    backend: Backend, request: PrepareRequest, rows: InputRows, columns: Sequence[Sequence[Column | None]]
) -> Prepared:
    """Write the change files of a direct change.

    Args:
        columns: For each input table, or for the DataFrame, the lake column of each of its columns; None leaves the
            column out.
    """
    convert = partial(convert_input, primary_key=request.primary_key)
    batches: Partitions[Batch[InputStats]]
    if is_spark_dataframe(rows):
        batches = _convert_dataframe(backend, rows, partial(convert, columns=columns[0]))
    else:
        converted = [convert(table, names) for table, names in zip(rows, columns, strict=True)]
        batches = InProcessBackend().distribute([converted])
    batches, stats = batches.keep(attrgetter("stats"), InputStats())
    try:
        return _write_files(backend, request, batches, stats)
    finally:
        batches.discard()


def _write_files(
    backend: Backend, request: PrepareRequest, batches: Partitions[Batch[InputStats]], stats: InputStats
) -> Prepared:
    if stats.invalid or stats.null_keys or not stats.rows:
        return Prepared(stats)
    kept: list[Partitions[Any]] = []
    if request.shape.primary_key:
        entries = cogroup_by_key(
            backend,
            batches,
            ReadStats(inserts=stats.rows, samples=stats.samples),
            request.files,
            request.shape,
            request.locations,
            kept,
            complete=request.needs_values,
        )
    else:
        entries = batches.map(_as_entry)
    written = entries.run(partial(_write_file, request=request)).collect()
    for rows in kept:
        rows.discard()
    files = tuple(one.file for one in written if one.file)
    return Prepared(stats, reduce(add, (one.keys for one in written), KeyStats()), files)


def _convert_dataframe(
    backend: Backend, frame: DataFrame, convert: partial[Batch[InputStats]]
) -> SparkPartitions[Batch[InputStats]]:
    renamed = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))  # names may contain any character
    pickled = renamed.mapInArrow(SparkTask(partial(_convert_batches, convert=convert)), "batch binary")
    return SparkPartitions(backend, pickled.rdd.map(_unpickled))


def _convert_batches(
    batches: Iterable[pa.RecordBatch], *, convert: partial[Batch[InputStats]]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            pickled = pickle.dumps(convert(pa.Table.from_batches([batch])))
            yield pa.RecordBatch.from_arrays([pa.array([pickled], pa.binary())], ["batch"])


def _unpickled(row: Sequence[Any]) -> Any:  # noqa: ANN401 - what `_convert_batches` pickled
    return pickle.loads(row[0])


def _write_file(task: Task, entries: Iterable[SourceRows], *, request: PrepareRequest) -> Iterator[_WrittenRange]:
    """Write the change rows of a range of keys."""
    batches = rows_by_source(entries)
    tables = [rows.table for rows in batches[Source.CHANGE]]
    if not tables:
        return
    has_key = bool(request.shape.primary_key)
    schema = existing_rows_schema(request.shape, complete=request.needs_values) if has_key else pa.schema([])
    lake = concat(batches[Source.TABLE], schema)
    rows, keys = change_rows(request.op, tables, lake, request.shape, request.order_column)
    if not rows.num_rows:
        yield _WrittenRange(keys, None)
        return
    _require_sortable_text(rows, request)
    key = f"{request.locations.staging}direct/{task.number:05d}-{task.attempt}.parquet"
    with open_output(request.locations.lake.open(), key) as sink:
        pq.write_table(rows, sink, compression=COMPRESSION)
        size_bytes = sink.tell()
    yield _WrittenRange(keys, WrittenFile(key, size_bytes, rows.num_rows))


def _require_sortable_text(rows: pa.Table, request: PrepareRequest) -> None:
    """Refuse ordering values that are refused in raw files.

    Raises:
        OrderingError: The ordering column is text that may not sort like its values.
    """
    column = request.shape.schema.find(request.order_column)
    if column is None or column.type != "string":
        return
    texts = rows[column.name].combine_chunks()
    if unsortable_text(texts, declared=request.order_declared) is not None:
        message = "The ordering column is text, and the value of a row may not sort like the values of other rows"
        remedy = f"Nothing was changed. Declare the type of {column.name} in Schema"
        raise OrderingError(message, remedy=remedy, column=column.name)


def _as_entry(batch: Batch[InputStats]) -> SourceRows:
    return SourceRows(Source.CHANGE, batch.rows)
