"""Converts rows of raw files to rows in flight: types, operation, position, key."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.errors import OrderingError, SchemaMismatchError
from cdclake.lake.raw.added_columns import SEQUENCE_COLUMN, check_added_columns
from cdclake.lake.raw.cast import as_text, cast_column
from cdclake.lake.raw.formats import format_of
from cdclake.lake.raw.ordering import order_values, unsortable_text
from cdclake.lake.raw.rows import WITHOUT_CONTENT, BadRow, BadRowKind, RawRows, ReadBatch
from cdclake.lake.storage.keys import KEY, LEADING_KEY, UNSEEN, UNSENT, comparable, row_keys
from cdclake.lake.storage.shape import ENCODED_TEXT, with_column
from cdclake.lake.storage.types import from_arrow, to_arrow
from cdclake.model.direct import ORDERING
from cdclake.model.partition_folder import HIVE_NULL_PARTITION
from cdclake.model.position import (
    ARRIVED,
    DEPARTED,
    FULL_LOAD_POSITION,
    POSITIONED,
    ROW_DIGITS,
    SEQUENCE_DIGITS,
    file_ordering,
    file_part,
)
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.raw.files import RawFile, RawKind, read_time
from cdclake.model.schema import BEFORE_PREFIX, DELETE, INSERT, OP_COLUMN, UPDATE, Column
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.settings import IMMEDIATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cdclake.lake.raw.formats import Format
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.table.settings import TableSettings

_TEXT = pa.string()


def normalize(
    raws: Sequence[RawRows],
    files: Sequence[RawFile],
    shape: TableShape,
    settings: TableSettings,
    later_columns: frozenset[str] = frozenset(),
    *,
    numbered: bool = True,
    encoded: bool = False,
) -> ReadBatch:
    """Convert rows of raw files to rows in flight. Each conversion takes time, however few the rows.

    A value that does not parse or fit, an unknown operation or a null key make a row bad. Bad rows are left out.

    Args:
        raws: Rows; if they are of several files, all with the same columns and without bad ones.
        files: The file of each. Several are of the same kind and format, and not direct; errors and bad rows name the
            first of them.
        later_columns: See `Slice.later_columns`.
        numbered: Whether the position of a full-load row contains file and row, until the row is written with the
            empty position.
        encoded: See `Slice.encoded`.

    Raises:
        SchemaMismatchError: A file lacks a key column or the ordering column, or has before images of inserts.
    """
    raw, counts = raws[0], list[int]()
    if len(raws) > 1:
        columns = pa.concat_batches([each.columns for each in raws])
        raw = RawRows(columns, np.concatenate([each.numbers for each in raws]))
        counts = [each.columns.num_rows for each in raws]
    rows = _Rows(raw, files, shape, settings, counts, encoded=encoded)
    rows.read_columns()
    rows.read_operations()
    rows.refuse_source_columns()
    rows.mark_unsent()
    rows.require_keys()
    positions = rows.positions(numbered=numbered)
    old_keys = rows.old_keys()
    rows.complete_moved_rows(old_keys, later_columns)
    rows.require_partition_values()
    return rows.to_batch(positions, old_keys)


class _Rows:
    """A batch in conversion: columns by name, and the fault of each bad row.

    Args:
        counts: Number of rows of each file, if there are several.
    """

    def __init__(
        self,
        raw: RawRows,
        files: Sequence[RawFile],
        shape: TableShape,
        settings: TableSettings,
        counts: Sequence[int],
        *,
        encoded: bool,
    ) -> None:
        self._raw, self._shape, self._settings = raw, shape, settings
        self._files, self._file, self._counts = files, files[0], counts
        self._count = raw.columns.num_rows
        self._encoded = encoded
        self._format = format_of(self._file)
        names = raw.columns.schema.names
        self._by_name = {name.lower(): raw.columns.column(i) for i, name in enumerate(names) if name != OP_COLUMN}
        self._columns: dict[str, pa.Array] = {}
        self._unsent: dict[str, pa.Array] = {}
        self._faults: dict[int, tuple[BadRowKind, str]] = {}
        self._bad_cells: dict[int, dict[str, None]] = {}
        self._positioned: pa.Array | None = None
        self._key_images: dict[str, pa.Array] = {}

    def _fault(self, indices: Iterable[int], kind: BadRowKind, reason: str, *columns: str) -> None:
        for i in indices:
            self._faults.setdefault(i, (kind, reason))
            self._bad_cells.setdefault(i, {}).update(dict.fromkeys(columns))

    def _cast(self, values: pa.Array, name: str, kind: str) -> pa.Array:
        result, bad = cast_column(values, kind)
        if bad:
            is_time = pa.types.is_time(values.type)
            expected = "a valid time of day" if is_time else "UTF-8 text" if kind == "string" else f"a valid {kind}"
            self._fault(bad, BadRowKind.VALUE, f"A value of column {name} is not {expected}", name)
        return result

    def read_columns(self) -> None:
        """Cast every lake column; values that were not sent become null."""
        for column in self._shape.schema:
            values = self._by_name.get(column.name.lower())
            if values is None:
                self._columns[column.name] = pa.nulls(self._count, to_arrow(column.type))
                continue
            unsent = self._format.unsent(values, self._settings.csv)
            if unsent is not None and unsent.true_count:
                self._unsent[column.name] = unsent
                values = pc.if_else(unsent, pa.scalar(None, values.type), values)
            if self._has_encoded_text(values, column):
                self._columns[column.name] = values
            else:
                self._columns[column.name] = self._cast(values, column.name, column.type)

    def _has_encoded_text(self, values: pa.Array, column: Column) -> bool:
        """Whether a column can stay as it is: its texts may stay encoded, and all are valid."""
        keys = (*self._shape.primary_key, *self._shape.partition_key)
        if not self._encoded or column.type != "string" or values.type != ENCODED_TEXT or column.name in keys:
            return False
        return not cast_column(values.dictionary, column.type)[1]

    def read_operations(self) -> None:
        """Read `Op` of every row: `I` in a full load and in a file without `Op`."""
        if self._file.kind is RawKind.FULL_LOAD or OP_COLUMN not in self._raw.columns.schema.names:
            self._columns[OP_COLUMN] = pa.repeat(INSERT, self._count)
            return
        operations = self._cast(self._raw.columns.column(OP_COLUMN), OP_COLUMN, "string")
        known = pc.is_in(operations, value_set=pa.array([INSERT, UPDATE, DELETE]))
        reason = "The operation of a change row is not I, U or D"
        self._fault(_where(pc.invert(known)), BadRowKind.OPERATION, reason, OP_COLUMN)
        self._columns[OP_COLUMN] = operations

    def refuse_source_columns(self) -> None:
        """Refuse columns of the source that are named like those that DMS adds.

        Raises:
            SchemaMismatchError: There is one.
        """
        inserts = pc.fill_null(pc.equal(self._columns[OP_COLUMN], INSERT), False)
        check_added_columns(self._raw, inserts, self._file, self._settings.csv)

    def mark_unsent(self) -> None:
        """Mark what updates did not send: columns that the file lacks, and nulls that mean it."""
        settings = self._settings
        if not self._shape.partial or self._file.direct or self._file.kind is RawKind.FULL_LOAD:
            return
        is_update = pc.fill_null(pc.equal(self._columns[OP_COLUMN], UPDATE), False)
        null_means_unsent = {name.lower() for name in settings.null_means_unsent}
        for column in self._shape.schema:
            lower, unsent = column.name.lower(), is_update
            if lower in self._by_name and lower in null_means_unsent:
                unsent = pc.and_(is_update, self._columns[column.name].is_null())
            elif lower in self._by_name or not settings.keep_missing_columns:
                continue
            self._unsent[column.name] = pc.or_(unsent, self._unsent.get(column.name, pa.scalar(False)))

    def require_keys(self) -> None:
        """Mark rows without a key as bad."""
        for column in self._key_columns():
            missing = _where(self._columns[column.name].is_null())
            unsent = self._unsent.get(column.name)
            if unsent is not None:
                self._fault(_where(unsent), BadRowKind.KEY, f"Key column {column.name} was not sent", column.name)
            self._fault(missing, BadRowKind.KEY, f"Key column {column.name} is null", column.name)

    def _key_columns(self) -> list[Column]:
        columns = []
        for name in self._shape.primary_key:
            column = self._shape.schema.find(name)
            if column is None or name.lower() not in self._by_name:
                message = f"A raw file has no key column {name}"
                remedy = (
                    "Correct PrimaryKey (cdclake tables set <table> --primary-key <columns>), or the file. If the"
                    " source renamed the column, have DMS reload the table"
                )
                raise SchemaMismatchError(message, remedy=remedy, file=self._file.relative, column=name)
            columns.append(column)
        return columns

    def positions(self, *, numbered: bool) -> pa.Array:
        """Position of every row."""
        if not (numbered or self._file.kind is RawKind.CHANGE):
            return pa.repeat(FULL_LOAD_POSITION, self._count)
        numbers = pc.utf8_lpad(pa.array(self._raw.numbers).cast(pa.string()), ROW_DIGITS, "0")
        if self._file.kind is RawKind.CHANGE:
            file_parts = self._of_file(lambda file: file_part(file.relative))
            return pc.binary_join_element_wise(self._orderings(), file_parts, numbers, "")
        return pc.binary_join_element_wise(self._of_file(lambda file: file.relative), numbers, "|")

    def _of_file(self, value: Callable[[RawFile], Any], kind: pa.DataType = _TEXT) -> pa.Array | pa.Scalar:
        """A value of each row's file."""
        values = pa.array(map(value, self._files), kind)
        return values.take(np.repeat(np.arange(len(values)), self._counts)) if self._counts else values[0]

    def _orderings(self) -> pa.Array | pa.Scalar:
        """Ordering value of every change row: its sequence, else the ordering column, else the file's time.

        A direct change contains the ordering values.
        """
        if self._file.direct:
            return pc.fill_null(self._by_name[ORDERING], file_ordering(self._file.relative))
        sequences = self._by_name.get(SEQUENCE_COLUMN.lower())
        if sequences is not None:
            return self._sequences(sequences)
        if self._settings.order_column:
            return self._order_column_values(self._settings.order_column)
        return self._of_file(lambda file: file_ordering(file.relative))

    def _sequences(self, values: pa.Array) -> pa.Array:
        text = pc.utf8_trim_whitespace(self._cast(values, SEQUENCE_COLUMN, "string"))
        sent = pc.fill_null(pc.not_equal(text, ""), False)
        reason = f"{SEQUENCE_COLUMN} is empty, so the row has no place among the changes"
        self._fault(_where(pc.invert(sent)), BadRowKind.ORDER, reason, SEQUENCE_COLUMN)
        digits = pc.match_substring_regex(text, f"^[0-9]{{1,{SEQUENCE_DIGITS}}}$")
        wrong = pc.and_(sent, pc.invert(pc.fill_null(digits, True)))
        reason = f"The value of {SEQUENCE_COLUMN} is not a number of at most {SEQUENCE_DIGITS} digits"
        self._fault(_where(wrong), BadRowKind.ORDER, reason, SEQUENCE_COLUMN)
        return pc.fill_null(pc.utf8_lpad(text, SEQUENCE_DIGITS, "0"), "")

    def _order_column_values(self, name: str) -> pa.Array:
        """Encoded values of the ordering column. If they are times, a delete without one has the time of its file.

        Raises:
            OrderingError: The values are text that may sort in another order than the values it stands for.
        """
        values = self._ordering_column(name)
        if pa.types.is_string(values.type):
            self._refuse_unsortable_text(values, name)
        missing = values.is_null()
        if pa.types.is_floating(values.type):
            missing = pc.fill_null(pc.is_nan(values), True)
        if missing.true_count:
            is_delete = pc.fill_null(pc.equal(self._columns[OP_COLUMN], DELETE), False)
            reason = f"The ordering column {name} is null"
            self._fault(_where(pc.and_(missing, pc.invert(is_delete))), BadRowKind.ORDER, reason, name)
            if pa.types.is_timestamp(values.type):
                self._positioned = pc.and_(missing, is_delete)
                values = pc.if_else(self._positioned, self._of_file(file_time, values.type), values)
            else:
                reason = f"The ordering column {name} of a delete is null, and the file's time does not compare with it"
                self._fault(_where(pc.and_(missing, is_delete)), BadRowKind.ORDER, reason, name)
        return order_values(values, self._shape.order_type)

    def _refuse_unsortable_text(self, values: pa.Array, name: str) -> None:
        declared = self._settings.schema is not None and self._settings.schema.find(name) is not None
        wrong = unsortable_text(values, declared=declared)
        if wrong is None:
            return
        if declared:
            message = "The ordering column is text, but a value looks like a number, and text sorts 9 above 10"
            remedy = f"Nothing was applied. Declare the type of {name} in Schema, for example {name} bigint"
        else:
            message = (
                "The ordering column is text that may not sort like its values: it is neither a change sequence"
                f" of {SEQUENCE_DIGITS} digits nor a time as DMS writes it, or rows before it have another length"
            )
            remedy = (
                f"Nothing was applied. Declare the type of {name} in Schema, for example {name} timestamp or {name}"
                f" bigint; {name} string says that the text sorts byte by byte in the order of the changes"
            )
        row = int(self._raw.numbers[wrong]) + 1
        raise OrderingError(message, remedy=remedy, file=self._file.relative, row=row, column=name)

    def _ordering_column(self, name: str) -> pa.Array:
        values = self._by_name.get(name.lower())
        if values is None:
            message = f"A change file has no ordering column {name}"
            remedy = "Correct OrderColumn, or have DMS send the column with every change"
            raise SchemaMismatchError(message, remedy=remedy, file=self._file.relative, column=name)
        column = self._shape.schema.find(name)
        if column is not None:
            return self._columns[column.name]
        # A column that a mapping rule adds; the lake does not store it.
        return self._cast(values, name, order_type(name, values.type, self._settings))

    def old_keys(self) -> dict[str, pa.Array]:
        """Key columns before each row's change, by name; all null unless an update changed the key."""
        keys = self._key_columns()
        before = {column.name: values for column in keys if (values := self._before(column)) is not None}
        self._key_images = before
        if not before:
            return {}
        changed = pa.repeat(False, self._count)
        for name, values in before.items():
            differs = pc.not_equal(comparable(values), comparable(self._columns[name]))  # NaN equals NaN
            changed = pc.or_(changed, pc.fill_null(differs, False))
        old = {}
        for column in keys:
            now = self._columns[column.name]
            then = pc.coalesce(before[column.name], now) if column.name in before else now
            old[column.name] = pc.if_else(changed, then, pa.scalar(None, now.type))
        return old

    def _unseen(self) -> pa.Array:
        """Whether each row is an update that lacks the before image of a key column; never in direct changes."""
        if self._file.kind is RawKind.FULL_LOAD or self._file.direct:
            return pa.repeat(False, self._count)
        unseen = pc.fill_null(pc.equal(self._columns[OP_COLUMN], UPDATE), False)
        if len(self._key_images) < len(self._shape.primary_key):
            return unseen
        return pc.and_not(unseen, reduce(pc.and_, (values.is_valid() for values in self._key_images.values())))

    def complete_moved_rows(self, old_keys: dict[str, pa.Array], later_columns: frozenset[str]) -> None:
        """Take values that an update of the key did not send from its before image. Without one, the row is bad.

        The lake's row has the old key, so the row with the new key cannot keep its values. In a column that the table
        got later it has none.
        """
        if not (old_keys and self._unsent):
            return
        moved = next(iter(old_keys.values())).is_valid()
        for column in self._shape.schema:
            unsent = self._unsent.get(column.name)
            if unsent is None or column.name.lower() in later_columns:
                continue
            missing = pc.and_(moved, unsent)
            before = self._before(column)
            if before is not None:
                sent = pc.and_(missing, before.is_valid())
                self._columns[column.name] = pc.if_else(sent, before, self._columns[column.name])
                self._unsent[column.name] = pc.and_(unsent, pc.invert(sent))
                missing = pc.and_(missing, pc.invert(sent))
            reason = f"An update of the key did not send column {column.name}: send it, or its before image"
            if column.name.lower() not in self._by_name:
                reason += f"; if the source dropped or renamed the column, set {Attribute.MISSING_COLUMNS} to null"
            self._fault(_where(missing), BadRowKind.UNSENT, reason, column.name, BEFORE_PREFIX + column.name)

    def require_partition_values(self) -> None:
        """Mark stored rows as bad that have the text for null as the name of a folder."""
        stored = pc.fill_null(pc.not_equal(self._columns[OP_COLUMN], DELETE), True)
        for name in self._shape.partition_key:
            column = self._shape.schema.find(name)
            if column is None or column.type not in ("string", "binary"):
                continue
            values = self._columns[column.name]
            is_null_text = pc.fill_null(pc.equal(values, pa.scalar(HIVE_NULL_PARTITION, values.type)), False)
            reason = (
                f"Partition column {column.name} is {HIVE_NULL_PARTITION}, which readers take as null: correct the"
                f" value, or set another {Attribute.PARTITION_KEY}"
            )
            self._fault(_where(pc.and_(stored, is_null_text)), BadRowKind.VALUE, reason, column.name)

    def _before(self, column: Column) -> pa.Array | None:
        """A column's value before an update; null if there is none or the row is not an update."""
        names = self._raw.columns.schema.names
        wanted = (BEFORE_PREFIX + column.name).lower()
        before = next((n for n in names if n.startswith(BEFORE_PREFIX) and n.lower() == wanted), None)
        if before is None:
            return None
        values = self._raw.columns.column(before)
        is_other = pc.fill_null(pc.not_equal(self._columns[OP_COLUMN], UPDATE), True)
        absent = pc.or_(is_other, self._format.without_image(values, self._settings.csv))
        return self._cast(pc.if_else(absent, pa.scalar(None, values.type), values), before, column.type)

    def to_batch(self, positions: pa.Array, old_keys: dict[str, pa.Array]) -> ReadBatch:
        """Return the good rows, followed by deletes of old keys, and the bad rows."""
        if old_keys:
            moved = next(iter(old_keys.values())).is_valid()
            positions = pc.binary_join_element_wise(positions, pc.if_else(moved, ARRIVED, ""), "")
        if self._positioned is not None:
            positions = pc.binary_join_element_wise(positions, pc.if_else(self._positioned, POSITIONED, ""), "")
        columns = {**self._columns, POSITION: positions}
        if self._shape.partial or self._settings.csv.no_sup_value is not None:
            columns[UNSENT] = self._unsent_texts()
        if self._shape.primary_key:
            columns[UNSEEN] = self._unseen()
        good = np.ones(self._count, dtype=bool)
        good[list(self._faults)] = False
        rows = pa.table(columns)
        if self._faults:
            rows = rows.filter(pa.array(good))
        derived = _old_key_deletes(rows, {name: values.filter(pa.array(good)) for name, values in old_keys.items()})
        rows = pa.concat_tables([rows, derived]).combine_chunks() if derived.num_rows else rows
        if derived.num_rows and self._settings.unique_checks == IMMEDIATE:  # two rows never have one key
            unmarked = pc.utf8_rtrim(rows[POSITION], ARRIVED + DEPARTED)
            rows = with_column(rows, POSITION, unmarked)
        if self._shape.primary_key:
            leading_key, key = row_keys([rows[column.name].combine_chunks() for column in self._key_columns()])
            rows = rows.append_column(LEADING_KEY, leading_key).append_column(KEY, key)
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
        contents = row_texts(self._raw.columns.take(pa.array(indices, pa.int64())), self._file)
        bad_rows = [
            BadRow(self._file.relative, int(self._raw.numbers[i]), *self._faults[i], content, tuple(self._bad_cells[i]))
            for i, content in zip(indices, contents, strict=True)
        ]
        if self._settings.column_policy.rules:  # what is no operation may be the value of another column
            bad_rows = [
                replace(bad, content="", reason=bad.reason + WITHOUT_CONTENT) if OP_COLUMN in bad.columns else bad
                for bad in bad_rows
            ]
        return tuple(sorted([*self._raw.bad_rows, *bad_rows], key=lambda bad: bad.row or 0))


def file_time(file: RawFile) -> datetime | None:
    """The time in a change file's name, taken as UTC."""
    written = read_time(file.order)
    return written.replace(tzinfo=timezone.utc) if written else None


def order_type(name: str, raw_type: pa.DataType, settings: TableSettings) -> str:
    """Lake type of an ordering column that the lake does not store: as declared, else as in the file.

    Args:
        raw_type: Its type in the raw file; text or bytes in CSV.
    """
    declared = settings.schema.find(name) if settings.schema else None
    if declared is not None:
        return declared.type
    if pa.types.is_binary(raw_type) or pa.types.is_null(raw_type):
        return "string"
    return from_arrow(raw_type) or "string"


def _old_key_deletes(rows: pa.Table, old_keys: dict[str, pa.Array]) -> pa.Table:
    """A delete at the position of each row with an old key, with the mark of one; other source columns are null."""
    if not old_keys:
        return rows.slice(0, 0)
    count = rows.num_rows
    positions = pc.binary_join_element_wise(pc.utf8_rtrim(rows[POSITION], ARRIVED), DEPARTED, "")
    values = {**old_keys, POSITION: positions, OP_COLUMN: pa.repeat(DELETE, count), UNSENT: pa.repeat("", count)}
    values |= {UNSEEN: pa.repeat(False, count)}
    columns = {field.name: values.get(field.name, pa.nulls(count, field.type)) for field in rows.schema}
    has_old = pc.is_valid(next(iter(old_keys.values())))
    return pa.table(columns, schema=rows.schema).filter(has_old)


def _where(mask: pa.Array) -> list[int]:
    """Indices of the true values."""
    indices: list[int] = pc.indices_nonzero(mask).to_pylist()
    return indices


def row_texts(rows: pa.RecordBatch, file: RawFile) -> list[dict[str, str | None]]:
    """Rows of a file as text by column. Bytes are decoded if the file is text, else shown as hexadecimal digits."""
    if not rows.num_rows:
        return []
    columns = [_text(column, format_of(file)) for column in rows.columns]
    return [dict(zip(rows.schema.names, values, strict=True)) for values in zip(*columns, strict=True)]


def _text(values: pa.Array, written_as: Format) -> list[str | None]:
    if pa.types.is_binary(values.type):
        return [None if value is None else written_as.text(value) for value in values.to_pylist()]
    result: list[str | None] = as_text(values).to_pylist()
    return result
