"""First lines of CSV files that were read as headers and may be rows: refuses some, and keeps texts out of errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.errors import SchemaMismatchError
from cdclake.model.table.attributes import Attribute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.lake.raw.reader import Inspection
    from cdclake.model.raw.files import RawFile
    from cdclake.model.schema import Schema


def require_shared_columns(lake: Schema, files: Sequence[RawFile], inspections: Sequence[Inspection]) -> None:
    """Refuse CSV files whose first lines may be rows and have no name in common with the table or the files before.

    Args:
        lake: Columns of the lake table; empty if it is not loaded.

    Raises:
        SchemaMismatchError: There is such a file.
    """
    known = {name.lower() for name in lake.names}
    for file, inspection in zip(files, inspections, strict=True):
        names = {name.lower() for name in inspection.schema.names}
        if inspection.may_have_no_header and known and names and not known & names:
            message = (
                "A raw CSV file has no column in common with the lake table or the files before it, so its first line"
                " may be a row"
            )
            remedy = (
                "Nothing was applied. If the files have no header line, set the Schema attribute to their columns, or"
                f" have DMS write one ({Attribute.ADD_COLUMN_NAME}). If the line is a header, set {Attribute.SCHEMA},"
                f" too. If the file is of another table, leave it out ({Attribute.IGNORE_FILES})"
            )
            raise SchemaMismatchError(message, remedy=remedy, file=file.relative, row=1)
        known |= names


def columns_for_error(schema: Schema, inspections: Sequence[Inspection]) -> str:
    """The columns of a table, for an error, without those that may be values of a row.

    Args:
        schema: The columns.
        inspections: The files that they are from.
    """
    unsure = {name.lower() for one in inspections if one.may_have_no_header for name in one.schema.names}
    shown = ", ".join(name for name in schema.names if name.lower() not in unsure)
    if not unsure:
        return f"the columns are {shown}"
    also = f"the columns are {shown}, and those in" if shown else "the columns are those in"
    return f"{also} the first line of the CSV files. If that is a row, set {Attribute.SCHEMA}"
