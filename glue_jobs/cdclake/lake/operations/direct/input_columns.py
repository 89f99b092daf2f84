"""Matches the columns of a user's rows with the columns of a lake table by name."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from cdclake.errors import ConfigurationError, RefusedChangeError
from cdclake.lake.raw.reader import RESERVED_COLUMNS, RESERVED_PREFIX, is_reserved
from cdclake.lake.spark.backend import is_spark_dataframe
from cdclake.lake.storage.types import from_arrow
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.schema import ADDED_PREFIXES, DELETE, OP_COLUMN, UNTYPED, UPDATE, Column, Schema, parse_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.lake.operations.direct.input_tables import InputRows

_IGNORED = frozenset({OP_COLUMN.lower(), POSITION})
"""Columns that reads of a lake table return besides the source's columns."""
_SPARK_ONLY = {"timestamp_ntz": "timestamp", "void": UNTYPED}


class InputColumn(NamedTuple):
    """A column of input rows.

    Attributes:
        kind: Its lake type, or `UNTYPED`; None if the lake does not support its values.
        input_type: Its type as Spark or Arrow names it.
    """

    name: str
    kind: str | None
    input_type: str


def input_columns(rows: InputRows) -> list[list[InputColumn]]:
    """The columns of each table, or of the DataFrame."""
    if is_spark_dataframe(rows):
        return [[_spark_column(field.name, field.dataType.simpleString()) for field in rows.schema]]
    return [[InputColumn(f.name, from_arrow(f.type), str(f.type)) for f in table.schema] for table in rows]


def _spark_column(name: str, spark_type: str) -> InputColumn:
    try:
        kind = _SPARK_ONLY.get(spark_type, spark_type)
        return InputColumn(name, kind if kind == UNTYPED else parse_type(kind), spark_type)
    except ConfigurationError:  # not a lake type
        return InputColumn(name, None, spark_type)


def match_columns(
    op: str, columns: Sequence[InputColumn], schema: Schema, primary_key: Sequence[str]
) -> list[Column | None]:
    """Find the table's column for each input column; None for an input column to leave out.

    `Op` and `_cdc_position`, which reads of lake tables return, are left out. A delete leaves out all but the key.

    Raises:
        RefusedChangeError: The table has no such column, an input column occurs twice or has an unsupported type, or a
            required column is missing.
    """
    key = {name.lower() for name in primary_key}
    matched = [_match_column(op, column, schema, key) for column in columns]
    names = [column.name.lower() for column in matched if column]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        remedy = "Name each column once; names that differ only in case are the same column"
        raise RefusedChangeError("A column occurs twice", remedy=remedy, column=", ".join(repeated))
    missing = [name for name in primary_key if name.lower() not in names]
    if missing:
        message = "The input lacks a key column"
        raise RefusedChangeError(message, remedy="Add all key columns", column=", ".join(missing))
    if op == UPDATE and len(names) == len(key):
        raise RefusedChangeError("An update sets no column", remedy="Add the columns to set to the key columns")
    return matched


def _match_column(op: str, column: InputColumn, schema: Schema, key: set[str]) -> Column | None:
    lower = column.name.lower()
    if lower in _IGNORED or (op == DELETE and lower not in key):
        return None
    match = schema.find(column.name)
    if match is None:
        remedy = f"The columns are {', '.join(schema.names)}. Only the source can add columns"
        raise RefusedChangeError("The table has no such column", remedy=remedy, column=column.name)
    if column.kind is None:
        raise _unsupported_type(column)
    return match


def infer_schema(rows: InputRows, declared: Schema) -> Schema:
    """Columns of a new table, derived from its first rows.

    Args:
        declared: The columns that the table's settings declare; empty if they declare none.

    Raises:
        RefusedChangeError: A column has a reserved name, an unsupported type, or no type, because it has no values.
    """
    if declared:
        return declared
    columns: dict[str, Column] = {}
    for column in chain.from_iterable(input_columns(rows)):
        lower = column.name.lower()
        if lower in _IGNORED:
            continue
        if column.kind is None:
            raise _unsupported_type(column)
        if is_reserved(lower) or column.name.startswith(ADDED_PREFIXES):
            reserved = ", ".join(sorted(RESERVED_COLUMNS))
            remedy = f"Choose a name other than {reserved}, without the prefix {RESERVED_PREFIX} and DMS's prefixes"
            raise RefusedChangeError("A column has a reserved name", remedy=remedy, column=column.name)
        if columns.get(lower, Column("", UNTYPED)).type == UNTYPED:
            columns[lower] = Column(column.name, column.kind)
    untyped = next((column.name for column in columns.values() if column.type == UNTYPED), None)
    if untyped is not None:
        message = "A column of a new table has no type, because it has no values"
        raise RefusedChangeError(message, remedy="Cast it to its type, or leave it out", column=untyped)
    return Schema(tuple(columns.values()))


def _unsupported_type(column: InputColumn) -> RefusedChangeError:
    message = f"A column has the type {column.input_type}, which the lake does not support"
    return RefusedChangeError(message, remedy="Convert it to text, or leave it out", column=column.name)
