"""Converts values of PostgreSQL columns to the Arrow types that AWS DMS delivers.

The types are those of the DMS user guide ("Source data types for PostgreSQL": `NUMERIC` up to 38 digits is NUMERIC and
STRING beyond, `MONEY` NUMERIC(38,4), `BOOLEAN` the text `true` or `false`, `TIMESTAMP WITH TIME ZONE` DATETIME, `UUID`
STRING, `JSONB`, arrays and composites NCLOB, ...), as DMS writes them to Parquet.

All values arrive as PostgreSQL's text, from a SELECT and from the log alike, so both produce the same result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.devkit.dms.files import CHAR_LENGTH

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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


DEFAULT_MAPPING = TypeMapping()


@dataclass(frozen=True)
class PostgresColumn:
    """A column of a source table.

    Attributes:
        kind: PostgreSQL's name of the type, without modifiers: `character varying`, `integer[]`, `shop.mood`. For a
            domain, the name of its base type.
        declared: The name of the type as declared: that of the domain, if it is one.
        precision: Precision of a numeric; 0 if it has none.
        scale: Scale of a numeric.
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

    def converted(text: str) -> Decimal | None:
        value = Decimal(text)
        return value.quantize(unit, context=context) if value.is_finite() else None

    return pa.array([None if text is None else converted(text) for text in values], kind)


def _booleans(column: PostgresColumn, values: Sequence[str | None]) -> pa.Array:
    return pa.array(values, pa.string()).cast(column.arrow_type)


def _bytes(_: PostgresColumn, values: Sequence[str | None]) -> pa.Array:
    return pa.array([None if text is None else bytes.fromhex(text[2:]) for text in values], pa.binary())


def _characters(_: PostgresColumn, values: Sequence[str | None]) -> pa.Array:
    """Without the padding, which is not part of a value."""
    return pc.ascii_rtrim(pa.array(values, pa.string()), " ")


_COMMON_ERA = re.compile(r"\d{4}-[^B]*")
"""Times of the years 1 to 9999, and not `infinity`."""


def _times(column: PostgresColumn, values: Sequence[str | None]) -> pa.Array:
    representable = [text if text is not None and _COMMON_ERA.fullmatch(text) else None for text in values]
    texts = pa.array(representable, pa.string())
    if column.kind == "timestamp with time zone":
        texts = pc.replace_substring_regex(texts, r"\+00$", "")
    kind = column.arrow_type
    return texts.cast(kind if kind == pa.date32() else pa.timestamp("us")).cast(kind)


_CONVERTERS: Mapping[str, Callable[[PostgresColumn, Sequence[Any]], pa.Array]] = {
    "numeric": _numerics,
    "boolean": _booleans,
    "bytea": _bytes,
    "character": _characters,
    "date": _times,
    "timestamp without time zone": _times,
    "timestamp with time zone": _times,
}
