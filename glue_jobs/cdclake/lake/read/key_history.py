"""Reads every version of a few rows from the history of their table. No Spark."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from math import isfinite
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cdclake.concurrency import CALLS_AT_ONCE, in_parallel
from cdclake.errors import ConfigurationError
from cdclake.lake.read.as_of import table_as_of
from cdclake.lake.read.key_filter import RowKeys
from cdclake.lake.read.retained_files import RetainedFileReader
from cdclake.lake.scd2.versions import keyed_shape
from cdclake.lake.storage.shape import TableShape
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.versions import CHANGE_ID, MONTH, OPERATION, VALID_FROM, VALID_TO, VALIDITY_FLAG, YEAR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.lake.read.as_of import RetainedFile, TableLocation

_FIRST_COLUMNS = (OPERATION, VALID_FROM, VALID_TO, VALIDITY_FLAG, CHANGE_ID)


@dataclass(frozen=True)
class KeyVersions:
    """Versions of a few rows.

    Attributes:
        columns: `operation`, `valid_from`, `valid_to`, `validity_flag`, `change_id`, then the source's columns.
        rows: Their values by column, ordered by key, then by time, newest last. Values are JSON types; decimals,
            dates, timestamps (UTC), binary values (hexadecimal) and infinite or NaN numbers are text.
    """

    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]


def find_versions(location: TableLocation, texts: Sequence[str], secret: bytes = b"") -> KeyVersions:
    """Find the versions of some keys.

    Args:
        texts: The keys, in the form that `RowKeys.parse` reads.
        secret: The secret of hashed columns; empty for none.

    Raises:
        ConfigurationError: There is no such table, it keeps no history, or a key does not fit its key columns.
        LakeFilesError: A file of the history vanished or was overwritten.
    """
    as_of = table_as_of(location.log())
    history = as_of.snapshot.history
    if history is None:
        message = f"{location.layout.name} keeps no history"
        raise ConfigurationError(message, remedy="Turn it on with cdclake tables set --history; see docs/history.md")
    shape = keyed_shape(TableShape(history.schema, history.primary_key, ()))
    policy = as_of.snapshot.policy.with_secret(secret)
    key_filter = RowKeys.parse(texts, history.primary_key, history.schema, policy).filter_for(shape)
    versions: list[dict[str, Any]] = []
    reader = RetainedFileReader(location)

    def search(retained: RetainedFile) -> None:
        if key_filter and key_filter.may_match(retained.file):
            with reader.open(retained) as source:
                for rows in key_filter.matching_rows(source, shape, retained.file):
                    versions.extend(_with_short_floats(rows).to_pylist())

    in_parallel(search, as_of.retained(history.files), CALLS_AT_ONCE)
    versions.sort(key=itemgetter(*history.primary_key, VALIDITY_FLAG, VALID_FROM, POSITION))
    own = {*_FIRST_COLUMNS, YEAR, MONTH, POSITION}
    columns = (*_FIRST_COLUMNS, *(name for name in history.schema.names if name not in own))
    return KeyVersions(columns, tuple({name: printable_value(row[name]) for name in columns} for row in versions))


def _with_short_floats(rows: pa.Table) -> pa.Table:
    """Convert `float` columns to the doubles with the same shortest text: 0.1, not 0.10000000149011612."""
    for i, field in enumerate(rows.schema):
        if pa.types.is_float32(field.type):
            rows = rows.set_column(i, field.name, rows[field.name].cast(pa.string()).cast(pa.float64()))
    return rows


def printable_value(value: object) -> object:
    """Convert a value to the same form as `cdclake.lake.read.diff_report` does with Spark."""
    if isinstance(value, datetime):
        return f"{value.astimezone(timezone.utc).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, date):
        return str(value)
    if isinstance(value, bytes):
        return value.hex().upper()
    return str(value) if isinstance(value, float) and not isfinite(value) else value
