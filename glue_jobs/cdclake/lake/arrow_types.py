"""The lake's column types as Arrow types, and how raw values become them.

The lake holds types that Spark, Athena, DuckDB and pandas all read: a Parquet TIME becomes text, unsigned integers the
next wider signed type (uint64: decimal(20,0)), and every timestamp is UTC with microseconds.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.errors import BadRowError, SchemaMismatchError
from cdclake.model.schema import Column, Schema, decimal_parts

TIMESTAMP = pa.timestamp("us", tz="UTC")

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
    pa.null(): "string",
}


def to_arrow(kind: str) -> pa.DataType:
    """Arrow type of a lake type."""
    decimal = decimal_parts(kind)
    return pa.decimal128(*decimal) if decimal else _TO_ARROW[kind]


def from_arrow(kind: pa.DataType) -> str | None:
    """Lake type that a raw Arrow type is kept as; None if it cannot be kept (lists, structs, maps)."""
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
    return _FROM_ARROW.get(kind)


def arrow_schema(schema: Schema) -> pa.Schema:
    """Arrow schema of lake columns."""
    return pa.schema([pa.field(column.name, to_arrow(column.type)) for column in schema])


def schema_of(raw: pa.Schema, file: str) -> Schema:
    """Lake columns of a raw Arrow schema.

    Raises:
        SchemaMismatchError: A column has a type that the lake does not keep.
    """
    columns = []
    for field in raw:
        kind = from_arrow(field.type)
        if kind is None:
            message = f"Column {field.name} of a raw file has the type {field.type}, which the lake does not keep"
            remedy = "Leave the column out by a DMS mapping rule, or have the source deliver it as text"
            raise SchemaMismatchError(message, remedy=remedy, column=field.name, file=file)
        columns.append(Column(field.name, kind))
    return Schema(tuple(columns))


def cast_column(values: pa.Array, kind: str, column: str, file: str, first_row: int) -> pa.Array:
    """Raw values as a lake type; nulls stay null, and nothing is cut or rounded.

    Args:
        values: One column of some rows.
        kind: Lake type.
        column: Its name, for the error.
        file: The raw file, for the error.
        first_row: Number of the first of these rows in the file, for the error.

    Raises:
        BadRowError: A value does not fit; names the first row that holds one.
    """
    try:
        return _cast(values, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        row = first_row + _first_bad(values, kind)
        message = f"A value of column {column} is not a {kind}"
        remedy = "Correct the raw file, or set the column's type in the Schema attribute"
        raise BadRowError(message, remedy=remedy, file=file, row=row, column=column) from error


def _cast(values: pa.Array, kind: str) -> pa.Array:
    target = to_arrow(kind)
    if values.type == target:
        return values
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return _parse_text(values, target)
    if pa.types.is_time(values.type):
        return values.cast(pa.time64("us")).cast(pa.string())
    if pa.types.is_timestamp(values.type) and target == TIMESTAMP:
        # A timestamp without zone is UTC already; one in nanoseconds must not lose any.
        return values.cast(pa.timestamp("us", tz=values.type.tz)).cast(TIMESTAMP)
    return values.cast(target)


def _parse_text(values: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_string(target) or pa.types.is_binary(target):
        return values.cast(target)
    blank = pc.equal(pc.utf8_trim_whitespace(values), "")
    filled = pc.if_else(blank, pa.scalar(None, values.type), values)
    if target == TIMESTAMP:
        return filled.cast(pa.timestamp("us")).cast(TIMESTAMP)
    return filled.cast(target)


def _first_bad(values: pa.Array, kind: str) -> int:
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _cast(values.slice(low, middle - low), kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            high = middle
        else:
            low = middle
    return low


def partition_text(values: pa.Array) -> pa.Array:
    """Partition values as the text of their folder, the way Spark writes them; null stays null."""
    if not pa.types.is_timestamp(values.type):
        return values.cast(pa.string())
    text = values.cast(pa.timestamp("us")).cast(pa.string())  # always six decimals
    return pc.utf8_rtrim(pc.utf8_rtrim(text, "0"), ".")


def partition_column(text: str | None, kind: str, rows: int) -> pa.Array:
    """A partition value, back from its text, for every row of a file."""
    return pa.repeat(_cast(pa.array([text], pa.string()), kind)[0], rows)
