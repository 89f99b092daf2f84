"""Reads the history of a lake table, which holds every version of its rows, into a Spark DataFrame."""

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
    """Read the history of a lake table as of a change or a time; as it is now if neither is given.

    The other arguments, and when files are read, are as for `cdclake.lake.read.dataframe.read_table`.

    Args:
        table: `schema.table`, the name of the table itself.
        key: Key of one row, a tuple if it has several columns; None for the versions of all rows.

    Returns:
        The source's columns, then `operation`, `valid_from`, `valid_to`, `validity_flag`, `change_id`, `year`, `month`
        and `_cdc_position`; see docs/history.md. With a key: ordered by time, newest last; otherwise in no order.

    Raises:
        ConfigurationError: There is no such table or change, the table kept no history, or the key has the wrong number
            of columns.
        PastRetentionError: The state after that change is no longer retained.
    """
    location = TableLocation.at(lake, table, prefix)
    as_of = table_as_of(location.log(), change, at)
    history = as_of.snapshot.history
    if history is None:
        message = f"{table} kept no history at change {as_of.change}"
        raise ConfigurationError(message, remedy="Turn it on with cdclake tables set --history; see docs/history.md")
    # Every frame has the position and `Op`; here the column `operation` replaces the latter.
    own = (column for column in OWN_COLUMNS if column.name != POSITION)
    shape = TableShape(Schema((*history.schema, *own)), (), (YEAR, MONTH))
    versions = frame(spark, location, shape, as_of.retained(history.files)).drop(OP_COLUMN)
    return versions if key is None else _versions_of_key(versions, key, table, history.primary_key)


def _versions_of_key(versions: DataFrame, key: object, table: str, names: Sequence[str]) -> DataFrame:
    values = key if isinstance(key, tuple) else (key,)
    if len(values) != len(names):
        message = f"The key of {table} is ({', '.join(names)}), but {len(values)} values were given"
        raise ConfigurationError(message, remedy="Pass a tuple with one value for each of these columns")
    for name, value in zip(names, values, strict=True):
        versions = versions.where(F.col(quoted(name)) == F.lit(value))
    return versions.orderBy(VALIDITY_FLAG, VALID_FROM, POSITION)
