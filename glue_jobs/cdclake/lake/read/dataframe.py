"""Reads a lake table as of a change into a Spark DataFrame.

Tasks read the files of the change's snapshot with Arrow. Thus every retained state reads like the newest one, and files
written before a column was added or widened have the snapshot's columns.
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
from cdclake.lake.spark.backend import balanced_groups
from cdclake.lake.spark.task_errors import SparkTask
from cdclake.lake.spark.workers_python import check_python
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
_NO_CONSTANTS = Schema()
_ADDED = pa.schema([(OP_COLUMN, pa.string()), (POSITION, pa.string())])
"""Columns that data files have besides the source's."""
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
    """Read a lake table as of a change or a time; as it is now if neither is given.

    This reads only the change log; data files are read when the DataFrame is used. The DataFrame stays valid while the
    change is retained, whatever other runs do to the table.

    Args:
        spark: The session to read in. Its workers connect to the lake as this process does.
        lake: `s3://bucket` or `file:///folder`.
        table: `schema.table`.
        prefix: Folder of the lake in the bucket.
        change: Number of a change; `cdclake changes` lists them.
        at: A time, or its ISO 8601 text, which selects the newest change committed by then. Without a zone it is UTC.
        with_deleted: Whether to include soft-deleted rows; their `Op` is `D`.

    Returns:
        The source's columns in order, including partition columns, then `Op` and `_cdc_position`. Rows are in no order.
        Timestamps are instants; the session's time zone does not affect them.

    Raises:
        ConfigurationError: There is no such table or change.
        PastRetentionError: The state after that change is no longer retained.
    """
    location = TableLocation.at(lake, table, prefix)
    as_of = table_as_of(location.log(), change, at)
    snapshot = as_of.snapshot
    if not snapshot.exists:
        message = f"{table} does not exist after change {as_of.change}, because every change was rolled back"
        raise ConfigurationError(message, remedy="Use another change; cdclake changes lists them")
    shape = TableShape(snapshot.schema, snapshot.primary_key, snapshot.partition_key)
    return frame(spark, location, shape, as_of.files, with_deleted=with_deleted)


@dataclass(frozen=True)
class FileScan:
    """A data file to read.

    Attributes:
        retained: The file.
        partition_key: Partition columns of its folder.
        constants: Values to append to each of its rows as further columns.
        with_deleted: Whether to include soft-deleted rows.
    """

    retained: RetainedFile
    partition_key: tuple[str, ...]
    constants: tuple[Any, ...] = ()
    with_deleted: bool = False


def frame(
    spark: SparkSession,
    location: TableLocation,
    shape: TableShape,
    files: Sequence[RetainedFile],
    *,
    with_deleted: bool = False,
) -> DataFrame:
    """Rows of some data files of a table, read when the DataFrame is used.

    Args:
        shape: Columns to return, with types wide enough for all files, and the files' partition columns.
        files: The files; may be empty.
        with_deleted: Whether to include soft-deleted rows.
    """
    scans = [FileScan(file, shape.partition_key, with_deleted=with_deleted) for file in files]
    return scan_frame(spark, location, shape.schema, scans)


def scan_frame(
    spark: SparkSession,
    location: TableLocation,
    schema: Schema,
    scans: Sequence[FileScan],
    constants: Schema = _NO_CONSTANTS,
) -> DataFrame:
    """Rows of some data files, followed by the constants of their scans; read when the DataFrame is used.

    Args:
        schema: Columns to return, with types wide enough for all files.
        scans: The files; may be empty.
        constants: Names and types of the scans' constants.
    """
    check_python(spark.sparkContext)
    groups = scan_groups(scans, spark.sparkContext.defaultParallelism)
    read = partial(_read_files, location=location, schema=schema, groups=groups, constants=arrow_schema(constants))
    numbers = spark.range(len(groups), numPartitions=max(1, len(groups)))  # one task per group
    return numbers.mapInArrow(SparkTask(read), spark_schema(schema, constants))


def quoted(name: str) -> str:
    """A column's name, quoted so that Spark accepts any character in it."""
    return "`{}`".format(name.replace("`", "``"))


def spark_schema(schema: Schema, constants: Schema = _NO_CONSTANTS) -> spark_types.StructType:
    """Spark's types of a table's columns, then of `Op` and `_cdc_position`, then of constants."""
    columns, last = (
        [spark_types.StructField(column.name, _spark_type(column.type)) for column in part]
        for part in (schema, constants)
    )
    added = [spark_types.StructField(name, spark_types.StringType()) for name in _ADDED.names]
    return spark_types.StructType([*columns, *added, *last])


def scan_groups(scans: Sequence[FileScan], cores: int) -> list[list[FileScan]]:
    """Adjacent files in groups of about equal bytes, one per task: enough to use all cores, and none too large."""
    sizes = [scan.retained.file.bytes for scan in scans]
    target = max(cores * TASKS_PER_CORE, ceil(sum(sizes) / BYTES_PER_TASK))
    return balanced_groups(scans, sizes, min(target, ceil(sum(sizes) / MIN_BYTES_PER_TASK)))


def _spark_type(kind: str) -> spark_types.DataType:
    decimal = decimal_parts(kind)
    return spark_types.DecimalType(*decimal) if decimal else _SPARK_TYPES[kind]


def _read_files(
    batches: Iterable[pa.RecordBatch],
    *,
    location: TableLocation,
    schema: Schema,
    groups: Sequence[Sequence[FileScan]],
    constants: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """A Spark task: the rows of the groups of files whose numbers it receives."""
    reader = RetainedFileReader(location)
    for batch in batches:
        for scan in chain.from_iterable(groups[number] for number in batch.column(0).to_pylist()):
            shape, file = TableShape(schema, (), scan.partition_key), scan.retained.file
            for row_group in reader.row_groups(scan.retained):
                rows = table_rows(row_group, shape, file.partition, loaded=file.counts_as_loaded)
                if file.deleted and not scan.with_deleted:
                    rows = rows.filter(pc.invert(is_deleted(rows)))
                for column, value in zip(constants, scan.constants, strict=True):
                    rows = rows.append_column(column, pa.repeat(pa.scalar(value, column.type), rows.num_rows))
                yield from rows.to_batches(max_chunksize=BATCH_ROWS)


def table_rows(rows: pa.Table, shape: TableShape, partition: Partition, *, loaded: bool = False) -> pa.Table:
    """Rows of a data file with all columns of the table, then `Op` and position.

    A file that another program wrote may lack the last two columns; its rows then count as rows of a full load.

    Args:
        loaded: See `DataFile.counts_as_loaded`.
    """
    added = as_full_load(conform(rows, _ADDED), everything=loaded)
    return pa.table({**shape.source_columns(rows, partition), **{name: added[name] for name in _ADDED.names}})
