"""Tells the columns that DMS adds to raw files from columns of the source with the same names.

The lake does not keep what DMS adds, so it would lose the values of such a source column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.errors import SchemaMismatchError
from cdclake.lake.raw.cast import as_text
from cdclake.lake.raw.formats import format_of
from cdclake.model.raw.files import RawKind
from cdclake.model.schema import BEFORE_PREFIX, INSERT, OP_COLUMN

if TYPE_CHECKING:
    from cdclake.lake.raw.rows import RawRows
    from cdclake.model.raw.files import RawFile
    from cdclake.model.table.settings import CsvDialect

SEQUENCE_COLUMN = "AR_H_CHANGE_SEQ"
_HEADERS_OF_FULL_LOAD = {SEQUENCE_COLUMN: "", "AR_H_STREAM_POSITION": "", "AR_H_OPERATION": "INSERT"}
"""What DMS writes to its headers in a full load, or nothing: see the guide's chapter on expressions in transformation
rules."""
_NOT_WRITTEN = "DMS does not write this value to its own column of that name"


def check_added_columns(raw: RawRows, inserts: pa.Array, file: RawFile, dialect: CsvDialect) -> None:
    """Refuse a column with a value that DMS does not write to its own column of that name.

    Args:
        raw: Rows of a file.
        inserts: Whether each is an insert or of a full load.

    Raises:
        SchemaMismatchError: Names the column and the first row.
    """
    is_load, without_image = file.kind is RawKind.FULL_LOAD, format_of(file).without_image
    for name, values in zip(raw.columns.schema.names, raw.columns.columns, strict=True):
        if is_load and name == OP_COLUMN:
            wrong = pc.invert(pc.fill_null(pc.equal(as_text(values), INSERT), False))
        elif is_load and (header := _header(name)) in _HEADERS_OF_FULL_LOAD:
            known = pa.array(["", _HEADERS_OF_FULL_LOAD[header]])
            wrong = pc.invert(pc.or_(without_image(values, dialect), pc.is_in(as_text(values), value_set=known)))
        elif name.startswith(BEFORE_PREFIX):
            wrong = pc.and_(inserts, pc.invert(without_image(values, dialect)))
        else:
            continue
        if wrong.true_count:
            what = "DMS sends before images only with updates" if name.startswith(BEFORE_PREFIX) else _NOT_WRITTEN
            message = (
                f"Column {name} has a value in {'a full load' if is_load else 'an insert'}. {what}, so this is a column"
                " of the source, whose values the lake would lose"
            )
            remedy = "Nothing of it was applied. Rename the column with a DMS mapping rule, and reload the table"
            row = int(raw.numbers[pc.index(wrong, True).as_py()]) + 1
            raise SchemaMismatchError(message, remedy=remedy, file=file.relative, row=row, column=name)


def _header(name: str) -> str:
    """The header of DMS that a column may be: the change sequence orders rows in any case."""
    return SEQUENCE_COLUMN if name.lower() == SEQUENCE_COLUMN.lower() else name
