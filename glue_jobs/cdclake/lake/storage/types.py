"""Maps lake types to Arrow types, and casts values to them.

The lake only has types that Spark, Athena, DuckDB and pandas all read: a Parquet TIME becomes text, an unsigned integer
the next wider signed type (uint64: decimal(20,0)), and every timestamp is UTC with microseconds. Dates and timestamps
are of the years 1 to 9999.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.errors import SchemaMismatchError
from cdclake.model.schema import INTEGER_TYPES, UNTYPED, Column, Schema, decimal_parts

TIMESTAMP = pa.timestamp("us", tz="UTC")
_DAY_MICROSECONDS = 86_400_000_000
_ANY_INTEGER = pa.decimal128(20, 0)
_TRUE = pa.array(["true", "t", "1", "y"])
_FALSE = pa.array(["false", "f", "0", "n"])
"""Booleans of MySQL, PostgreSQL and Oracle as text."""

_CONVERTIBLE = (
    frozenset({*INTEGER_TYPES, "decimal", "float", "double"}),
    frozenset({*INTEGER_TYPES, "boolean"}),
    frozenset({"date", "timestamp"}),
)
"""Types whose values convert to each other."""

_TO_ARROW = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
}
_FROM_ARROW = {
    **{kind: name for name, kind in _TO_ARROW.items()},
    pa.uint8(): "smallint",
    pa.uint16(): "int",
    pa.uint32(): "bigint",
    pa.uint64(): "decimal(20,0)",
    pa.float16(): "float",
    pa.large_string(): "string",
    pa.large_binary(): "binary",
    pa.date64(): "date",
    pa.null(): UNTYPED,
}


def to_arrow(kind: str) -> pa.DataType:
    """Arrow type of a lake type."""
    decimal = decimal_parts(kind)
    return pa.decimal128(*decimal) if decimal else _TO_ARROW[kind]


def from_arrow(kind: pa.DataType) -> str | None:
    """Lake type for a raw Arrow type, or `UNTYPED`; None if there is none (lists, structs, maps)."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})" if kind.precision <= 38 and kind.scale >= 0 else None
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_time(kind):
        return "string"
    if pa.types.is_dictionary(kind):
        return from_arrow(kind.value_type)
    if pa.types.is_fixed_size_binary(kind):
        return "binary"
    if isinstance(kind, pa.BaseExtensionType):
        return "string" if isinstance(kind, pa.UuidType) else from_arrow(kind.storage_type)
    return _FROM_ARROW.get(kind)


def is_convertible(raw: pa.DataType, kind: str) -> bool:
    """Whether values of a raw Arrow type have a meaning as a lake type, if they fit it.

    Every value has a text, and text may be of any type. Numbers are no times, because nothing says their unit.
    """
    if pa.types.is_dictionary(raw):
        return is_convertible(raw.value_type, kind)
    source = "time" if pa.types.is_time(raw) else from_arrow(raw) or ""
    if kind in (source, "string") or source in ("string", "binary", UNTYPED):
        return True
    pair = {"decimal" if decimal_parts(each) else each for each in (source, kind)}
    return any(pair <= kinds for kinds in _CONVERTIBLE)


def text_depends_on_type(kind: str) -> bool:
    """Whether a number has another text as a value of this type than as one of a narrower type: 5, 5.00."""
    return kind in {"float", "double"} or decimal_parts(kind) is not None


def has_fraction(kind: str) -> bool:
    """Whether a number of this type has several texts, of which the scale or the writer decides: 5, 5.0, 5.00."""
    parts = decimal_parts(kind)
    return kind in {"float", "double"} or (parts is not None and parts[1] > 0)


def without_negative_zero(values: pa.Array) -> pa.Array:
    """The same values, but 0.0 for -0.0."""
    return pc.add(values, pa.scalar(0, values.type)) if pa.types.is_floating(values.type) else values


def arrow_schema(schema: Schema) -> pa.Schema:
    """Arrow schema of lake columns."""
    return pa.schema([pa.field(column.name, to_arrow(column.type)) for column in schema])


def schema_of(raw: pa.Schema, file: str) -> Schema:
    """Lake columns of a raw Arrow schema.

    Raises:
        SchemaMismatchError: A column has a type that the lake does not support.
    """
    columns = []
    for field in raw:
        kind = from_arrow(field.type)
        if kind is None:
            message = f"Column {field.name} of a raw file has the type {field.type}, which cdclake does not support"
            remedy = "Remove the column with a DMS mapping rule, or send it as text"
            raise SchemaMismatchError(message, remedy=remedy, column=field.name, file=file)
        columns.append(Column(field.name, kind))
    return Schema(tuple(columns))


def within(numbers: pa.Array, first: int, last: int) -> pa.Array:
    """Whether each number is in a range that includes both ends."""
    return pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))


def cast_exactly(values: pa.Array, kind: str) -> pa.Array:
    """Cast a column to a lake type, without truncating or rounding.

    Raises:
        pa.ArrowInvalid: A value does not parse or fit, or no value of its type means something as the lake type.
    """
    target = to_arrow(kind)
    values = plain_values(values)
    source = values.type
    if source == target:
        return values
    if not is_convertible(source, kind):
        message = f"{source} does not convert to {kind}"
        raise pa.ArrowInvalid(message)
    if pa.types.is_binary(source) and not pa.types.is_binary(target):
        values = values.cast(pa.string())
        source = values.type
    if pa.types.is_string(source):
        return _parse_text(values, target)
    if pa.types.is_time(source):
        times = values.cast(pa.time64("us"))
        require_all(within(times.cast(pa.int64()), 0, _DAY_MICROSECONDS - 1))
        return times.cast(pa.string())
    if pa.types.is_timestamp(source):
        # A timestamp without zone is UTC. The cast fails if nanoseconds would be lost.
        values = values.cast(pa.timestamp("us", tz=source.tz)).cast(TIMESTAMP)
        return values if target == TIMESTAMP else _cast_without_loss(values.cast(pa.timestamp("us")), target)
    if pa.types.is_integer(source) and pa.types.is_decimal(target):
        # Arrow's direct cast fails if any integer of the type might not fit, even if these values do.
        return values.cast(_ANY_INTEGER).cast(target)
    return _cast_without_loss(values, target)


def plain_values(values: pa.Array) -> pa.Array:
    """Unwrap dictionaries, extension types and large types that Parquet readers return."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if isinstance(values.type, pa.UuidType):
        return pa.array([None if value is None else str(value) for value in values.to_pylist()], pa.string())
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    if pa.types.is_large_string(values.type):
        return values.cast(pa.string())
    if pa.types.is_large_binary(values.type) or pa.types.is_fixed_size_binary(values.type):
        return values.cast(pa.binary())
    return values


def _cast_without_loss(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast, and refuse what Arrow would silently round or truncate."""
    source = values.type
    if pa.types.is_decimal(source) and pa.types.is_floating(target):
        return _parse_text(values.cast(pa.string()), target)
    result = values.cast(target)
    if (
        (pa.types.is_floating(source) and pa.types.is_decimal(target))
        or (pa.types.is_timestamp(source) and pa.types.is_date(target))
        or (pa.types.is_integer(source) and pa.types.is_boolean(target))
    ):
        require_all(pc.equal(result.cast(source), values))
    elif pa.types.is_floating(source) and pa.types.is_float32(target):
        require_all(pc.or_(pc.equal(result.cast(source), values), pc.is_nan(values)))
    return result


def _parse_text(values: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_string(target) or pa.types.is_binary(target):
        return values.cast(target)
    trimmed = pc.utf8_trim_whitespace(values)
    text = pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, trimmed.type), trimmed)
    if target == TIMESTAMP:
        return _parse_timestamps(text)
    if pa.types.is_boolean(target):
        return _parse_booleans(text)
    if pa.types.is_date(target):
        # Sources whose dates have a time of day send midnight.
        return pc.replace_substring_regex(text, r"[ T]00:00(:00(\.0*)?)?$", "").cast(target)
    result = text.cast(target)
    if pa.types.is_floating(target):
        require_all(pc.or_(pc.is_finite(result), pc.match_substring_regex(text, "^[+-]?(inf|nan)", ignore_case=True)))
        _require_digits_kept(text, result)
    return result


def _require_digits_kept(texts: pa.Array, numbers: pa.Array) -> None:
    """Refuse numbers in text with more digits than a float keeps: it must be the text if rounded to as many digits.

    A double keeps 15 digits and a float 6 (`DBL_DIG` and `FLT_DIG` of C), unless it is smaller than every normal one.
    """
    limits = np.finfo(numbers.type.to_pandas_dtype())
    is_short = pc.less_equal(pc.utf8_length(texts), limits.precision)
    kept = pc.and_(is_short, pc.greater_equal(pc.abs(numbers), float(limits.tiny)))
    doubtful = pc.and_(pc.is_finite(numbers), pc.invert(kept))
    texts, numbers = texts.filter(doubtful), numbers.filter(doubtful)
    differs = pc.not_equal(numbers.cast(pa.string()), texts)
    pairs = zip(texts.filter(differs).to_pylist(), numbers.filter(differs).to_pylist(), strict=True)
    if not all(_keeps_digits(text, number) for text, number in set(pairs)):
        message = "a number has more digits than its type keeps"
        raise pa.ArrowInvalid(message)


def _keeps_digits(text: str, number: float) -> bool:
    """Whether a text is a number rounded to its digits. Sources round halves to even, or up in shortest texts."""
    digits = _significant_digits(text)
    return any(
        digits == _significant_digits(str(Context(max(1, len(digits)), rounding).create_decimal_from_float(number)))
        for rounding in (ROUND_HALF_EVEN, ROUND_HALF_UP)
    )


def _significant_digits(text: str) -> str:
    return text.lower().partition("e")[0].lstrip("+-").replace(".", "").strip("0")


def _parse_booleans(text: pa.Array) -> pa.Array:
    lower = pc.utf8_lower(text)
    true = pc.is_in(lower, value_set=_TRUE)
    require_all(pc.or_(pc.or_(true, pc.is_in(lower, value_set=_FALSE)), text.is_null()))
    return pc.if_else(text.is_valid(), true, pa.scalar(None, pa.bool_()))


def _parse_timestamps(text: pa.Array) -> pa.Array:
    """Parse timestamps with up to nine fractional digits, zeros after the sixth; without a zone they are UTC."""
    short = pc.replace_substring_regex(text, r"(\.\d{6})0{1,3}", r"\1")
    zoned = pc.match_substring_regex(short, r":\d\d(\.\d+)?(Z|[+-]\d\d(:?\d\d)?)$")
    if not pc.any(zoned).as_py():
        return short.cast(pa.timestamp("us")).cast(TIMESTAMP)
    nothing = pa.scalar(None, short.type)
    with_zone = pc.if_else(zoned, short, nothing).cast(TIMESTAMP)
    return pc.coalesce(with_zone, pc.if_else(zoned, nothing, short).cast(pa.timestamp("us")).cast(TIMESTAMP))


def require_all(fits: pa.Array) -> None:
    """Refuse values of which some do not fit; null counts as fitting.

    Raises:
        pa.ArrowInvalid: There are some.
    """
    if not pc.all(fits, min_count=0).as_py():
        message = "a value would be truncated or rounded"
        raise pa.ArrowInvalid(message)
