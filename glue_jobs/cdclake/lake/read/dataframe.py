"""A lake table as of a change, as a Spark DataFrame.

Tasks read the files of that change's snapshot with Arrow, so rolled-back and rewritten states read like the newest one,
and files written before columns were added or widened come out with the snapshot's columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import ceil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark_types

from cdclake.errors import ConfigurationError
from cdclake.lake.read.as_of import TableLocation, table_as_of
from cdclake.lake.read.retained_files import RetainedFileReader
from cdclake.lake.spark.task_errors import SparkTask
from cdclake.lake.storage.reader import as_full_load
from cdclake.lake.storage.shape import TableShape, conform, is_deleted
from cdclake.lake.storage.types import arrow_schema
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.schema import OP_COLUMN, Schema, decimal_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import date

    from pyspark.sql import DataFrame, SparkSession

    from cdclake.lake.read.as_of import RetainedFile
    from cdclake.lake.storage.partitions import Partition

BYTES_PER_TASK = 128 << 20
MIN_BYTES_PER_TASK = 4 << 20
TASKS_PER_CORE = 2
BATCH_ROWS = 1 << 16
_NO_MARKS = Schema()
_ADDED = pa.schema([(OP_COLUMN, pa.string()), (POSITION, pa.string())])
_SPARK_TYPES: dict[str, spark_types.DataType] = {
    "boolean": spark_types.BooleanType(),
    "tinyint": spark_types.ByteType(),
    "smallint": spark_types.ShortType(),
    "int": spark_types.IntegerType(),
    "bigint": spark_types.LongType(),
    "float": spark_types.FloatType(),
    "double": spark_types.DoubleType(),
    "string": spark_types.StringType(),
    "binary": spark_types.BinaryType(),
    "date": spark_types.DateType(),
    "timestamp": spark_types.TimestampType(),
}


def read_table(
    spark: SparkSession,
    lake: str,
    table: str,
    prefix: str = "",
    *,
    change: int | None = None,
    at: date | str | None = None,
    with_deleted: bool = False,
) -> DataFrame:
    """A lake table as it was after a change or at a time, or as it is now.

    Nothing is read before the DataFrame is used but the change log. It may be used for as long as the change is
    retained, whatever runs do to the table meanwhile.

    Args:
        spark: The session to read in; its workers reach the lake as this process does.
        lake: `s3://bucket` or `file:///folder`.
        table: `schema.table`.
        prefix: Folder of the lake in the bucket.
        change: Number of a change; `cdclake changes` lists them.
        at: A time, also as ISO 8601 text; without a zone it is UTC. The newest change committed by then counts.
        with_deleted: Whether rows that were deleted softly are given too; their `Op` is `D`.

    Returns:
        The source's columns in order, partition columns among them, then `Op` and `_cdc_position`. Rows in no order.
        Timestamps are instants, whatever the session's time zone.

    Raises:
        ConfigurationError: There is no such table or change.
        PastRetentionError: What the table was then is no longer kept.
    """
    source = TableLocation.at(lake, table, prefix)
    as_of = table_as_of(source.log(), change, at)
    snapshot = as_of.snapshot
    if not snapshot.exists:
        message = f"{table} held nothing after change {as_of.change}: every change before was rolled back"
        raise ConfigurationError(message, remedy="Name another change; cdclake changes lists them")
    shape = TableShape(snapshot.schema, snapshot.primary_key, snapshot.partition_key)
    return frame(spark, source, shape, as_of.files, with_deleted=with_deleted)


@dataclass(frozen=True)
class FileScan:
    """A data file to read, and what to say of each of its rows.

    Attributes:
        partition_key: Partition columns of its folder.
        marks: Values of columns that are added to its rows.
        with_deleted: Whether rows that were deleted softly are read too.
    """

    kept: RetainedFile
    partition_key: tuple[str, ...]
    marks: tuple[Any, ...] = ()
    with_deleted: bool = False


def frame(
    spark: SparkSession,
    table: TableLocation,
    shape: TableShape,
    files: Sequence[RetainedFile],
    *,
    with_deleted: bool = False,
) -> DataFrame:
    """Rows of some data files of a table, read when the DataFrame is used.

    Args:
        shape: Columns to read as, each of a type that holds those of the files, and the files' partition columns.
        files: The files; may be none.
        with_deleted: Whether rows that were deleted softly are read too.
    """
    marked = [FileScan(kept, shape.partition_key, with_deleted=with_deleted) for kept in files]
    return scan_frame(spark, table, shape.schema, marked)


def scan_frame(
    spark: SparkSession, table: TableLocation, schema: Schema, files: Sequence[FileScan], marks: Schema = _NO_MARKS
) -> DataFrame:
    """Rows of some data files with marks, which come after all other columns; read when the DataFrame is used.

    Args:
        schema: Columns to read as, each of a type that holds those of the files.
        files: The files; may be none.
        marks: Columns of the files' marks.
    """
    groups = scan_groups(files, spark.sparkContext.defaultParallelism)
    read = partial(_read_files, table=table, schema=schema, groups=groups, marks=arrow_schema(marks))
    numbers = spark.range(len(groups), numPartitions=max(1, len(groups)))  # one task a group
    return numbers.mapInArrow(SparkTask(read), spark_schema(schema, marks))


def quoted(name: str) -> str:
    """A column's name as Spark reads it, whatever it holds."""
    return "`{}`".format(name.replace("`", "``"))


def spark_schema(schema: Schema, marks: Schema = _NO_MARKS) -> spark_types.StructType:
    """Spark's types of a table's columns, with `Op` and `_cdc_position`, and of marks."""
    columns, after = (
        [spark_types.StructField(one.name, _spark_type(one.type)) for one in few] for few in (schema, marks)
    )
    added = [spark_types.StructField(name, spark_types.StringType()) for name in _ADDED.names]
    return spark_types.StructType([*columns, *added, *after])


def scan_groups(files: Sequence[FileScan], cores: int) -> list[list[FileScan]]:
    """Neighbouring files in groups of about equal bytes, each for one task: enough for all cores, none too large."""
    total = sum(one.kept.file.bytes for one in files)
    wanted = max(cores * TASKS_PER_CORE, ceil(total / BYTES_PER_TASK))
    count = min(len(files), wanted, max(1, ceil(total / MIN_BYTES_PER_TASK)))
    groups: list[list[FileScan]] = [[] for _ in range(count)]
    done = 0
    for one in files:
        groups[min(count - 1, done * count // total) if total else 0].append(one)
        done += one.kept.file.bytes
    return [group for group in groups if group]


def _spark_type(kind: str) -> spark_types.DataType:
    decimal = decimal_parts(kind)
    return spark_types.DecimalType(*decimal) if decimal else _SPARK_TYPES[kind]


def _read_files(
    batches: Iterable[pa.RecordBatch],
    *,
    table: TableLocation,
    schema: Schema,
    groups: Sequence[Sequence[FileScan]],
    marks: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """A task: the rows of the groups of files whose numbers it gets."""
    files = RetainedFileReader(table)
    for batch in batches:
        for one in chain.from_iterable(groups[number] for number in batch.column(0).to_pylist()):
            shape = TableShape(schema, (), one.partition_key)
            for rows in files.row_groups(one.kept):
                read = lake_rows(rows, shape, one.kept.file.partition)
                if one.kept.file.deleted and not one.with_deleted:
                    read = read.filter(pc.invert(is_deleted(read)))
                for mark, value in zip(marks, one.marks, strict=True):
                    read = read.append_column(mark, pa.repeat(pa.scalar(value, mark.type), read.num_rows))
                yield from read.to_batches(max_chunksize=BATCH_ROWS)


def lake_rows(rows: pa.Table, shape: TableShape, partition: Partition) -> pa.Table:
    """Rows of a data file with all columns of the table, `Op` and position.

    A file that another program wrote may lack the last two: its rows then count as loaded.
    """
    added = as_full_load(conform(rows, _ADDED))
    return pa.table({**shape.source_columns(rows, partition), **{name: added[name] for name in _ADDED.names}})
