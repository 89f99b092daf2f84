"""Converts values of MySQL and MariaDB columns to the Arrow types that AWS DMS delivers.

The types are as in the DMS user guide ("Source data types for MySQL": `TINYINT` is INT1, `BIT` BOOLEAN, `FLOAT`
REAL8, `TIME` STRING, `YEAR` INT2, `JSON` NCLOB, ...; unsigned variants are UINT1 to UINT8), as DMS writes them to
Parquet. So `tinyint(1)` is a number. `DATETIME` and `TIMESTAMP` have the same Parquet type: a `DATETIME` is taken as if
it were UTC, and a `TIMESTAMP` is converted to UTC. A zero date is null, as in DMS.

Values come from a SELECT or from the binlog, and both must produce the same result. Columns that a binlog cannot
represent, that the library reads incorrectly or that DMS does not deliver are refused when the replication starts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Callable

import pyarrow as pa

from cdclake.errors import ConfigurationError
from cdclake_cli.dms.files import CHAR_LENGTH
from cdclake_cli.sources.tables import check_folder_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cdclake.model.table.name import TableName

MAX_DIGITS = 38
"""Maximum precision of a DMS NUMERIC, and of 128-bit decimals in Arrow and Parquet."""

READABLE_CHARSETS = frozenset({"utf8", "utf8mb3", "utf8mb4", "ascii", "latin1"})
"""Character sets that the library decodes from a binlog as the server does."""

_INTEGERS = {
    "tinyint": (pa.int8(), pa.uint8()),
    "smallint": (pa.int16(), pa.uint16()),
    "mediumint": (pa.int32(), pa.uint32()),
    "int": (pa.int32(), pa.uint32()),
    "bigint": (pa.int64(), pa.uint64()),
}
_TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json"})
_BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_GEOMETRIES = frozenset(
    {"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"}
    | {"geometrycollection", "geomcollection"}
)
_LOBS = frozenset({"text", "mediumtext", "longtext", "blob", "mediumblob", "longblob", "json"})
_TIMESTAMP = pa.timestamp("us", tz="UTC")
_SIMPLE = {
    "float": pa.float64(),
    "double": pa.float64(),
    "date": pa.date32(),
    "datetime": _TIMESTAMP,
    "timestamp": _TIMESTAMP,
    "time": pa.string(),
    "year": pa.int16(),
}
_NO_TIMESTAMP = datetime(1970, 1, 1)  # noqa: DTZ001 - the library's zone is UTC
"""A TIMESTAMP column cannot hold second 0, which represents the zero date."""
_NO_YEAR = 1900
"""A YEAR is stored as its difference from 1900. The year 0000 is stored as 0, which the library reads as 1900."""


@dataclass(frozen=True)
class MysqlColumn:
    """A column of a source table, from `information_schema` or from a table map of the binlog.

    Attributes:
        kind: MySQL's name of the type in lower case, without length: `varchar`, `bigint`.
        precision: Precision of a decimal.
        scale: Scale of a decimal.
        length: Bits of a `bit`, bytes of a `binary`, characters of a `char`; 0 for other types.
        fraction_digits: Fractional digits of the seconds of a time.
        charset: Character set of text; empty for other types.
        members: Values of an `enum` or `set`, in order.
    """

    name: str
    kind: str
    unsigned: bool = False
    precision: int = 0
    scale: int = 0
    length: int = 0
    fraction_digits: int = 0
    charset: str = ""
    members: tuple[str, ...] = ()

    @property
    def arrow_type(self) -> pa.DataType:
        """The type that DMS converts the column to.

        Raises:
            ConfigurationError: DMS does not support the column's type.
        """
        if self.kind in _INTEGERS:
            return _INTEGERS[self.kind][self.unsigned]
        if self.kind == "decimal" and self.precision <= MAX_DIGITS:
            return pa.decimal128(self.precision, self.scale)
        if self.kind == "bit":
            return pa.bool_() if self.length == 1 else pa.binary()
        if self.kind in _BYTES or self.kind in _GEOMETRIES:
            return pa.binary()
        if self.kind in _TEXTS:
            return pa.string()
        if self.kind in _SIMPLE:
            return _SIMPLE[self.kind]
        kind = f"{self.kind}({self.precision},{self.scale})" if self.kind == "decimal" else self.kind
        raise _refused(self.name, f"has the type {kind}, which DMS does not support")

    @property
    def field(self) -> pa.Field:
        """The Arrow field. Its metadata has the length of a `CHAR`, for DMS's padding."""
        length = {CHAR_LENGTH: str(self.length).encode()} if self.kind == "char" else None
        return pa.field(self.name, self.arrow_type, metadata=length)

    @property
    def is_lob(self) -> bool:
        """Whether the column is a large object to DMS."""
        return self.kind in _LOBS

    def selected(self, values: Sequence[Any]) -> pa.Array:
        """Convert values of a `select_expression`, as PyMySQL returns them."""
        return _array(self, _FROM_SELECT, list(values))

    def logged(self, values: Sequence[Any]) -> pa.Array:
        """Convert values of the binlog, as the replication library returns them."""
        return _array(self, _FROM_BINLOG, list(values))


def check_table(table: TableName, columns: Iterable[MysqlColumn]) -> None:
    """Check that a table can be replicated: its name can be a folder's name, and its columns are supported.

    Raises:
        ConfigurationError: The table is not supported; the error names the table and the column.
    """
    check_folder_name(table)
    try:
        check_readable(columns)
    except ConfigurationError as error:
        raise ConfigurationError(error.message, remedy=error.remedy, table=table, **error.details) from error


def check_readable(columns: Iterable[MysqlColumn]) -> None:
    """Check that every column can be replicated, by full load and from the binlog.

    Raises:
        ConfigurationError: A column is not supported; the message names it and the reason.
    """
    for column in columns:
        _ = column.arrow_type
        if column.charset and column.charset not in READABLE_CHARSETS:
            raise _refused(column.name, f"has the character set {column.charset}")
        # The library decodes an enum's values in a table map as UTF-8, and drops the values that are not.
        if column.charset == "latin1" and not all(member and member.isascii() for member in column.members):
            raise _refused(column.name, "has values other than ASCII and the character set latin1")


def select_expression(column: MysqlColumn) -> str:
    """SQL expression that selects a column's exact value."""
    name = quoted_identifier(column.name)
    # Otherwise MySQL rounds a FLOAT to six digits and a DOUBLE(10,2) to two decimals; the binlog has all digits.
    return f"{name} + 0e0" if column.kind in {"float", "double"} else name


def quoted_identifier(name: str) -> str:
    """An SQL identifier, quoted and escaped."""
    return "`" + name.replace("`", "``") + "`"


def time_text(value: timedelta, fraction_digits: int) -> str:
    """A TIME as MySQL formats it.

    Example:
        >>> time_text(timedelta(hours=-101, seconds=-2.5), 3)
        '-101:00:02.500'
    """
    microseconds = value // timedelta(microseconds=1)
    seconds, fraction = divmod(abs(microseconds), 1_000_000)
    text = f"{'-' if microseconds < 0 else ''}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:06d}"[: len(text) + 1 + fraction_digits] if fraction_digits else text


def _array(column: MysqlColumn, readers: Mapping[str, _Reader], values: list[Any]) -> pa.Array:
    reader = readers.get(column.kind)
    if reader is not None:
        values = [None if value is None else reader(value, column) for value in values]
    elif column.arrow_type == pa.binary():
        values = [value.encode() if isinstance(value, str) else value for value in values]  # an empty value is a str
    return pa.array(values, column.arrow_type)


_Reader = Callable[[Any, MysqlColumn], Any]


def _selected_bits(value: bytes, column: MysqlColumn) -> bool | bytes:
    return value != b"\x00" if column.length == 1 else value


def _logged_bits(value: str, column: MysqlColumn) -> bool | bytes:
    """Convert a text of ones and zeros."""
    return value == "1" if column.length == 1 else int(value, 2).to_bytes(-(-column.length // 8), "big")


def _selected_date(value: date | str, _: MysqlColumn) -> date | None:
    """PyMySQL returns an invalid date, such as 0000-00-00, as text."""
    return None if isinstance(value, str) else value


def _logged_timestamp(value: datetime, _: MysqlColumn) -> datetime | None:
    return None if value == _NO_TIMESTAMP else value


def _logged_year(value: int, _: MysqlColumn) -> int:
    return 0 if value == _NO_YEAR else value


def _logged_time(value: timedelta, column: MysqlColumn) -> str:
    """Format a time, and correct a negative one with a fraction.

    MySQL stores such a time as the next lower whole second plus a fraction, which the library subtracts instead of
    adding; see "TIME encoding for fractional part" in MySQL's `my_time.cc`.
    """
    if value < timedelta():
        whole, fraction = divmod(-value, timedelta(seconds=1))
        if fraction:
            value = -(timedelta(seconds=whole + 1) - fraction)
    return time_text(value, column.fraction_digits)


def _selected_time(value: timedelta | str, column: MysqlColumn) -> str:
    return value if isinstance(value, str) else time_text(value, column.fraction_digits)


def _logged_set(value: set[str], column: MysqlColumn) -> str:
    return ",".join(member for member in column.members if member in value)


def _padded_bytes(value: bytes | str, column: MysqlColumn) -> bytes:
    """Restore the trailing zeros of a BINARY, which the binlog leaves out."""
    return (value.encode() if isinstance(value, str) else value).ljust(column.length, b"\x00")


def _logged_json(value: Any, _: MysqlColumn) -> str:  # noqa: ANN401 - JSON of any kind
    """Format a document as MySQL does. MariaDB's JSON is already text."""
    return value if isinstance(value, str) else json.dumps(_without_bytes(value), ensure_ascii=False)


def _without_bytes(value: Any) -> Any:  # noqa: ANN401 - JSON of any kind
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, dict):
        return {_without_bytes(name): _without_bytes(item) for name, item in value.items()}
    return [_without_bytes(item) for item in value] if isinstance(value, list) else value


_FROM_SELECT: Mapping[str, _Reader] = {
    "bit": _selected_bits,
    "date": _selected_date,
    "datetime": _selected_date,
    "timestamp": _selected_date,
    "time": _selected_time,
}
_FROM_BINLOG: Mapping[str, _Reader] = {
    "bit": _logged_bits,
    "timestamp": _logged_timestamp,
    "time": _logged_time,
    "year": _logged_year,
    "set": _logged_set,
    "binary": _padded_bytes,
    "json": _logged_json,
}


def _refused(column: str, reason: str) -> ConfigurationError:
    message = f"Column {column} of the source {reason}"
    return ConfigurationError(message, remedy="Leave its table out, or change the column at the source", column=column)
