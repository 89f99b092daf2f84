"""The lake table and history that a feed must produce, as Arrow tables in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.raw.cast import cast_column
from cdclake.lake.storage.types import from_arrow, to_arrow
from cdclake.model.schema import OP_COLUMN, Column, Schema
from cdclake.model.type_widening import merge_schemas
from cdclake.model.versions import DELETED, INSERTED, OPERATION, UPDATED, VALID_FROM, VALID_TO, VALIDITY_FLAG
from cdclake_cli.dms.csv_text import value_texts
from cdclake_cli.dms.files import padded
from cdclake_devkit.feed.lake_model import LOADED, NO_TIME, DeliveredRows, LakeRows, concat_rows
from cdclake_devkit.feed.source import DELETE, INSERT, NO_ROW, OPERATIONS
from cdclake_devkit.feed.values import RowIds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from cdclake_cli.dms.settings import DmsSettings
    from cdclake_devkit.feed.columns import Columns, FeedColumn
    from cdclake_devkit.feed.lake_model import LakeModel
    from cdclake_devkit.feed.values import RowGenerator

    I64 = NDArray[np.int64]

BATCH_ROWS = 1 << 17
_TIMESTAMP = pa.timestamp("us", tz="UTC")


class LakeRowGenerator:
    """Generates rows as the lake stores them.

    Args:
        generator: Generates the source's rows.
        schemas: The source's columns before and after each schema change.
        delivered: Indices of the schemas that occur in delivered files.
        partition_key: Partition columns, for which the lake cannot distinguish empty text from null.
        full_deletes: Whether a delete has all columns; otherwise it has only the key.
    """

    def __init__(
        self,
        generator: RowGenerator,
        schemas: Sequence[Columns],
        delivered: Iterable[int],
        primary_key: Sequence[str],
        partition_key: Sequence[str],
        settings: DmsSettings,
        *,
        full_deletes: bool,
    ) -> None:
        self._generator, self._schemas, self._settings = generator, schemas, settings
        self._key, self._partition = tuple(primary_key), tuple(partition_key)
        self._full_deletes = full_deletes
        self._timestamp_column = settings.timestamp_column_name
        merged = Schema()
        for number in sorted(delivered):
            merged = merge_schemas(merged, Schema(tuple(map(self._lake_column, schemas[number]))), "")
        added = (Column(self._timestamp_column, "string"),) if self._timestamp_column else ()
        self.schema = Schema((*added, *merged))

    def _lake_column(self, column: FeedColumn) -> Column:
        csv = self._settings.csv_changes
        if csv:  # CSV has no types: the table's attributes declare the last type
            column = [same for columns in self._schemas for same in columns if same.name == column.name][-1]
        kind = from_arrow(column.field.type)
        assert kind is not None
        return Column(column.name, "string" if kind == "binary" and csv else kind)

    def table(self, rows: LakeRows) -> pa.Table:
        """Rows of the lake table with `Op`, in the order of `rows`."""
        # A soft-deleted row keeps the values of the last insert or update.
        table = self.rows(rows._replace(operations=np.full_like(rows.operations, INSERT)))
        operations = pa.DictionaryArray.from_arrays(pa.array(rows.operations), pa.array(OPERATIONS))
        table = table.append_column(OP_COLUMN, operations.cast(pa.string()))
        for name in self._partition:
            values = table[name]
            if pa.types.is_string(values.type):
                values = pc.if_else(pc.equal(values, ""), None, values)
                table = table.set_column(table.column_names.index(name), name, values)
        return table

    def rows(self, rows: LakeRows) -> pa.Table:
        """Rows with all columns of the lake table; columns that a file lacked are null."""
        indices = [np.flatnonzero(rows.schemas == number) for number in range(len(self._schemas))]
        parts = [self._of_schema(rows, of_schema, number) for number, of_schema in enumerate(indices) if len(of_schema)]
        if not parts:
            return self._of_schema(rows, np.empty(0, np.int64), 0)
        if len(parts) == 1:
            return parts[0]
        order = np.empty(len(rows.numbers), np.int64)
        order[np.concatenate(indices)] = np.arange(len(rows.numbers))
        return pa.concat_tables(parts).take(pa.array(order))

    def _of_schema(self, rows: LakeRows, indices: I64, number: int) -> pa.Table:
        source = {column.name: column for column in self._schemas[number]}
        ids = RowIds(rows.numbers[indices], rows.versions[indices])
        only_key = self._only_key(rows, indices)
        arrays = []
        for column in self.schema:
            kind = to_arrow(column.type)
            if column.name == self._timestamp_column:
                stamps = pa.array(rows.stamps_us[indices]).cast(pa.timestamp("us")).cast(pa.string())
                # A delete derived from a key update has no columns but the key, and no timestamp.
                derived = rows.versions[indices] == NO_ROW
                arrays.append(pc.if_else(pa.array(derived), pa.scalar(None, kind), stamps))
            elif column.name in source:
                values = self._lake_values(ids, source[column.name], column.type)
                if column.name not in self._key and only_key.any():
                    values = pc.if_else(pa.array(only_key), pa.scalar(None, kind), values)
                arrays.append(values)
            else:
                arrays.append(pa.nulls(len(indices), kind))
        return pa.table(arrays, names=self.schema.names)

    def _only_key(self, rows: LakeRows, indices: I64) -> NDArray[np.bool_]:
        """Mask of the rows that were delivered with the key alone."""
        derived: NDArray[np.bool_] = rows.versions[indices] == NO_ROW
        return derived if self._full_deletes else derived | (rows.operations[indices] == DELETE)

    def _lake_values(self, ids: RowIds, column: FeedColumn, kind: str) -> pa.Array:
        table = pa.table([self._generator.values(ids, column)], schema=pa.schema([column.field]))
        values = padded(table, self._settings).column(0).combine_chunks()
        if pa.types.is_binary(values.type) and kind == "string":
            values = value_texts(values)
        cast, bad = cast_column(values, kind)
        assert not bad
        return cast


def expected_table(lake: LakeModel, generator: LakeRowGenerator) -> Iterator[pa.Table]:
    """All rows of the lake table, by number; at least one batch."""
    numbers = lake.numbers()
    for start in range(0, max(len(numbers), 1), BATCH_ROWS):
        yield generator.table(lake.rows(numbers[start : start + BATCH_ROWS]))


class HistoryModel:
    """All delivered versions, as numbers: about 50 bytes each."""

    def __init__(self) -> None:
        self._deliveries: list[DeliveredRows] = []
        self._loads: list[tuple[int, int, int]] = []

    def load(self, first: int, end: int, stamp_us: int) -> None:
        """Add the rows of a full-load file."""
        self._loads.append((first, end, stamp_us))

    def apply(self, delivery: DeliveredRows) -> None:
        """Add the rows of a change file that was not delivered before, but for rows that were."""
        self._deliveries.append(delivery.take(delivery.order % 2 == 0).with_derived())

    def expected(self, generator: LakeRowGenerator, max_rows: int) -> Iterator[pa.Table]:
        """All versions, by number and order; all versions of a key are in one batch.

        Args:
            max_rows: Upper bound of row numbers, exclusive.
        """
        step = max(1, BATCH_ROWS // (1 + sum(len(rows.order) for rows in self._deliveries) // max(max_rows, 1)))
        for first in range(0, max(max_rows, 1), step):
            yield _versions(self._between(first, first + step), generator)

    def _between(self, first: int, end: int) -> DeliveredRows:
        """Versions of the rows numbered from `first` up to, but not including, `end`."""
        loads = [_loaded(max(first, begin), min(end, stop), stamp) for begin, stop, stamp in self._loads]
        changes = [rows.take((rows.numbers >= first) & (rows.numbers < end)) for rows in self._deliveries]
        return concat_rows([*loads, *changes, _loaded(0, 0, 0)])


def _loaded(first: int, end: int, stamp_us: int) -> DeliveredRows:
    numbers = np.arange(first, max(first, end), dtype=np.int64)
    count = len(numbers)
    return DeliveredRows(
        order=np.full(count, LOADED),
        numbers=numbers,
        versions=np.zeros(count, np.int64),
        operations=np.zeros(count, np.int64),
        old_numbers=np.full(count, NO_ROW),
        stamps_us=np.full(count, stamp_us),
        times_us=np.full(count, NO_TIME),
        schemas=np.zeros(count, np.int64),
    )


def _versions(delivered: DeliveredRows, generator: LakeRowGenerator) -> pa.Table:
    order = np.lexsort((delivered.order, delivered.numbers))
    _, numbers, versions, operations, _, stamps, times, schemas = delivered.take(order)
    count = len(numbers)
    first = np.append([True] * min(count, 1), numbers[1:] != numbers[:-1]).astype(np.bool_)
    last = np.append(first[1:], [True] * min(count, 1)).astype(np.bool_)
    deletes = operations == DELETE
    after_delete = np.append([False] * min(count, 1), deletes[:-1]).astype(np.bool_)
    # A delete has the values of the row that it removes, if there was one: the last version that is not a delete.
    own = ~deletes | first
    sources = np.maximum.accumulate(np.where(own, np.arange(count), 0)) if count else np.empty(0, np.int64)
    table = generator.rows(LakeRows(*(values[sources] for values in (numbers, versions, operations, stamps, schemas))))
    kinds = np.where(deletes, 2, np.where(first | after_delete, 0, 1))
    names = pa.DictionaryArray.from_arrays(pa.array(kinds), pa.array([INSERTED, UPDATED, DELETED])).cast(pa.string())
    began = pa.array(times, mask=times == NO_TIME).cast(_TIMESTAMP)
    following = np.append(times[1:], [NO_TIME] * min(count, 1)).astype(np.int64)
    ended = pa.array(following, mask=last | (following == NO_TIME)).cast(_TIMESTAMP)
    columns = {OPERATION: names, VALID_FROM: began, VALID_TO: ended, VALIDITY_FLAG: pa.array(last.astype(np.int32))}
    for name, values in columns.items():
        table = table.append_column(name, values)
    return table
