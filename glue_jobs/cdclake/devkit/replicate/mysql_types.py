"""Columns of MySQL and MariaDB as AWS DMS delivers them: which Arrow type, and how values become it.

The types are those of the DMS user guide ("Source data types for MySQL": `TINYINT` is INT1, `BIT` BOOLEAN, `FLOAT`
REAL8, `TIME` STRING, `YEAR` INT2, `JSON` NCLOB, ...), whose unsigned variants are UINT1 to UINT8, and what DMS makes of
those in Parquet. So `tinyint(1)` is a number, and of `DATETIME` and `TIMESTAMP`, which Parquet cannot tell apart, the
first is taken as it stands and the second is in UTC. A zero date is null, as DMS has it.

A value comes in one of two ways, from a SELECT or from the binlog, and both must give the same. What a binlog has no
room for, a library reads otherwise or DMS does not deliver is refused by name, when the replication starts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Callable

import pyarrow as pa

from cdclake.devkit.dms.files import CHAR_LENGTH
from cdclake.devkit.dms.names import can_be_folder
from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cdclake.model.table import TableName

MOST_DIGITS = 38
"""Of a DMS NUMERIC, and of Arrow's and Parquet's usual decimals."""

READABLE_CHARSETS = frozenset({"utf8", "utf8mb3", "utf8mb4", "ascii", "latin1"})
"""Character sets of columns that a binlog is read in as the server means it."""

_INTEGERS = {
    "tinyint": (pa.int8(), pa.uint8()),
    "smallint": (pa.int16(), pa.uint16()),
    "mediumint": (pa.int32(), pa.uint32()),
    "int": (pa.int32(), pa.uint32()),
    "bigint": (pa.int64(), pa.uint64()),
}
_TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json"})
_BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_SHAPES = frozenset(
    {"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"}
    | {"geometrycollection", "geomcollection"}
)
_MOMENT = pa.timestamp("us", tz="UTC")
_SIMPLE = {
    "float": pa.float64(),
    "double": pa.float64(),
    "date": pa.date32(),
    "datetime": _MOMENT,
    "timestamp": _MOMENT,
    "time": pa.string(),
    "year": pa.int16(),
}
_NO_TIMESTAMP = datetime(1970, 1, 1)  # noqa: DTZ001 - the library's zone is UTC
"""Second 0 is no value of a TIMESTAMP column: it is how the zero date is stored."""
_NO_YEAR = 1900
"""A YEAR is stored as what it is after 1900, and the year 0000 as 0, which the library takes for 1900."""


@dataclass(frozen=True)
class SourceColumn:
    """A column of a source table, from `information_schema` or from a table map of the binlog.

    Attributes:
        kind: MySQL's name of the type, lower case, without length: `varchar`, `bigint`.
        precision: Digits of a decimal.
        scale: Digits behind its point.
        length: Bits of a `bit`, bytes of a `binary`, characters of a `char`; 0 for others.
        fraction_digits: Of the seconds of a time.
        charset: Character set of text; empty for others.
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
        """The type DMS gives it.

        Raises:
            ConfigurationError: It has none.
        """
        if self.kind in _INTEGERS:
            return _INTEGERS[self.kind][self.unsigned]
        if self.kind == "decimal" and self.precision <= MOST_DIGITS:
            return pa.decimal128(self.precision, self.scale)
        if self.kind == "bit":
            return pa.bool_() if self.length == 1 else pa.binary()
        if self.kind in _BYTES or self.kind in _SHAPES:
            return pa.binary()
        if self.kind in _TEXTS:
            return pa.string()
        if self.kind in _SIMPLE:
            return _SIMPLE[self.kind]
        what = f"{self.kind}({self.precision},{self.scale})" if self.kind == "decimal" else self.kind
        raise _refused(self.name, f"has the type {what}, which DMS does not deliver")

    @property
    def field(self) -> pa.Field:
        """As a field of an Arrow schema. The length of a `CHAR` goes with it, for DMS's padding."""
        length = {CHAR_LENGTH: str(self.length).encode()} if self.kind == "char" else None
        return pa.field(self.name, self.arrow_type, metadata=length)


def check_table(table: TableName, columns: Iterable[SourceColumn]) -> None:
    """See that a table can be delivered: that its name can be a folder's, and its columns can be read.

    Raises:
        ConfigurationError: Names the table, and the column if one is at fault.
    """
    if not (can_be_folder(table.schema) and can_be_folder(table.table)):
        message = "The source has a table whose name cannot be that of a folder"
        raise ConfigurationError(message, remedy="Leave it out, or rename it at the source", table=table)
    try:
        check_readable(columns)
    except ConfigurationError as error:
        raise ConfigurationError(error.message, remedy=error.remedy, table=table, **error.details) from error


def check_readable(columns: Iterable[SourceColumn]) -> None:
    """See that every column can be delivered, from a full load and from the binlog.

    Raises:
        ConfigurationError: Names the column and says why not.
    """
    for column in columns:
        _ = column.arrow_type
        if column.charset and column.charset not in READABLE_CHARSETS:
            raise _refused(column.name, f"has the character set {column.charset}")
        # Of a table map's values of an enum, the library reads UTF-8 alone, and leaves out what is none.
        if column.charset == "latin1" and not all(member and member.isascii() for member in column.members):
            raise _refused(column.name, "has values other than ASCII and the character set latin1")


def schema_of(columns: Iterable[SourceColumn]) -> pa.Schema:
    """Arrow schema of columns, in order."""
    return pa.schema([column.field for column in columns])


def selected(columns: Sequence[SourceColumn], rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Rows of a SELECT as Arrow.

    Args:
        columns: What was selected, by `selector` each.
        rows: Values as PyMySQL gives them.
    """
    values = zip(*rows) if rows else ([] for _ in columns)
    arrays = [_array(column, _FROM_SELECT, list(of_column)) for column, of_column in zip(columns, values, strict=True)]
    return pa.table(arrays, schema=schema_of(columns))


def logged(columns: Sequence[SourceColumn], rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows of the binlog as Arrow.

    Args:
        columns: As the table map of the rows has them.
        rows: Values by column as the replication library gives them.
    """
    arrays = [_array(column, _FROM_BINLOG, [row[column.name] for row in rows]) for column in columns]
    return pa.table(arrays, schema=schema_of(columns))


def selector(column: SourceColumn) -> str:
    """SQL expression that selects a column's exact value."""
    name = quoted(column.name)
    # A FLOAT is printed with six digits, a DOUBLE(10,2) with two behind the point, and the binlog has all of either.
    return f"{name} + 0e0" if column.kind in {"float", "double"} else name


def quoted(name: str) -> str:
    """A name as SQL has it, whatever characters are in it."""
    return "`" + name.replace("`", "``") + "`"


def time_text(value: timedelta, fraction_digits: int) -> str:
    """A TIME as MySQL writes it.

    Example:
        >>> time_text(timedelta(hours=-101, seconds=-2.5), 3)
        '-101:00:02.500'
    """
    microseconds = value // timedelta(microseconds=1)
    seconds, fraction = divmod(abs(microseconds), 1_000_000)
    text = f"{'-' if microseconds < 0 else ''}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:06d}"[: len(text) + 1 + fraction_digits] if fraction_digits else text


def _array(column: SourceColumn, readers: Mapping[str, _Reader], values: list[Any]) -> pa.Array:
    reader = readers.get(column.kind)
    if reader is not None:
        values = [None if value is None else reader(value, column) for value in values]
    elif column.arrow_type == pa.binary():
        values = [value.encode() if isinstance(value, str) else value for value in values]  # the empty value
    return pa.array(values, column.arrow_type)


_Reader = Callable[[Any, SourceColumn], Any]


def _selected_bits(value: bytes, column: SourceColumn) -> bool | bytes:
    return value != b"\x00" if column.length == 1 else value


def _logged_bits(value: str, column: SourceColumn) -> bool | bytes:
    """From a text of ones and zeros."""
    return value == "1" if column.length == 1 else int(value, 2).to_bytes(-(-column.length // 8), "big")


def _selected_date(value: date | str, _: SourceColumn) -> date | None:
    """PyMySQL leaves a date as text if it is none, such as 0000-00-00."""
    return None if isinstance(value, str) else value


def _logged_timestamp(value: datetime, _: SourceColumn) -> datetime | None:
    return None if value == _NO_TIMESTAMP else value


def _logged_year(value: int, _: SourceColumn) -> int:
    return 0 if value == _NO_YEAR else value


def _logged_time(value: timedelta, column: SourceColumn) -> str:
    """As text. A negative time with a fraction is stored as the next whole second below and the rest of a second.

    The library subtracts that rest from that second where it had to be added; see "TIME encoding for fractional part"
    in MySQL's `my_time.cc`.
    """
    if value < timedelta():
        whole, rest = divmod(-value, timedelta(seconds=1))
        if rest:
            value = -(timedelta(seconds=whole + 1) - rest)
    return time_text(value, column.fraction_digits)


def _selected_time(value: timedelta | str, column: SourceColumn) -> str:
    return value if isinstance(value, str) else time_text(value, column.fraction_digits)


def _logged_set(value: set[str], column: SourceColumn) -> str:
    return ",".join(member for member in column.members if member in value)


def _padded_bytes(value: bytes | str, column: SourceColumn) -> bytes:
    """The binlog leaves out the zeros at the end of a BINARY."""
    return (value.encode() if isinstance(value, str) else value).ljust(column.length, b"\x00")


def _logged_json(value: Any, _: SourceColumn) -> str:  # noqa: ANN401 - JSON of any kind
    """As MySQL writes a document out. MariaDB's JSON is text and no matter of this."""
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


def _refused(column: str, why: str) -> ConfigurationError:
    message = f"Column {column} of the source {why}"
    return ConfigurationError(message, remedy="Leave its table out, or change the column at the source", column=column)
