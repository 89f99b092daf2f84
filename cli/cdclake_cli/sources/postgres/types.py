"""Converts values of PostgreSQL columns to the Arrow types that AWS DMS delivers.

The types are as in the DMS user guide ("Source data types for PostgreSQL": `NUMERIC` up to 38 digits is NUMERIC and
STRING beyond, `MONEY` NUMERIC(38,4), `BOOLEAN` the text `true` or `false`, `TIMESTAMP WITH TIME ZONE` DATETIME, `UUID`
STRING, `JSONB`, arrays and composites NCLOB, ...), as DMS writes them to Parquet.

All values arrive as PostgreSQL's text, from a SELECT and from the log alike, so both produce the same result. What a
type cannot represent is null, and logged: infinite and BC dates, years from 10000 on, the time 24:00, and the NaN and
infinities of a NUMERIC.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.errors import ConfigurationError
from cdclake_cli.dms.files import CHAR_LENGTH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from cdclake_cli.dms.settings import DmsSettings

logger = logging.getLogger(__name__)

MAX_DIGITS = 38
"""Maximum precision of a DMS NUMERIC, and of 128-bit decimals in Arrow and Parquet."""
UNBOUNDED = (28, 6)
"""Precision and scale that DMS gives a NUMERIC without precision."""

_TIMESTAMP = pa.timestamp("us", tz="UTC")
_SIMPLE = {
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "oid": pa.int64(),
    "real": pa.float32(),
    "double precision": pa.float64(),
    "money": pa.decimal128(MAX_DIGITS, 4),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "timestamp without time zone": _TIMESTAMP,
    "timestamp with time zone": _TIMESTAMP,
    "time without time zone": pa.time64("us"),
    "time with time zone": pa.time64("us"),
}
_COMMON_ERA = re.compile(r"\d{4}-[^B]*")
"""Dates and times of the years 1 to 9999, not `infinity`."""
_TIME = re.compile(r"(\d\d):(\d\d):([\d.]+)(?:([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?)?")
_DAY_MICROSECONDS = 86_400_000_000
_LOBS = frozenset(
    {"text", "citext", "bytea", "json", "jsonb", "xml", "tsvector", "tsquery", "path", "polygon", "hstore"}
)


@dataclass(frozen=True)
class TypeMapping:
    """Settings that change how DMS converts types.

    Attributes:
        boolean_as_boolean: `MapBooleanAsBoolean`: otherwise a boolean is the text `true` or `false`.
        unbounded_numeric_as_string: `MapUnboundedNumericAsString`: otherwise a NUMERIC without precision is rounded to
            six decimals.
    """

    boolean_as_boolean: bool = False
    unbounded_numeric_as_string: bool = False

    @classmethod
    def from_settings(cls, settings: DmsSettings) -> TypeMapping:
        """The mapping that the settings of a DMS task describe."""
        return cls(settings.map_boolean_as_boolean, settings.map_unbounded_numeric_as_string)


DEFAULT_MAPPING = TypeMapping()


@dataclass(frozen=True)
class PostgresColumn:
    """A column of a source table.

    Attributes:
        kind: PostgreSQL's name of the type, without modifiers: `character varying`, `integer[]`, `shop.mood`. For a
            domain, the name of its base type.
        declared: The name of the type as declared: the domain's, if it is one.
        precision: Precision of a numeric; 0 if it has none.
        scale: Scale of a numeric, or decimals of the database's money.
        length: Characters of a `character(n)`; 0 for other types.
        is_composite: Whether values are rows.
    """

    name: str
    kind: str
    declared: str = ""
    precision: int = 0
    scale: int = 0
    length: int = 0
    is_composite: bool = False
    mapping: TypeMapping = DEFAULT_MAPPING

    @property
    def arrow_type(self) -> pa.DataType:
        """The type that DMS converts the column to."""
        if self.kind == "numeric":
            return self._numeric_type()
        if self.kind == "boolean":
            return pa.bool_() if self.mapping.boolean_as_boolean else pa.string()
        return _SIMPLE.get(self.kind, pa.string())

    @property
    def field(self) -> pa.Field:
        """The Arrow field. Its metadata has the length of a `CHAR`, for DMS's padding."""
        length = {CHAR_LENGTH: str(self.length).encode()} if self.length else None
        return pa.field(self.name, self.arrow_type, metadata=length)

    @property
    def is_lob(self) -> bool:
        """Whether the column is a large object to DMS."""
        return self.is_composite or self.kind in _LOBS or self.kind.endswith("[]")

    def selected(self, values: Sequence[str | None]) -> pa.Array:
        """Convert values in PostgreSQL's text form."""
        converter = _CONVERTERS.get(self.kind)
        return converter(self, values) if converter else pa.array(values, pa.string()).cast(self.arrow_type)

    logged = selected

    def _numeric_type(self) -> pa.DataType:
        if not self.precision:
            return pa.string() if self.mapping.unbounded_numeric_as_string else pa.decimal128(*UNBOUNDED)
        if self.precision > MAX_DIGITS:
            return pa.string()
        # Since PostgreSQL 15 a scale may be negative or greater than the precision.
        precision = max(self.precision - min(self.scale, 0), self.scale)
        return pa.decimal128(precision, max(self.scale, 0)) if precision <= MAX_DIGITS else pa.string()


def _numerics(column: PostgresColumn, values: Sequence[str | None]) -> pa.Array:
    kind = column.arrow_type
    if not pa.types.is_decimal(kind):
        return pa.array(values, kind)
    unit, context = Decimal(1).scaleb(-kind.scale), Context(prec=kind.precision, rounding=ROUND_HALF_UP)
    try:
        rounded = [None if text is None else Decimal(text).quantize(unit, context=context) for text in _finite(values)]
    except InvalidOperation as error:
        message = f"Column {column.name} of the source has a number that is too large for DMS's NUMERIC{UNBOUNDED}"
        remedy = "Set MapUnboundedNumericAsString to true, or declare the column's precision at the source"
        raise ConfigurationError(message, remedy=remedy, column=column.name) from error
    return _reported(column, values, pa.array(rounded, kind))


def _finite(values: Sequence[str | None]) -> Iterator[str | None]:
    return (text if text is None or text[-1].isdigit() else None for text in values)


def _moneys(column: PostgresColumn, values: Sequence[str | None]) -> pa.Array:
    """Read amounts in any locale's form: `-$1,234.50`, `($1,234.50)`, `1.234,50 €`."""

    def converted(text: str) -> Decimal:
        amount = Decimal("".join(filter(str.isdecimal, text))).scaleb(-column.scale)
        return -amount if "-" in text or "(" in text else amount

    return pa.array([None if text is None else converted(text) for text in values], column.arrow_type)


def _booleans(column: PostgresColumn, values: Sequence[str | None]) -> pa.Array:
    """Read `true` and `false`, or `t` and `f`, as the log has values of domains."""
    return pa.array([None if text is None else text[0] == "t" for text in values], pa.bool_()).cast(column.arrow_type)


def _bytes(_: PostgresColumn, values: Sequence[str | None]) -> pa.Array:
    return pa.array([None if text is None else bytes.fromhex(text[2:]) for text in values], pa.binary())


def _characters(_: PostgresColumn, values: Sequence[str | None]) -> pa.Array:
    """Without the padding, which is not part of a value."""
    return pc.ascii_rtrim(pa.array(values, pa.string()), " ")


def _timestamps(column: PostgresColumn, values: Sequence[str | None]) -> pa.Array:
    texts = pa.array([text if text is None or _COMMON_ERA.fullmatch(text) else None for text in values], pa.string())
    kind = column.arrow_type
    naive = texts.cast(kind) if kind == pa.date32() else pc.replace_substring(texts, "+00", "").cast(pa.timestamp("us"))
    return _reported(column, values, naive.cast(kind))


def _times(column: PostgresColumn, values: Sequence[str | None]) -> pa.Array:
    times = [None if text is None else _time(text) for text in values]
    return _reported(column, values, pa.array(times, column.arrow_type))


def _time(text: str) -> int | None:
    """Microseconds of a time of day, in UTC if it has a time zone; None for 24:00."""
    match = _TIME.fullmatch(text)
    assert match is not None
    hours, minutes, seconds, sign, *offset = match.groups()
    microseconds = _microseconds(hours, minutes, seconds)
    if microseconds == _DAY_MICROSECONDS:
        return None
    shift = _microseconds(*(part or "0" for part in offset)) * (-1 if sign == "+" else 1)
    return (microseconds + shift) % _DAY_MICROSECONDS


def _microseconds(hours: str, minutes: str, seconds: str) -> int:
    return (int(hours) * 60 + int(minutes)) * 60_000_000 + int(Decimal(seconds) * 1_000_000)


def _reported(column: PostgresColumn, values: Sequence[str | None], converted: pa.Array) -> pa.Array:
    """Log it if values became null; returns the converted values."""
    lost = converted.null_count - sum(text is None for text in values)
    if lost:
        logger.warning("Column %s: %d values that its type in DMS cannot represent are null", column.name, lost)
    return converted


_CONVERTERS: Mapping[str, Callable[[PostgresColumn, Sequence[Any]], pa.Array]] = {
    "numeric": _numerics,
    "money": _moneys,
    "boolean": _booleans,
    "bytea": _bytes,
    "character": _characters,
    "date": _timestamps,
    "timestamp without time zone": _timestamps,
    "timestamp with time zone": _timestamps,
    "time without time zone": _times,
    "time with time zone": _times,
}
