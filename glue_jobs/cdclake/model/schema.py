"""Columns of a table: their types, and how to declare them.

Types have the names that Spark and Athena use: `boolean`, `tinyint`, `smallint`, `int`, `bigint`, `float`, `double`,
`decimal(p,s)`, `string`, `binary`, `date`, `timestamp`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

OP_COLUMN = "Op"
INSERT, UPDATE, DELETE = "I", "U", "D"
"""Values of `Op`."""
BEFORE_PREFIX = "BI_"
ADDED_PREFIXES = ("AR_H_", BEFORE_PREFIX)
"""Prefixes of columns that DMS's mapping rules add."""
UNTYPED = "null"
"""Stands for the type of a column of raw files or input rows that has none, because all its values are null."""
INTEGER_TYPES = ("tinyint", "smallint", "int", "bigint")
_PLAIN_TYPES = frozenset({*INTEGER_TYPES, "boolean", "float", "double", "string", "binary", "date", "timestamp"})
_ALIASES = {
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "bool": "boolean",
    "text": "string",
    "datetime": "timestamp",
    "numeric": "decimal(10,0)",
    "decimal": "decimal(10,0)",
}
_DECIMAL = re.compile(r"(?:decimal|numeric)\((\d+),(\d+)\)")
_LENGTH = re.compile(r"(?:var)?char\(\d+\)")
MAX_DECIMAL_PRECISION = 38
_PARTS = re.compile(r"((?:`[^`]*`|\([^()]*\)|[^,])*),", re.DOTALL)
"""A column of the Schema attribute up to the comma that ends it: one neither in a quoted name nor in parentheses."""
_PART = re.compile(r"\s*(`(?:[^`]|``)+`|[^\s`]+)\s+(.+?)\s*", re.DOTALL)
_PLAIN_NAME = re.compile(r"[^\s`,()]+")


@dataclass(frozen=True)
class Column:
    """One column: its name in the source's spelling, and its type."""

    name: str
    type: str


@dataclass(frozen=True)
class Schema:
    """Columns in order. Lookups ignore case, as in Spark and Athena."""

    columns: tuple[Column, ...] = ()

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def names(self) -> list[str]:
        """Column names in order."""
        return [column.name for column in self.columns]

    def find(self, name: str) -> Column | None:
        """The column of a name, ignoring case; None if there is none."""
        return self._by_name.get(name.lower())

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name.lower(): column for column in reversed(self.columns)}

    def spelled(self, names: Iterable[str]) -> tuple[str, ...]:
        """Column names in the spelling of this schema; a name without a column stays as it is."""
        return tuple(column.name if (column := self.find(name)) else name for name in names)

    def to_json(self) -> list[list[str]]:
        """`[[name, type], ...]`."""
        return [[c.name, c.type] for c in self.columns]

    @property
    def declaration(self) -> str:
        """The text of the Schema attribute, see `parse_columns`."""
        return ", ".join(f"{_quoted(column.name)} {column.type}" for column in self)

    @classmethod
    def from_json(cls, columns: list[list[str]]) -> Schema:
        """Inverse of `to_json`."""
        return cls(tuple(Column(name, kind) for name, kind in columns))


def parse_type(text: str) -> str:
    """Normalize the spelling of a type.

    Raises:
        ConfigurationError: The type is unknown.
    """
    compact = re.sub(r"\s+", "", text).lower()
    compact = _ALIASES.get(compact, compact)
    if _LENGTH.fullmatch(compact):
        return "string"
    decimal = _DECIMAL.fullmatch(compact)
    if decimal:
        precision, scale = int(decimal[1]), int(decimal[2])
        if 0 < precision <= MAX_DECIMAL_PRECISION and scale <= precision:
            return f"decimal({precision},{scale})"
    elif compact in _PLAIN_TYPES:
        return compact
    message = f"'{text.strip()}' is not a column type"
    remedy = f"Use one of {', '.join(sorted(_PLAIN_TYPES))}, decimal(p,s) or varchar(n)"
    raise ConfigurationError(message, remedy=remedy)


def parse_columns(text: str) -> Schema:
    """Read `id int, fullname string, price decimal(10,2)`.

    A name with a space, comma or parenthesis is between backquotes, and a backquote in it is doubled, as in Spark.

    Raises:
        ConfigurationError: A part is not `name type`, or a name occurs twice.
    """
    columns = []
    for part in _PARTS.findall(f"{text},"):
        match = _PART.fullmatch(part)
        if not match:
            message = f"'{part.strip()}' in Schema is not a column name and a type"
            remedy = "Write it as in: id int, name string, `odd, name` string"
            raise ConfigurationError(message, remedy=remedy)
        name = match[1][1:-1].replace("``", "`") if match[1].startswith("`") else match[1]
        columns.append(Column(name, parse_type(match[2])))
    schema = Schema(tuple(columns))
    if len({name.lower() for name in schema.names}) != len(columns):
        raise ConfigurationError("Schema names a column twice", remedy="Correct the Schema attribute")
    return schema


def _quoted(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def decimal_parts(kind: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal type; None for other types."""
    match = _DECIMAL.fullmatch(kind)
    return (int(match[1]), int(match[2])) if match else None
