"""The versions of a lake table's rows as a Spark DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from cdclake.errors import ConfigurationError
from cdclake.lake.read.as_of import TableLocation, table_as_of
from cdclake.lake.read.dataframe import frame, quoted
from cdclake.lake.storage.shape import TableShape
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.schema import OP_COLUMN, Schema
from cdclake.model.versions import MONTH, OWN_COLUMNS, VALID_FROM, VALIDITY_FLAG, YEAR

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession


def read_history(
    spark: SparkSession,
    lake: str,
    table: str,
    prefix: str = "",
    *,
    change: int | None = None,
    at: datetime | str | None = None,
    key: object = None,
) -> DataFrame:
    """The history of a lake table, as it was after a change or at a time, or as it is now.

    Nothing is read before the DataFrame is used but the change log. It may be used for as long as the change is
    retained, whatever runs do to the table meanwhile.

    Args:
        spark: The session to read in; its workers reach the lake as this process does.
        lake: `s3://bucket` or `file:///folder`.
        table: `schema.table`, of the table itself.
        prefix: Folder of the lake in the bucket.
        change: Number of a change; `cdclake changes` lists them.
        at: A time, also as ISO 8601 text; without a zone it is UTC. The newest change committed by then counts.
        key: The id of a row, a tuple of a key of several columns; None: the versions of all rows.

    Returns:
        The source's columns, then `operation`, `valid_from`, `valid_to`, `validity_flag`, `change_id`, `year`, `month`
        and `_cdc_position`, see docs/history.md. Rows of one key by time, the newest last; else in no order.

    Raises:
        ConfigurationError: There is no such table or change, it kept no history, or its key has more or fewer columns.
        PastRetentionError: What the table was then is no longer kept.
    """
    source = TableLocation.at(lake, table, prefix)
    as_of = table_as_of(source.log(), change, at)
    history = as_of.snapshot.history
    if history is None:
        message = f"{table} kept no history at change {as_of.change}"
        raise ConfigurationError(message, remedy="cdclake tables set --history turns it on; see docs/history.md")
    # The position comes with every frame, as does the operation, which here is told by a column of its own.
    own = (column for column in OWN_COLUMNS if column.name != POSITION)
    shape = TableShape(Schema((*history.schema, *own)), (), (YEAR, MONTH))
    versions = frame(spark, source, shape, as_of.kept(history.files)).drop(OP_COLUMN)
    return versions if key is None else _of_key(versions, key, table, history.primary_key)


def _of_key(versions: DataFrame, key: object, table: str, names: Sequence[str]) -> DataFrame:
    values = key if isinstance(key, tuple) else (key,)
    if len(values) != len(names):
        message = f"The key of {table} is {', '.join(names)}, and {len(values)} values were given"
        raise ConfigurationError(message, remedy="Give a tuple with a value for each of these columns")
    for name, value in zip(names, values, strict=True):
        versions = versions.where(F.col(quoted(name)) == F.lit(value))
    return versions.orderBy(VALIDITY_FLAG, VALID_FROM, POSITION)
