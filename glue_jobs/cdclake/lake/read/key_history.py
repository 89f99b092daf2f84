"""Every version of a few rows, from the history of their table. No Spark."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from math import isfinite
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cdclake.commit.publish import in_parallel, no_lease
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

_SHOWN_FIRST = (OPERATION, VALID_FROM, VALID_TO, VALIDITY_FLAG, CHANGE_ID)


@dataclass(frozen=True)
class KeyVersions:
    """Versions of a few rows.

    Attributes:
        columns: `operation`, `valid_from`, `valid_to`, `validity_flag`, `change_id`, then the source's columns.
        rows: The values of these, by key and then by time, the newest last; such as JSON holds. Decimals, dates and
            times (UTC) are text, and so are infinite numbers; binary values are hexadecimal digits.
    """

    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]


def find_versions(place: TableLocation, texts: Sequence[str]) -> KeyVersions:
    """Look the versions of some keys up.

    Args:
        place: Where the table is.
        texts: The keys, as `RowKeys.parse` reads them.

    Raises:
        ConfigurationError: There is no such table, it keeps no history, or a key is none of its.
        LakeFilesError: A file of the history vanished or was overwritten.
    """
    as_of = table_as_of(place.log())
    history = as_of.snapshot.history
    if history is None:
        message = f"{place.layout.name} keeps no history"
        raise ConfigurationError(message, remedy="cdclake tables set --history turns it on; see docs/history.md")
    shape = keyed_shape(TableShape(history.schema, history.primary_key, ()))
    keys = RowKeys.parse(texts, history.primary_key, history.schema)
    wanted = keys.wanted(shape)
    found: list[dict[str, Any]] = []
    kept_files = RetainedFileReader(place)

    def look(kept: RetainedFile) -> None:
        if wanted and wanted.may_be_in(kept.file):
            with kept_files.open(kept) as source:
                for rows in wanted.rows(source, shape, kept.file.partition):
                    found.extend(_with_short_floats(rows).to_pylist())

    in_parallel(look, as_of.kept(history.files), no_lease)
    found.sort(key=itemgetter(*history.primary_key, VALIDITY_FLAG, VALID_FROM, POSITION))
    own = {*_SHOWN_FIRST, YEAR, MONTH, POSITION}
    columns = (*_SHOWN_FIRST, *(name for name in history.schema.names if name not in own))
    return KeyVersions(columns, tuple({name: _printable(row[name]) for name in columns} for row in found))


def _with_short_floats(rows: pa.Table) -> pa.Table:
    """Rows in which each value of a `float` column is the double of the same text, and not of a longer one."""
    for i, field in enumerate(rows.schema):
        if pa.types.is_float32(field.type):
            rows = rows.set_column(i, field.name, rows[field.name].cast(pa.string()).cast(pa.float64()))
    return rows


def _printable(value: object) -> object:
    """As `cdclake.lake.read.diff_report` has Spark make it."""
    if isinstance(value, datetime):
        return f"{value.astimezone(timezone.utc).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, date):
        return str(value)
    if isinstance(value, bytes):
        return value.hex().upper()
    return str(value) if isinstance(value, float) and not isfinite(value) else value
