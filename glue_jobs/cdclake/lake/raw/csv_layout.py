"""Detects the columns of a CSV file: from its header line, else from the Schema attribute. Refuses what is unclear.

Certain is only that `Op` is the first field, that it is I, U or D in a change file, and that it is I in a full load. A
file without header whose width fits the Schema attribute with and without `Op` is read only if its rows leave one
reading: otherwise a dropped column would make the operation the first column's value, and shift all others.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.errors import SchemaMismatchError, UnreadableFileError
from cdclake.lake.raw.rows import REWRITE_OR_IGNORE
from cdclake.model.raw.files import RawKind
from cdclake.model.schema import ADDED_PREFIXES, DELETE, INSERT, OP_COLUMN, UPDATE
from cdclake.model.table.attributes import Attribute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.lake.raw.csv_records import Record
    from cdclake.lake.raw.rows import RawRows
    from cdclake.model.raw.files import RawFile
    from cdclake.model.table.settings import CsvDialect, TableSettings

_NUMBER_OR_TIME = re.compile(r"\s*|[+-]?\d[\d.,:TZ/ +-]*")
_NO_NAME = re.compile(r"(?i:true|false)|.*[\x00-\x1f\x7f].*|.{129,}", re.DOTALL)
"""More text that names no column: booleans, control characters, and what is longer than a name may be in a database."""
_REMEDY = (
    "Nothing of it was applied. Set the Schema attribute to the columns of the file except Op, in order,"
    " or have DMS write a header line (AddColumnName)"
)


@dataclass(frozen=True)
class CsvLayout:
    """The columns of a CSV file.

    Attributes:
        names: Names of all fields of a record, including `Op`.
        rows_start: Offset of the first row: after the header, if there is one.
        has_header: Whether the names come from a header line.
    """

    names: tuple[str, ...]
    rows_start: int = 0
    has_header: bool = False


def csv_layout(sampled: Sequence[Record], settings: TableSettings, file: RawFile) -> CsvLayout:
    """Detect a file's columns.

    Args:
        sampled: The first records that are not blank, without nulls; empty if the file has only empty lines.

    Raises:
        UnreadableFileError: The file has only empty lines, although it has more columns or a header.
        SchemaMismatchError: The columns have no known names, or two readings are possible.
        UnicodeDecodeError: A name in the header is not UTF-8 text.
    """
    declared = tuple(settings.schema.names) if settings.schema else ()
    if sampled:
        first = tuple(_text(value) for value in sampled[0].fields)
        if _is_header(first, declared, settings.csv, file):
            names = tuple((value or b"").decode() for value in sampled[0].fields)
            return CsvLayout(names, sampled[0].end, has_header=True)
    return CsvLayout(_declared_names(sampled, declared, file))


def may_be_row(names: Sequence[str], settings: TableSettings) -> bool:
    """Whether column names that were read from a file may be values of a row: nothing says that the line is a header.

    Args:
        names: Including `Op` and columns that DMS adds.
    """
    if settings.schema or settings.csv.add_column_name:
        return False
    known = {name.lower() for names in settings.named_columns.values() for name in names}
    return not any(name == OP_COLUMN or name.startswith(ADDED_PREFIXES) or name.lower() in known for name in names)


def _is_header(first: tuple[str, ...], declared: tuple[str, ...], dialect: CsvDialect, file: RawFile) -> bool:
    """Whether the first line of a file is a header; the dialect decides where the line leaves it open.

    Args:
        declared: Names in the Schema attribute; empty if it is not set.
    """
    operations = _operations(file)
    if not declared:
        is_row = first[0] in operations or any(map(_NUMBER_OR_TIME.fullmatch, first))
        if is_row or dialect.add_column_name is False:
            message = "A raw CSV file has no header line, and the Schema attribute is not set"
            raise SchemaMismatchError(message, remedy=_REMEDY, file=file.relative)
        return True
    names, known = Counter(name.lower() for name in first), {name.lower() for name in declared}
    if first[0] in operations:  # a column may be named like one, too
        if first[0].lower() not in known:
            return False
        are_names = len(names) == len(first) and all(
            name.lower() in known or name.startswith(ADDED_PREFIXES) for name in first
        )
        if not are_names:
            return _may_be_names(first, dialect) and _by_dialect(dialect, file)
    if known <= names.keys():
        return True
    recognized = [name for name in names if name in known]
    if first[0] == OP_COLUMN and recognized:
        return True
    source_names = [name.lower() for name in first if name != OP_COLUMN and not name.startswith(ADDED_PREFIXES)]
    if len(recognized) > 1 and len(recognized) == len(source_names):
        return True
    if not (_may_be_names(first, dialect) or 2 * len(recognized) > len(source_names) > 1):
        return False
    return _by_dialect(dialect, file)


def _by_dialect(dialect: CsvDialect, file: RawFile) -> bool:
    """Whether a first line that may be a header or a row is a header.

    Raises:
        SchemaMismatchError: The operator has not said so.
    """
    if dialect.add_column_name is None:
        message = (
            "The first line of a raw CSV file may be data, or a header with other columns than the Schema attribute"
        )
        remedy = (
            "Nothing of it was applied. Set the Schema attribute to all columns of the file except Op, in order. If"
            f" the line is meant, set {Attribute.ADD_COLUMN_NAME}: true if it is a header, false if it is a row"
        )
        raise SchemaMismatchError(message, remedy=remedy, file=file.relative, row=1)
    return dialect.add_column_name


def _may_be_names(line: tuple[str, ...], dialect: CsvDialect) -> bool:
    """Whether a first line may be a header of unknown names: distinct, and without values that are no names."""
    is_distinct = len({text.lower() for text in line}) == len(line)
    return is_distinct and not any(
        text == dialect.null_value or _NUMBER_OR_TIME.fullmatch(text) or _NO_NAME.fullmatch(text) for text in line
    )


def _declared_names(sampled: Sequence[Record], declared: tuple[str, ...], file: RawFile) -> tuple[str, ...]:
    """Names in the Schema attribute, preceded by `Op` if most records have one more field."""
    widths = Counter(len(record.fields) for record in sampled) or Counter({1: 1})
    width = len(declared)
    if declared and (widths[width] or widths[width + 1]):
        return declared if widths[width] >= widths[width + 1] else (OP_COLUMN, *declared)
    if not sampled:
        message = "A raw CSV file has only empty lines"
        raise UnreadableFileError(message, remedy=REWRITE_OR_IGNORE, file=file.relative)
    found = widths.most_common(1)[0][0]
    message = f"A raw CSV file has {found} fields, and the Schema attribute names {width} columns"
    raise SchemaMismatchError(message, remedy=_REMEDY, file=file.relative)


class OperationCheck:
    """Checks that all rows of a file without header confirm whether it has `Op`.

    Rows with too few or too many fields do not count.
    """

    def __init__(self, layout: CsvLayout, file: RawFile) -> None:
        self._file, self._has_op = file, layout.names[0] == OP_COLUMN
        self._is_load = file.kind is RawKind.FULL_LOAD
        self._skipped = layout.has_header or (self._has_op and not self._is_load)  # a wrong `Op` makes a change row bad
        self._operations = pa.array([name.encode() for name in sorted(_operations(file))], pa.binary())
        self._rows = self._rows_with_operation = 0

    def add(self, rows: RawRows) -> None:
        """Check the next rows.

        Raises:
            SchemaMismatchError: A row has another reading than the file.
        """
        if self._skipped:
            return
        is_operation = pc.is_in(rows.columns.column(0), value_set=self._operations)
        self._rows += len(is_operation)
        self._rows_with_operation += is_operation.true_count
        if self._has_op and is_operation.false_count:
            message = (
                f"A full load has one field more than the Schema attribute names columns, and it is not {OP_COLUMN}"
            )
            self._refuse(message, rows, pc.invert(is_operation))
        if not self._has_op and not self._is_load and is_operation.true_count:
            message = (
                "The first field of a row is an operation (I, U or D), and the row has as many fields as the Schema"
                " attribute names columns: a column is missing, or it is no operation"
            )
            self._refuse(message, rows, is_operation)

    def finish(self) -> None:
        """Check what only all rows of the file show.

        Raises:
            SchemaMismatchError: The file has two readings.
        """
        if not self._skipped and not self._has_op and self._is_load and 0 < self._rows == self._rows_with_operation:
            message = (
                f"The first field of every row of a raw CSV file is {INSERT}, and the rows have as many fields as the"
                f" Schema attribute names columns: the field is {OP_COLUMN} and a column is missing, or it is a column"
            )
            raise SchemaMismatchError(message, remedy=_REMEDY, file=self._file.relative)

    def _refuse(self, message: str, rows: RawRows, wrong: pa.Array) -> None:
        row = int(rows.numbers[pc.index(wrong, True).as_py()]) + 1
        raise SchemaMismatchError(message, remedy=_REMEDY, file=self._file.relative, row=row)


def _operations(file: RawFile) -> frozenset[str]:
    """Values of `Op` in a file."""
    return frozenset({INSERT} if file.kind is RawKind.FULL_LOAD else {INSERT, UPDATE, DELETE})


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "backslashreplace")
