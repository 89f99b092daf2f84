"""Makes rows in flight of rows as they were read: types, operation, position, key. Bad rows go aside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.errors import SchemaMismatchError
from cdclake.lake.raw.ordering import order_values
from cdclake.lake.raw.rows import BadRow, RawRows, ReadBatch
from cdclake.lake.storage.keys import KEY, LEADING_KEY, UNSENT, row_keys
from cdclake.lake.storage.types import as_text, cast_column, from_arrow, to_arrow
from cdclake.model.direct import ORDERING
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.position import ROW_DIGITS, SEQUENCE_DIGITS, file_ordering, file_part
from cdclake.model.rawfiles import RawFile, RawFormat, RawKind
from cdclake.model.schema import DELETE, INSERT, OP_COLUMN, UPDATE, Column

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.table import TableSettings

SEQUENCE_COLUMN = "AR_H_CHANGE_SEQ"
BEFORE_PREFIX = "BI_"


def normalize(raw: RawRows, file: RawFile, shape: TableShape, settings: TableSettings) -> ReadBatch:
    """Make rows in flight of rows as they were read.

    A value that does not parse or fit, an unknown operation and a null key make a row bad; it is left out, and the
    others go on.

    The position of a full-load row tells file and row until the row is written, when it becomes the empty one.

    Raises:
        SchemaMismatchError: The file lacks a key column or the ordering column.
    """
    rows = _Rows(raw, file, shape, settings)
    rows.read_columns()
    rows.read_operations()
    rows.require_keys()
    positions = rows.positions()
    old_keys = rows.old_keys()
    return rows.finish(positions, old_keys)


class _Rows:
    """A batch on its way: columns by name, and what is wrong with which row."""

    def __init__(self, raw: RawRows, file: RawFile, shape: TableShape, settings: TableSettings) -> None:
        self._raw, self._file, self._shape, self._settings = raw, file, shape, settings
        self._count = raw.columns.num_rows
        self._is_csv = file.format is not RawFormat.PARQUET
        names = raw.columns.schema.names
        self._by_name = {name.lower(): raw.columns.column(i) for i, name in enumerate(names) if name != OP_COLUMN}
        self._columns: dict[str, pa.Array] = {}
        self._unsent: dict[str, pa.Array] = {}
        self._faults: dict[int, str] = {}

    def _fault(self, indices: Iterable[int], reason: str) -> None:
        for i in indices:
            self._faults.setdefault(i, reason)

    def _cast(self, values: pa.Array, name: str, kind: str) -> pa.Array:
        result, bad = cast_column(values, kind)
        reason = f"A value of column {name} is not a {kind}"
        if kind == "string":
            reason = f"A value of column {name} is not UTF-8 text"
        self._fault(bad, reason)
        return result

    def read_columns(self) -> None:
        """Cast every lake column; what was not sent becomes null."""
        mark = self._settings.csv.no_sup_value
        for column in self._shape.schema:
            values = self._by_name.get(column.name.lower())
            if values is None:
                self._columns[column.name] = pa.nulls(self._count, to_arrow(column.type))
                continue
            if mark is not None and self._is_csv:
                unsent = pc.fill_null(pc.equal(values, mark.encode()), False)
                if unsent.true_count:
                    self._unsent[column.name] = unsent
                    values = pc.if_else(unsent, pa.scalar(None, values.type), values)
            self._columns[column.name] = self._cast(values, column.name, column.type)

    def read_operations(self) -> None:
        """`Op` of every row: I in a full load, and in a file that does not have it."""
        if self._file.kind is RawKind.FULL_LOAD or OP_COLUMN not in self._raw.columns.schema.names:
            self._columns[OP_COLUMN] = pa.repeat(INSERT, self._count)
            return
        operations = self._cast(self._raw.columns.column(OP_COLUMN), OP_COLUMN, "string")
        known = pc.is_in(operations, value_set=pa.array([INSERT, UPDATE, DELETE]))
        self._fault(_where(pc.invert(known)), "The operation of a change row is none of I, U and D")
        self._columns[OP_COLUMN] = operations

    def require_keys(self) -> None:
        """Find rows without a key."""
        for column in self._key_columns():
            missing = _where(self._columns[column.name].is_null())
            unsent = self._unsent.get(column.name)
            if unsent is not None:
                self._fault(_where(unsent), f"The key column {column.name} of a row was not sent")
            self._fault(missing, f"The key column {column.name} of a row is null")

    def _key_columns(self) -> list[Column]:
        columns = []
        for name in self._shape.primary_key:
            column = self._shape.schema.find(name)
            if column is None or name.lower() not in self._by_name:
                message = f"The key column {name} is not among the columns of a raw file"
                remedy = "Correct PrimaryKey: cdclake tables set schema.table --primary-key ..., or correct the file"
                raise SchemaMismatchError(message, remedy=remedy, file=self._file.relative, column=name)
            columns.append(column)
        return columns

    def positions(self) -> pa.Array:
        """Position of every row."""
        numbers = pc.utf8_lpad(pa.array(self._raw.numbers).cast(pa.string()), ROW_DIGITS, "0")
        if self._file.kind is RawKind.CHANGE:
            return pc.binary_join_element_wise(self._orderings(), file_part(self._file.relative), numbers, "")
        return pc.binary_join_element_wise(self._file.relative, numbers, "|")

    def _orderings(self) -> pa.Array:
        """Ordering value of every change row: its sequence, else the ordering column, else the file's time.

        A direct change tells the values itself.
        """
        if self._file.direct:
            return pc.fill_null(self._by_name[ORDERING], file_ordering(self._file.relative))
        if self._settings.order_column:
            otherwise = order_values(self._ordering_column(self._settings.order_column))
        else:
            otherwise = pa.repeat(file_ordering(self._file.relative), self._count)
        sequences = self._by_name.get(SEQUENCE_COLUMN.lower())
        if sequences is None:
            return otherwise
        text = pc.utf8_trim_whitespace(self._cast(sequences, SEQUENCE_COLUMN, "string"))
        given = pc.fill_null(pc.not_equal(text, ""), False)
        digits = pc.match_substring_regex(text, f"^[0-9]{{1,{SEQUENCE_DIGITS}}}$")
        wrong = pc.and_(given, pc.invert(pc.fill_null(digits, True)))
        self._fault(
            _where(wrong), f"The value of {SEQUENCE_COLUMN} is not a number of at most {SEQUENCE_DIGITS} digits"
        )
        return pc.if_else(given, pc.utf8_lpad(text, SEQUENCE_DIGITS, "0"), otherwise)

    def _ordering_column(self, name: str) -> pa.Array:
        values = self._by_name.get(name.lower())
        if values is None:
            message = f"The ordering column {name} is not among the columns of a change file"
            remedy = "Correct OrderColumn, or have DMS send the column with every change"
            raise SchemaMismatchError(message, remedy=remedy, file=self._file.relative, column=name)
        column = self._shape.schema.find(name)
        if column is not None:
            return self._columns[column.name]
        # One that a mapping rule added, which is not kept in the lake.
        kind = None if self._is_csv else from_arrow(values.type)
        return self._cast(values, name, kind or "string")

    def old_keys(self) -> dict[str, pa.Array]:
        """Key columns of each row before the change, by name; null throughout if an update left the key as it was."""
        keys = self._key_columns()
        before = {column.name: values for column in keys if (values := self._before(column)) is not None}
        if not before:
            return {}
        changed = pa.repeat(False, self._count)
        for name, values in before.items():
            changed = pc.or_(changed, pc.fill_null(pc.not_equal(values, self._columns[name]), False))
        old = {}
        for column in keys:
            now = self._columns[column.name]
            then = pc.coalesce(before[column.name], now) if column.name in before else now
            old[column.name] = pc.if_else(changed, then, pa.scalar(None, now.type))
        return old

    def _before(self, column: Column) -> pa.Array | None:
        """A key column's value before an update; null where there is none, and in rows that are no updates."""
        names = self._raw.columns.schema.names
        wanted = column.name.lower()
        found = [n for n in names if n.startswith(BEFORE_PREFIX) and n[len(BEFORE_PREFIX) :].lower() == wanted]
        if not found:
            return None
        values = self._raw.columns.column(found[0])
        absent = pc.fill_null(pc.not_equal(self._columns[OP_COLUMN], UPDATE), True)
        if self._is_csv:
            # DMS leaves the before image of a row that has none empty, whatever the null text is.
            nothing = {"", self._settings.csv.no_sup_value or ""}
            absent = pc.or_(absent, pc.is_in(values, value_set=pa.array([text.encode() for text in nothing])))
        return self._cast(pc.if_else(absent, pa.scalar(None, values.type), values), found[0], column.type)

    def finish(self, positions: pa.Array, old_keys: dict[str, pa.Array]) -> ReadBatch:
        """The good rows as a table, the deletes of old keys after them, and the bad rows."""
        columns = {**self._columns, POSITION: positions}
        if self._settings.csv.no_sup_value is not None:
            columns[UNSENT] = self._unsent_texts()
        good = np.ones(self._count, dtype=bool)
        good[list(self._faults)] = False
        rows = pa.table(columns)
        if self._faults:
            rows = rows.filter(pa.array(good))
        derived = _deletes(rows, {name: values.filter(pa.array(good)) for name, values in old_keys.items()})
        rows = pa.concat_tables([rows, derived]).combine_chunks() if derived.num_rows else rows
        if self._shape.primary_key:
            parts = [rows[column.name].combine_chunks() for column in self._key_columns()]
            route, key = row_keys(parts)
            rows = rows.append_column(LEADING_KEY, route).append_column(KEY, key)
        return ReadBatch(rows, self._bad_rows(), derived.num_rows)

    def _unsent_texts(self) -> pa.Array:
        if not self._unsent:
            return pa.repeat("", self._count)
        flags = [self._unsent.get(column.name, pa.scalar(False)) for column in self._shape.schema]
        any_unsent = pa.repeat(False, self._count)
        for flag in self._unsent.values():
            any_unsent = pc.or_(any_unsent, flag)
        texts = pc.binary_join_element_wise(*(pc.if_else(flag, "1", "0") for flag in flags), "")
        return pc.if_else(any_unsent, texts, "")

    def _bad_rows(self) -> tuple[BadRow, ...]:
        indices = sorted(self._faults)
        contents = _texts(self._raw.columns.take(pa.array(indices, pa.int64())), is_csv=self._is_csv)
        found = [
            BadRow(self._file.relative, int(self._raw.numbers[i]), self._faults[i], content)
            for i, content in zip(indices, contents, strict=True)
        ]
        return tuple(sorted([*self._raw.bad_rows, *found], key=lambda bad: bad.row or 0))


def _deletes(rows: pa.Table, old_keys: dict[str, pa.Array]) -> pa.Table:
    """A delete for each row that has an old key, at the row's position; all other columns are null."""
    if not old_keys:
        return rows.slice(0, 0)
    columns = {}
    for field in rows.schema:
        if field.name in old_keys:
            columns[field.name] = pa.chunked_array([old_keys[field.name]])
        elif field.name == POSITION:
            columns[field.name] = rows[field.name]
        elif field.name == OP_COLUMN:
            columns[field.name] = pa.chunked_array([pa.repeat(DELETE, rows.num_rows)])
        elif field.name == UNSENT:
            columns[field.name] = pa.chunked_array([pa.repeat("", rows.num_rows)])
        else:
            columns[field.name] = pa.chunked_array([pa.nulls(rows.num_rows, field.type)])
    has_old = pc.is_valid(next(iter(old_keys.values())))
    return pa.table(columns, schema=rows.schema).filter(has_old)


def _where(mask: pa.Array) -> list[int]:
    """Indices of the rows for which it is true."""
    indices: list[int] = pc.indices_nonzero(mask).to_pylist()
    return indices


def _texts(rows: pa.RecordBatch, *, is_csv: bool) -> list[dict[str, str | None]]:
    """Rows as text by column. Bytes are text if the file is, and hexadecimal digits if not."""
    if not rows.num_rows:
        return []
    columns = [_text(column, is_csv=is_csv) for column in rows.columns]
    return [dict(zip(rows.schema.names, values, strict=True)) for values in zip(*columns, strict=True)]


def _text(values: pa.Array, *, is_csv: bool) -> list[str | None]:
    if pa.types.is_binary(values.type):
        raw = values.to_pylist()
        if is_csv:
            return [None if value is None else value.decode("utf-8", "backslashreplace") for value in raw]
        return [None if value is None else value.hex() for value in raw]
    result: list[str | None] = as_text(values).to_pylist()
    return result
