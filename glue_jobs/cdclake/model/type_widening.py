"""Finds the type that holds the values of two, by which a column widens, and merges the columns of two schemas."""

from __future__ import annotations

from cdclake.errors import SchemaMismatchError
from cdclake.model.schema import INTEGER_TYPES, MAX_DECIMAL_PRECISION, UNTYPED, Column, Schema, decimal_parts

_INTEGER_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}


def wider_type(left: str, right: str) -> str | None:
    """The narrowest type that holds every value of both; None if there is none.

    A number and text have no common type: a number column never silently becomes text.
    """
    if left == right or right == UNTYPED:
        return left
    if left == UNTYPED:
        return right
    pair = {left, right}
    if pair <= set(INTEGER_TYPES):
        return max(left, right, key=INTEGER_TYPES.index)
    if pair == {"float", "double"}:
        return "double"
    if pair <= {"tinyint", "smallint", "float"}:
        return "float"
    if pair <= {"tinyint", "smallint", "int", "float", "double"}:
        return "double"
    decimals = [decimal_parts(kind) or _integer_as_decimal(kind) for kind in (left, right)]
    first, second = decimals
    if first is None or second is None:
        return None
    scale = max(first[1], second[1])
    precision = max(first[0] - first[1], second[0] - second[1]) + scale
    return f"decimal({precision},{scale})" if precision <= MAX_DECIMAL_PRECISION else None


def clashes(known: Schema, incoming: Schema) -> dict[str, str]:
    """The known type of each incoming column, by its name, whose type has no common type with it."""
    columns = ((column, known.find(column.name)) for column in incoming)
    return {now.name: was.type for now, was in columns if was and wider_type(was.type, now.type) is None}


def merge_schemas(lake: Schema, incoming: Schema, file: str) -> Schema:
    """The lake's columns, widened for the incoming ones, followed by the new columns.

    Columns that are missing from `incoming` stay.

    Args:
        lake: Columns of the table so far; empty for a new table.
        incoming: Columns of a raw file.
        file: The raw file, for the error.

    Raises:
        SchemaMismatchError: A column's two types have no common type.
    """
    merged = {column.name.lower(): column for column in lake}
    for column in incoming:
        known = merged.get(column.name.lower())
        if known is None:
            merged[column.name.lower()] = column
            continue
        kind = wider_type(known.type, column.type)
        if kind is None:
            message = f"Column {known.name} is {known.type} in the lake and {column.type} in a raw file"
            remedy = f"Declare it as {known.type} in the Schema attribute, fix it at the source, or reload the table"
            raise SchemaMismatchError(message, remedy=remedy, column=known.name, file=file)
        merged[column.name.lower()] = Column(known.name, kind)
    return Schema(tuple(merged.values()))


def _integer_as_decimal(kind: str) -> tuple[int, int] | None:
    digits = _INTEGER_DIGITS.get(kind)
    return (digits, 0) if digits else None
