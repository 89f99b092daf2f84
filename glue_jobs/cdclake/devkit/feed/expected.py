"""The table and the history that must come of a feed, as Arrow tables, some rows at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.devkit.dms.csv_text import value_texts
from cdclake.devkit.dms.files import padded
from cdclake.devkit.feed.lake import LOADED, NO_TIME, Delivery, LakeRows, together
from cdclake.devkit.feed.source import DELETE, INSERT, NO_ROW, OPERATIONS
from cdclake.devkit.feed.values import RowIds
from cdclake.lake.storage.types import cast_column, from_arrow, to_arrow
from cdclake.model.schema import OP_COLUMN, Column, Schema, merge_schemas
from cdclake.model.versions import DELETED, INSERTED, OPERATION, UPDATED, VALID_FROM, VALID_TO, VALIDITY_FLAG

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from cdclake.devkit.dms.settings import DmsSettings
    from cdclake.devkit.feed.columns import Column as FeedColumn
    from cdclake.devkit.feed.lake import Lake
    from cdclake.devkit.feed.values import RowMaker

    I64 = NDArray[np.int64]

ROWS_AT_ONCE = 1 << 17
_TIMESTAMP = pa.timestamp("us", tz="UTC")


class RowsOfLake:
    """Makes rows as the lake has them.

    Args:
        maker: Makes the source's rows.
        schemas: The source's columns before and after each schema change.
        came: Indices of those that files had which came.
        primary_key: Key columns.
        partition_key: Partition columns, in which a lake cannot tell empty text from null.
        settings: Of DMS.
        delete_tells_all: Whether a delete tells more than the key.
    """

    def __init__(
        self,
        maker: RowMaker,
        schemas: Sequence[tuple[FeedColumn, ...]],
        came: Iterable[int],
        primary_key: Sequence[str],
        partition_key: Sequence[str],
        settings: DmsSettings,
        *,
        delete_tells_all: bool,
    ) -> None:
        self._maker, self._schemas, self._settings = maker, schemas, settings
        self._key, self._partition = tuple(primary_key), tuple(partition_key)
        self._delete_tells_all = delete_tells_all
        self.stamp = settings.timestamp_column_name
        merged = Schema()
        for number in sorted(came):
            merged = merge_schemas(merged, Schema(tuple(map(self._lake_column, schemas[number]))), "")
        stamps = (Column(self.stamp, "string"),) if self.stamp else ()
        self.schema = Schema((*stamps, *merged))

    def _lake_column(self, column: FeedColumn) -> Column:
        csv = self._settings.csv_changes
        if csv:  # which has no types: the table's attributes declare the last one
            column = [one for columns in self._schemas for one in columns if one.name == column.name][-1]
        kind = from_arrow(column.field.type)
        assert kind is not None
        return Column(column.name, "string" if kind == "binary" and csv else kind)

    def table(self, rows: LakeRows) -> pa.Table:
        """Rows of the lake table with `Op`, in the order given."""
        # A row that stays although it was deleted is as the last insert or update made it.
        made = self.rows(rows._replace(operations=np.full_like(rows.operations, INSERT)))
        operations = pa.DictionaryArray.from_arrays(pa.array(rows.operations), pa.array(OPERATIONS))
        made = made.append_column(OP_COLUMN, operations.cast(pa.string()))
        for name in self._partition:
            text = made[name]
            if pa.types.is_string(text.type):
                made = made.set_column(made.column_names.index(name), name, pc.if_else(pc.equal(text, ""), None, text))
        return made

    def rows(self, rows: LakeRows) -> pa.Table:
        """Rows of all the lake's columns: what a file lacked is null."""
        places = [np.flatnonzero(rows.schemas == number) for number in range(len(self._schemas))]
        parts = [self._of_schema(rows, where, number) for number, where in enumerate(places) if len(where)]
        if not parts:
            return self._of_schema(rows, np.empty(0, np.int64), 0)
        if len(parts) == 1:
            return parts[0]
        back = np.empty(len(rows.numbers), np.int64)
        back[np.concatenate(places)] = np.arange(len(rows.numbers))
        return pa.concat_tables(parts).take(pa.array(back))

    def _of_schema(self, rows: LakeRows, where: I64, number: int) -> pa.Table:
        source = {column.name: column for column in self._schemas[number]}
        ids = RowIds(rows.numbers[where], rows.versions[where])
        only_key = self._only_key(rows, where)
        arrays = []
        for column in self.schema:
            kind = to_arrow(column.type)
            if column.name == self.stamp:
                stamps = pa.array(rows.stamps_us[where]).cast(pa.timestamp("us")).cast(pa.string())
                # What is derived from an update of the key tells nothing but the key, not even when.
                bare = rows.versions[where] == NO_ROW
                arrays.append(pc.if_else(pa.array(bare), pa.scalar(None, kind), stamps))
            elif column.name in source:
                values = self._of_lake(ids, source[column.name], column.type)
                if column.name not in self._key and only_key.any():
                    values = pc.if_else(pa.array(only_key), pa.scalar(None, kind), values)
                arrays.append(values)
            else:
                arrays.append(pa.nulls(len(where), kind))
        return pa.table(arrays, names=self.schema.names)

    def _only_key(self, rows: LakeRows, where: I64) -> NDArray[np.bool_]:
        """Rows of which nothing but the key was told."""
        bare: NDArray[np.bool_] = rows.versions[where] == NO_ROW
        return bare if self._delete_tells_all else bare | (rows.operations[where] == DELETE)

    def _of_lake(self, ids: RowIds, column: FeedColumn, kind: str) -> pa.Array:
        made = padded(pa.table([self._maker.values(ids, column)], schema=pa.schema([column.field])), self._settings)
        values = made.column(0).combine_chunks()
        if pa.types.is_binary(values.type) and kind == "string":
            values = value_texts(values)
        cast, bad = cast_column(values, kind)
        assert not bad
        return cast


def expected_table(lake: Lake, make: RowsOfLake) -> Iterator[pa.Table]:
    """All rows of the lake table, by number; one table at least."""
    numbers = lake.numbers()
    for start in range(0, max(len(numbers), 1), ROWS_AT_ONCE):
        yield make.table(lake.rows(numbers[start : start + ROWS_AT_ONCE]))


class HistoryLog:
    """Every version that came, as numbers: about 50 bytes each."""

    def __init__(self) -> None:
        self._deliveries: list[Delivery] = []
        self._loads: list[tuple[int, int, int]] = []

    def load(self, first: int, end: int, stamp_us: int) -> None:
        """Rows of a full-load file."""
        self._loads.append((first, end, stamp_us))

    def apply(self, delivery: Delivery) -> None:
        """Rows of a change file that did not come before."""
        self._deliveries.append(delivery.with_derived())

    def expected(self, make: RowsOfLake, most: int) -> Iterator[pa.Table]:
        """All versions, by number and order; those of a key are in one table.

        Args:
            make: Makes rows.
            most: Numbers there can be.
        """
        step = max(1, ROWS_AT_ONCE // (1 + sum(len(one.order) for one in self._deliveries) // max(most, 1)))
        for first in range(0, max(most, 1), step):
            yield _versions(self._between(first, first + step), make)

    def _between(self, first: int, end: int) -> Delivery:
        """Versions of the rows of some numbers."""
        loads = [_loaded(max(first, begin), min(end, stop), stamp) for begin, stop, stamp in self._loads]
        found = [one.take((one.numbers >= first) & (one.numbers < end)) for one in self._deliveries]
        return together([*loads, *found, _loaded(0, 0, 0)])


def _loaded(first: int, end: int, stamp_us: int) -> Delivery:
    numbers = np.arange(first, max(first, end), dtype=np.int64)
    count = len(numbers)
    return Delivery(
        order=np.full(count, LOADED),
        numbers=numbers,
        versions=np.zeros(count, np.int64),
        operations=np.zeros(count, np.int64),
        old_numbers=np.full(count, NO_ROW),
        stamps_us=np.full(count, stamp_us),
        times_us=np.full(count, NO_TIME),
        schemas=np.zeros(count, np.int64),
    )


def _versions(came: Delivery, make: RowsOfLake) -> pa.Table:
    order = np.lexsort((came.order, came.numbers))
    _, numbers, versions, operations, _, stamps, times, schemas = came.take(order)
    count = len(numbers)
    first = np.append([True] * min(count, 1), numbers[1:] != numbers[:-1]).astype(np.bool_)
    last = np.append(first[1:], [True] * min(count, 1)).astype(np.bool_)
    deletes = operations == DELETE
    after_delete = np.append([False] * min(count, 1), deletes[:-1]).astype(np.bool_)
    # A delete tells the row that it took away, if there was one: the last that did not tell so itself.
    own = ~deletes | first
    told = np.maximum.accumulate(np.where(own, np.arange(count), 0)) if count else np.empty(0, np.int64)
    rows = LakeRows(*(values[told] for values in (numbers, versions, operations, stamps, schemas)))
    made = make.rows(rows)
    kinds = np.where(deletes, 2, np.where(first | after_delete, 0, 1))
    names = pa.DictionaryArray.from_arrays(pa.array(kinds), pa.array([INSERTED, UPDATED, DELETED])).cast(pa.string())
    began = pa.array(times, mask=times == NO_TIME).cast(_TIMESTAMP)
    following = np.append(times[1:], [NO_TIME] * min(count, 1)).astype(np.int64)
    ended = pa.array(following, mask=last | (following == NO_TIME)).cast(_TIMESTAMP)
    columns = {OPERATION: names, VALID_FROM: began, VALID_TO: ended, VALIDITY_FLAG: pa.array(last.astype(np.int32))}
    for name, values in columns.items():
        made = made.append_column(name, values)
    return made
