"""Gives a type to columns of raw files that have none: Parquet writers without a schema write so a column of nulls."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from cdclake.errors import SchemaMismatchError
from cdclake.model.schema import UNTYPED, Column, Schema
from cdclake.printable import shell_word

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cdclake.lake.operations.table_run import TableRun
    from cdclake.lake.raw.reader import Inspection
    from cdclake.model.raw.files import RawFile
    from cdclake.model.snapshot import Snapshot


def with_types(
    run: TableRun, before: Snapshot, files: Sequence[RawFile], inspections: Sequence[Inspection]
) -> Sequence[Inspection]:
    """The same inspections, with types for columns without values: the table's, else the other files'.

    Raises:
        SchemaMismatchError: Nothing tells the type of such a column.
    """
    if not any(column.type == UNTYPED for one in inspections for column in one.schema):
        return inspections
    types: dict[str, str] = {}
    for column in chain(before.source or (), before.schema, *(one.schema for one in inspections)):
        if column.type != UNTYPED:
            types.setdefault(column.name.lower(), column.type)
    for file, one in zip(files, inspections, strict=True):
        unknown = next((c.name for c in one.schema if c.type == UNTYPED and c.name.lower() not in types), None)
        if unknown is not None:
            message = (
                f"Column {unknown} of a raw file has no type, because it has no values, and neither the lake table nor"
                " another file of the change tells it"
            )
            declared = Schema((*(run.settings.schema or ()), Column(unknown, "<type>"))).declaration
            remedy = (
                f"Nothing of it was applied. Declare its type: cdclake tables set {run.layout.name.typed} --schema"
                f" {shell_word(declared)}"
            )
            raise SchemaMismatchError(message, remedy=remedy, file=file.relative, column=unknown)
    return [replace(one, schema=_typed(one.schema, types)) for one in inspections]


def _typed(schema: Schema, types: Mapping[str, str]) -> Schema:
    return Schema(tuple(Column(c.name, types[c.name.lower()]) if c.type == UNTYPED else c for c in schema))
