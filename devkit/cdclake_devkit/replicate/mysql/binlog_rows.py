"""Converts row events of a binlog, with the columns of their table maps, which are those at the time of the event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pymysqlreplication.constants import FIELD_TYPE
from pymysqlreplication.constants.NONE_SOURCE import EMPTY_SET
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent

from cdclake.errors import IntegrityError
from cdclake.model.table.name import TableName
from cdclake_cli.sources.mysql.types import MysqlColumn, check_table
from cdclake_devkit.replicate.transactions import ChangeRow

if TYPE_CHECKING:
    from collections.abc import Iterator

_KINDS = {
    FIELD_TYPE.TINY: "tinyint",
    FIELD_TYPE.SHORT: "smallint",
    FIELD_TYPE.INT24: "mediumint",
    FIELD_TYPE.LONG: "int",
    FIELD_TYPE.LONGLONG: "bigint",
    FIELD_TYPE.NEWDECIMAL: "decimal",
    FIELD_TYPE.FLOAT: "float",
    FIELD_TYPE.DOUBLE: "double",
    FIELD_TYPE.BIT: "bit",
    FIELD_TYPE.DATE: "date",
    FIELD_TYPE.DATETIME: "datetime",
    FIELD_TYPE.DATETIME2: "datetime",
    FIELD_TYPE.TIMESTAMP: "timestamp",
    FIELD_TYPE.TIMESTAMP2: "timestamp",
    FIELD_TYPE.TIME: "time",
    FIELD_TYPE.TIME2: "time",
    FIELD_TYPE.YEAR: "year",
    FIELD_TYPE.ENUM: "enum",
    FIELD_TYPE.SET: "set",
    FIELD_TYPE.JSON: "json",
    FIELD_TYPE.GEOMETRY: "geometry",
}
_TEXT_OR_BYTES = {
    FIELD_TYPE.STRING: ("char", "binary"),
    FIELD_TYPE.VAR_STRING: ("varchar", "varbinary"),
    FIELD_TYPE.VARCHAR: ("varchar", "varbinary"),
    FIELD_TYPE.BLOB: ("text", "blob"),
}
_CHARSETS = {"cp1252": "latin1"}
"""MySQL's character sets by Python's codec names, which the library uses, where the two differ."""
_CHARACTER_BYTES = {"utf8mb4": 4, "utf8mb3": 3, "utf8": 3}
"""Maximum bytes per character by the first part of a collation's name. A CHAR's logged length is in bytes."""


def binlog_rows(event: Any) -> Iterator[ChangeRow]:  # noqa: ANN401 - the library has no types
    """The rows of an event.

    Raises:
        IntegrityError: The event has incomplete rows, or a text that is invalid in its column's character set.
        ConfigurationError: The table or one of its columns is not supported.
    """
    table = TableName(event.schema, event.table)
    columns = tuple(_column(column, table) for column in event.columns)
    check_table(table, columns)
    _require_whole_rows(event, table)
    key = (event.primary_key,) if isinstance(event.primary_key, str) and event.primary_key else event.primary_key
    sets = [column.name for column in columns if column.kind == "set"]
    try:
        rows = event.rows
    except UnicodeDecodeError as error:
        message = "The binlog has a text that is invalid in its column's character set"
        raise IntegrityError(message, remedy="Make the column utf8mb4 at the source", table=table) from error
    for row in rows:
        before = row.get("before_values")
        values = row["after_values"] if before is not None else row["values"]
        for name in sets:
            _restore_empty_set(values, row["after_none_sources" if before is not None else "none_sources"], name)
            if before is not None:
                _restore_empty_set(before, row["before_none_sources"], name)
        size_bytes = event.event_size // len(rows)
        yield ChangeRow(table, columns, tuple(key or ()), _operation(event), values, before, size_bytes)


def _operation(event: Any) -> str:  # noqa: ANN401 - the library has no types
    return "U" if isinstance(event, UpdateRowsEvent) else "D" if isinstance(event, DeleteRowsEvent) else "I"


def _restore_empty_set(values: dict[str, Any], none_sources: dict[str, str], name: str) -> None:
    """Replace the None that the library returns for an empty SET."""
    if values[name] is None and none_sources.get(name) == EMPTY_SET:
        values[name] = set()


def _require_whole_rows(event: Any, table: TableName) -> None:  # noqa: ANN401 - the library has no types
    all_columns = (1 << event.number_of_columns) - 1
    bitmaps = [event.columns_present_bitmap, *([event.columns_present_bitmap2] if _operation(event) == "U" else [])]
    if any(int.from_bytes(bitmap, "little") & all_columns != all_columns for bitmap in bitmaps):
        remedy = "Set binlog_row_image to FULL at the source, in sessions too, and repeat the full load"
        raise IntegrityError("The binlog has rows that lack some of their columns", remedy=remedy, table=table)


def _column(column: Any, table: TableName) -> MysqlColumn:  # noqa: ANN401 - the library has no types
    if not column.name:
        remedy = "Set binlog_row_metadata to FULL at the source, and repeat the full load"
        raise IntegrityError("The binlog does not contain column names", remedy=remedy, table=table)
    charset = str(column.character_set_name or "")
    is_bytes = charset == "binary"
    kind = _KINDS.get(column.type) or _TEXT_OR_BYTES.get(column.type, ("unknown",) * 2)[is_bytes]
    charset = "" if is_bytes else _CHARSETS.get(charset, charset)
    return MysqlColumn(
        name=column.name,
        kind=kind,
        unsigned=bool(column.unsigned),
        precision=column.precision if kind == "decimal" else 0,
        scale=column.decimals if kind == "decimal" else 0,
        length=_length(column, kind),
        fraction_digits=getattr(column, "fsp", 0),
        charset=charset,
        members=tuple(column.enum_values[1:] if kind == "enum" else column.set_values if kind == "set" else ()),
    )


def _length(column: Any, kind: str) -> int:  # noqa: ANN401 - the library has no types
    if kind == "bit":
        return int(column.bits)
    if kind == "char":
        collation = str(column.collation_name or "").partition("_")[0]
        return int(column.max_length) // _CHARACTER_BYTES.get(collation, 1)
    return int(column.max_length) if kind == "binary" else 0
