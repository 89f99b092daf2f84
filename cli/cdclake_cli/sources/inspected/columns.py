"""Converts values of any database, as its driver returns them, to lake types. Pure.

A value is only taken as one of a type if it has exactly one meaning there. Others are refused, by the column's name:

| lake type | values in Python |
| --- | --- |
| integers | `int` |
| decimal | `Decimal` and `int`; `float` up to 15 digits, which name one double and are named by it |
| double, float | `float`, a float's without more digits than it has |
| boolean | `bool`; 0 and 1 |
| string | `str`, of a CHAR without the blanks that pad it |
| binary | `bytes` |
| date | `date`; in SQLite, text such as `2024-03-05` |
| timestamp | `datetime`, as if in UTC, or converted to UTC if it has a zone; in SQLite, such text |
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from functools import partial
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.errors import ConfigurationError
from cdclake.lake.storage.types import to_arrow
from cdclake.model.schema import INTEGER_TYPES, MAX_DECIMAL_PRECISION, decimal_parts
from cdclake_cli.sources.inspected.catalog import sent_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SENT_BY_DMS = ("oracle", "mssql")
"""Dialects whose types the DMS user guide maps. Elsewhere a type tells what a value is, not its width in the lake."""
_UNSURE = {
    "oracle": {"DOUBLE_PRECISION", "REAL"},  # numbers with more digits than a double
    "mysql": {"TIMESTAMP", "FLOAT", "SET"},  # in the session's zone, rounded, of the driver's own kind
    "mariadb": {"TIMESTAMP", "FLOAT", "SET"},
}
_PADDED = ("CHAR", "NCHAR")
_DOUBLES = ("DOUBLE", "DOUBLE_PRECISION")
_EXACT_DIGITS = 15
"""Decimal digits that a double keeps: `DBL_DIG` of C."""
_TOO_FINE = re.compile(r"\.\d{7}")


@dataclass(frozen=True)
class InspectedColumn:
    """A column of a source table. `SourceColumn` describes the attributes and methods.

    Attributes:
        declared: Its type, in the source's words.
        kind: The lake type that its values are compared as; None if they cannot be compared exactly.
        is_padded: Whether the database pads values with blanks, which are no part of them.
    """

    name: str
    declared: str
    kind: str | None
    is_padded: bool = False

    @property
    def field(self) -> pa.Field:
        """The Arrow field.

        Raises:
            ConfigurationError: The values cannot be compared exactly.
        """
        if self.kind is None:
            message = f"Column {self.name} of the source has the type {self.declared}, which cannot be compared exactly"
            remedy = "Exclude the column (ColumnPolicy), or compare counts (--count)"
            raise ConfigurationError(message, remedy=remedy, column=self.name)
        return pa.field(self.name, to_arrow(self.kind))

    @property
    def is_lob(self) -> bool:
        """Unknown, and only asked for to replicate."""
        return False

    def selected(self, values: Sequence[Any]) -> pa.Array:
        """Convert values.

        Raises:
            ConfigurationError: A value has no exact meaning as one of the type.
        """
        kind = self.field.type
        exact = _exact_values(str(self.kind))
        try:
            array = pa.array([None if value is None else exact(value) for value in values], kind)
        except (pa.ArrowInvalid, ArithmeticError, TypeError, ValueError) as error:
            kinds = {type(value).__name__ for value in values if value is not None}
            message = f"Column {self.name} of the source has a value that is no exact {self.kind}"
            remedy = f"The driver returns {', '.join(sorted(kinds))}. Exclude the column (ColumnPolicy), or use --count"
            raise ConfigurationError(message, remedy=remedy, column=self.name) from error
        return pc.ascii_rtrim(array, " ") if self.is_padded else array

    logged = selected


def comparable_type(kind: Any, dialect: str) -> str | None:  # noqa: ANN401 - SQLAlchemy's types have no common attributes
    """The lake type that values of a type are compared as; None if they cannot be compared exactly.

    Args:
        kind: A type of SQLAlchemy.
        dialect: SQLAlchemy's name of the database.
    """
    from sqlalchemy import types

    name = type(kind).__name__.upper()
    if name in _UNSURE.get(dialect, ()):
        return None
    if dialect in SENT_BY_DMS:
        sent = sent_type(kind, dialect)
        return sent if sent != "string" or isinstance(kind, types.String) else None
    if isinstance(kind, types.Float):
        is_whole = dialect == "sqlite" or (name in _DOUBLES and getattr(kind, "scale", None) is None)
        return "double" if is_whole else None
    if isinstance(kind, types.Numeric):
        precision, scale = kind.precision or 0, kind.scale or 0
        fits = 0 <= scale <= precision <= MAX_DECIMAL_PRECISION and precision
        return f"decimal({precision},{scale})" if fits else None
    if isinstance(kind, types.Integer):
        return "decimal(20,0)" if getattr(kind, "unsigned", False) else "bigint"
    return next((lake for generic, lake in _generic() if isinstance(kind, generic)), None)


def inspected_column(name: str, kind: Any, dialect: str) -> InspectedColumn:  # noqa: ANN401 - as above
    """The column that SQLAlchemy reflects."""
    is_padded = type(kind).__name__.upper() in _PADDED and dialect != "sqlite"
    return InspectedColumn(name, str(kind), comparable_type(kind, dialect), is_padded)


def _generic() -> Sequence[tuple[type, str]]:
    from sqlalchemy import types

    return (
        (types.Boolean, "boolean"),
        (types.String, "string"),
        (types.LargeBinary, "binary"),
        (types.BINARY, "binary"),
        (types.VARBINARY, "binary"),
        (types.DateTime, "timestamp"),
        (types.Date, "date"),
    )


def _exact_values(kind: str) -> Callable[[Any], Any]:
    """Takes a value that is not null, and returns it for Arrow; raises TypeError or ValueError if it is not exact."""
    decimal = decimal_parts(kind)
    if decimal:
        return _short_decimal if decimal[0] <= _EXACT_DIGITS else _decimal
    return partial(_only, int) if kind in INTEGER_TYPES else _EXACT[kind]


def _only(kind: type, value: Any) -> Any:  # noqa: ANN401 - of this type
    if type(value) is not kind:
        message = f"{type(value).__name__} instead of {kind.__name__}"
        raise TypeError(message)
    return value


def _decimal(value: object) -> Any:  # noqa: ANN401 - a decimal
    return Decimal(value) if type(value) is int else _only(Decimal, value)


def _short_decimal(value: object) -> Any:  # noqa: ANN401 - a decimal
    return Decimal(repr(value)) if type(value) is float else _decimal(value)


def _float(value: object) -> Any:  # noqa: ANN401 - a float
    number = _only(float, value)
    with np.errstate(over="ignore"):
        single = float(np.float32(number))
    if single != number and not isnan(number):
        message = "more digits than a float has"
        raise ValueError(message)
    return number


def _boolean(value: object) -> bool:
    if value not in (0, 1) or not isinstance(value, int):
        message = "neither 0 nor 1"
        raise ValueError(message)
    return bool(value)


def _bytes(value: Any) -> bytes:  # noqa: ANN401 - whatever the driver returns
    if not isinstance(value, (bytes, bytearray, memoryview)):
        message = f"{type(value).__name__} instead of bytes"
        raise TypeError(message)
    return bytes(value)


def _date(value: object) -> Any:  # noqa: ANN401 - a date
    return date.fromisoformat(value) if isinstance(value, str) else _only(date, value)


def _timestamp(value: object) -> datetime:
    if isinstance(value, str):
        if _TOO_FINE.search(value):
            message = "finer than microseconds"
            raise ValueError(message)
        value = datetime.fromisoformat(value)
    if not isinstance(value, datetime):
        message = f"{type(value).__name__} instead of datetime"
        raise TypeError(message)
    return value.astimezone(timezone.utc) if value.tzinfo else value.replace(tzinfo=timezone.utc)


_EXACT: dict[str, Callable[[Any], Any]] = {
    "boolean": _boolean,
    "float": _float,
    "double": partial(_only, float),
    "string": partial(_only, str),
    "binary": _bytes,
    "date": _date,
    "timestamp": _timestamp,
}
