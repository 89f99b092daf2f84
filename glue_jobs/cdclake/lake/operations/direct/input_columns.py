"""Which columns of a lake table the columns are that a person gives, by their names."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from cdclake.errors import ConfigurationError, RefusedChangeError
from cdclake.lake.raw.reader import ADDED_PREFIXES, RESERVED_COLUMNS
from cdclake.lake.spark.backend import is_spark_dataframe
from cdclake.lake.storage.types import from_arrow
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.schema import DELETE, OP_COLUMN, UPDATE, Column, Schema, parse_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.lake.operations.direct.input_tables import Rows

_LEFT_OUT = frozenset({OP_COLUMN.lower(), POSITION})
"""What a read of the lake table gives beside the source's columns."""
_SPARK_ONLY = {"timestamp_ntz": "timestamp", "void": "string"}


class InputColumn(NamedTuple):
    """A column as it was given.

    Attributes:
        kind: Lake type that its values are of; None if the lake keeps no such values.
        told: The type as Spark or Arrow names it.
    """

    name: str
    kind: str | None
    told: str


def input_columns(rows: Rows) -> list[list[InputColumn]]:
    """The columns of each table, or of the DataFrame."""
    if is_spark_dataframe(rows):
        return [[_of_spark(field.name, field.dataType.simpleString()) for field in rows.schema]]
    return [[InputColumn(f.name, from_arrow(f.type), str(f.type)) for f in table.schema] for table in rows]


def _of_spark(name: str, told: str) -> InputColumn:
    try:
        return InputColumn(name, parse_type(_SPARK_ONLY.get(told, told)), told)
    except ConfigurationError:  # that is how a type says that it is none of the lake's
        return InputColumn(name, None, told)


def columns_of(
    op: str, given: Sequence[InputColumn], schema: Schema, primary_key: Sequence[str]
) -> list[Column | None]:
    """The table's column that each given one is; None for one to leave out.

    Left out are `Op` and `_cdc_position`, which reads of lake tables give, and of a delete all but the key.

    Raises:
        RefusedChangeError: The table has no such column, one comes twice or holds what no column can, or one that is
            needed is missing.
    """
    key = {name.lower() for name in primary_key}
    found = [_column(op, one, schema, key) for one in given]
    kept = [column.name.lower() for column in found if column]
    twice = sorted({name for name in kept if kept.count(name) > 1})
    if twice:
        remedy = "Give each column once; case does not tell columns apart"
        raise RefusedChangeError("A column comes twice", remedy=remedy, column=", ".join(twice))
    missing = [name for name in primary_key if name.lower() not in kept]
    if missing:
        message = "A key column is missing in what was given"
        raise RefusedChangeError(message, remedy="Give all key columns", column=", ".join(missing))
    if op == UPDATE and len(kept) == len(key):
        raise RefusedChangeError("An update sets no column", remedy="Give the columns to set beside those of the key")
    return found


def _column(op: str, given: InputColumn, schema: Schema, key: set[str]) -> Column | None:
    lower = given.name.lower()
    if lower in _LEFT_OUT or (op == DELETE and lower not in key):
        return None
    column = schema.find(given.name)
    if column is None:
        remedy = f"The columns are {', '.join(schema.names)}. New ones come from the source alone"
        raise RefusedChangeError("The table has no such column", remedy=remedy, column=given.name)
    if given.kind is None:
        raise _no_such_type(given)
    return column


def schema_of_rows(rows: Rows, declared: Schema) -> Schema:
    """Columns of a table that is made of given rows.

    Args:
        declared: The columns as a person has declared them; empty if not.

    Raises:
        RefusedChangeError: A column cannot be kept: its name is not free, or the lake has no such type.
    """
    if declared:
        return declared
    columns: dict[str, Column] = {}
    for given in chain.from_iterable(input_columns(rows)):
        lower = given.name.lower()
        if lower in _LEFT_OUT:
            continue
        if given.kind is None:
            raise _no_such_type(given)
        if lower in RESERVED_COLUMNS or given.name.startswith(ADDED_PREFIXES):
            remedy = (
                f"Give it another name: none of {', '.join(sorted(RESERVED_COLUMNS))}, none that begins as DMS's own do"
            )
            raise RefusedChangeError("A column has a name that is not free", remedy=remedy, column=given.name)
        columns.setdefault(lower, Column(given.name, given.kind))
    return Schema(tuple(columns.values()))


def _no_such_type(given: InputColumn) -> RefusedChangeError:
    message = f"A column has the type {given.told}, which the lake does not keep"
    return RefusedChangeError(message, remedy="Give it as text, or leave it out", column=given.name)
