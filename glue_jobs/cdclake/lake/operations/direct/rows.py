"""Builds the rows of a direct change from a user's rows and the lake's rows. Runs in tasks, without Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.merge.messages import Batch
from cdclake.lake.merge.read_changes import SAMPLES_PER_BATCH
from cdclake.lake.merge.resolve import SOFT_DELETED
from cdclake.lake.raw.cast import cast_column
from cdclake.lake.raw.ordering import order_values
from cdclake.lake.storage.arrow_ipc import Rows
from cdclake.lake.storage.key_ranges import sample
from cdclake.lake.storage.keys import KEY, LEADING_KEY, row_keys
from cdclake.lake.storage.shape import conform
from cdclake.lake.storage.types import arrow_schema
from cdclake.lake.storage.wide_rows import take
from cdclake.model.direct import ORDERING
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.position import NULL_ORDERING, ROW_PATTERN
from cdclake.model.schema import DELETE, INSERT, OP_COLUMN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.schema import Column
    from cdclake.model.snapshot import KeyValue

_PARTS_OF_POSITION = r"(?s)^(?P<ordering>.*)\|(?P<order>\d{8}-[^|]*)\|" + ROW_PATTERN


@dataclass(frozen=True)
class InputStats:
    """Statistics of input rows.

    Attributes:
        rows: Number of rows.
        samples: Some of their leading keys, sorted.
        invalid: For each column, the number of values that do not fit its type; columns without any are left out.
        null_keys: Number of rows with null in a key column.
    """

    rows: int = 0
    samples: tuple[KeyValue, ...] = ()
    invalid: Mapping[str, int] = field(default_factory=dict)
    null_keys: int = 0

    def __add__(self, other: InputStats) -> InputStats:
        names = [*self.invalid, *(name for name in other.invalid if name not in self.invalid)]
        return InputStats(
            self.rows + other.rows,
            tuple(sorted(self.samples + other.samples)),  # type: ignore[type-var]  # one kind in a table
            {name: self.invalid.get(name, 0) + other.invalid.get(name, 0) for name in names},
            self.null_keys + other.null_keys,
        )


def convert_input(rows: pa.Table, columns: Sequence[Column | None], primary_key: Sequence[Column]) -> Batch[InputStats]:
    """Convert input rows to the table's types, sorted by leading key if the table has a key.

    Args:
        columns: For each of their columns, the table's column; None leaves the column out.
        primary_key: Key columns of the table; `columns` contains all of them.

    Returns:
        The converted columns with leading key and key. If a value is invalid or a key is null, there are no rows.
    """
    converted: dict[str, pa.Array] = {}
    invalid: dict[str, int] = {}
    for values, column in zip(rows.columns, columns, strict=True):
        if column is None:
            continue
        plain = _combined(values)
        converted[column.name], _ = cast_column(plain, column.type)
        lost = converted[column.name].null_count - plain.null_count  # includes texts without a value, such as ''
        if lost:
            invalid[column.name] = lost
    result = pa.table(converted)
    if not primary_key:
        return Batch(
            InputStats(rows.num_rows, invalid=invalid), Rows.to_keep(result.schema.empty_table() if invalid else result)
        )
    leading_key, key = row_keys([converted[column.name] for column in primary_key])
    if invalid or key.null_count:
        stats = InputStats(rows.num_rows, invalid=invalid, null_keys=key.null_count)
        return Batch(stats, Rows.to_keep(result.schema.empty_table()))
    result = result.append_column(LEADING_KEY, leading_key).append_column(KEY, key)
    result = take(result, pc.sort_indices(result, [(LEADING_KEY, "ascending")])).combine_chunks()
    return Batch(InputStats(rows.num_rows, tuple(sample(result[LEADING_KEY], SAMPLES_PER_BATCH))), Rows.to_keep(result))


@dataclass(frozen=True)
class KeyStats:
    """How the keys of input rows relate to the lake's rows.

    Attributes:
        repeated: Number of input rows that repeat the key of an earlier input row.
        present: Number of distinct keys that the lake has.
        absent: Number of distinct keys that it does not have.
        newest: Positions that the change must exceed: the greatest file order of the lake's rows, and, if it is a time,
            their greatest ordering value.
    """

    repeated: int = 0
    present: int = 0
    absent: int = 0
    newest: tuple[str, ...] = ()

    def __add__(self, other: KeyStats) -> KeyStats:
        return KeyStats(
            self.repeated + other.repeated,
            self.present + other.present,
            self.absent + other.absent,
            self.newest + other.newest,
        )


def change_rows(
    op: str, tables: Sequence[pa.Table], lake: pa.Table, shape: TableShape, order_column: str
) -> tuple[pa.Table, KeyStats]:
    """Rows of a direct change file: the operation, all source columns, and the ordering value.

    An update keeps the lake's values in columns that it does not set; a delete has the lake's values in all columns.
    The ordering value is null if the table has no ordering column; then the time of the call orders the change.
    Otherwise it is the row's own value if the change sets that column, else the value of the lake's row.

    Args:
        op: The operation. Updates and deletes of keys that are not in the lake are left out.
        tables: Tables from `convert_input`, with all input rows of their keys.
        lake: The lake's rows of these keys: key, position, whether they are soft-deleted, and, for updates and
            deletes, all source columns. A soft-deleted row does not exist, but the change must follow it.
        order_column: The ordering column; empty for none.
    """
    if not shape.primary_key:
        return _as_inserts(tables, shape, order_column), KeyStats()
    keys = pa.chunked_array([chunk for rows in tables for chunk in rows[KEY].chunks])
    unique = pc.unique(keys)
    newest = _newest(lake[POSITION], order_column)
    lake = lake.filter(pc.invert(lake[SOFT_DELETED]))
    present = lake.num_rows
    stats = KeyStats(
        repeated=0 if op == DELETE else len(keys) - len(unique),  # deleting a row twice is harmless
        present=present,
        absent=len(unique) - present,
        newest=newest,
    )
    if op == INSERT:
        return _as_inserts(tables, shape, order_column), stats
    tables = [lake.select([KEY])] if op == DELETE else tables
    merged = [_merge_with_lake(rows, lake, shape, order_column) for rows in tables]
    rows = pa.concat_tables([rows for rows, _ in merged])
    return _with_op(op, rows, pa.concat_arrays([orderings for _, orderings in merged])), stats


def _as_inserts(tables: Sequence[pa.Table], shape: TableShape, order_column: str) -> pa.Table:
    schema = arrow_schema(shape.schema)
    rows = pa.concat_tables([conform(table, schema) for table in tables])
    return _with_op(INSERT, rows, _own_ordering(rows, shape, order_column))


def _merge_with_lake(
    changes: pa.Table, lake: pa.Table, shape: TableShape, order_column: str
) -> tuple[pa.Table, pa.Array]:
    """The lake's rows of the changed keys, with the changed values in place of theirs, and their ordering values."""
    indices = pc.index_in(changes[KEY], value_set=lake[KEY].combine_chunks())
    changes = changes.filter(indices.is_valid())
    existing = take(lake, indices.drop_null())
    names = changes.schema.names
    rows = pa.table({c.name: changes[c.name] if c.name in names else existing[c.name] for c in shape.schema})
    column = shape.schema.find(order_column) if order_column else None
    if not order_column or (column and column.name in names):
        return rows, _own_ordering(rows, shape, order_column)
    existing_ordering = pc.struct_field(pc.extract_regex(existing[POSITION], _PARTS_OF_POSITION), "ordering")
    return rows, _combined(pc.coalesce(existing_ordering, _own_ordering(rows, shape, order_column)))


def _own_ordering(rows: pa.Table, shape: TableShape, order_column: str) -> pa.Array:
    """Ordering values from the rows' own ordering column; null if the table has none."""
    if not order_column:
        return pa.nulls(rows.num_rows, pa.string())
    column = shape.schema.find(order_column)
    if column is None:  # a column that DMS adds to its files and the lake does not store
        return pa.repeat(NULL_ORDERING, rows.num_rows)
    return order_values(_combined(rows[column.name]), shape.order_type).cast(pa.string())


def _with_op(op: str, rows: pa.Table, orderings: pa.Array) -> pa.Table:
    return rows.add_column(0, OP_COLUMN, pa.repeat(op, rows.num_rows)).append_column(ORDERING, orderings)


def _newest(positions: pa.ChunkedArray, order_column: str) -> tuple[str, ...]:
    parts = pc.extract_regex(positions, _PARTS_OF_POSITION)
    names = ["order"] if order_column else ["order", "ordering"]
    greatest = (pc.max(pc.struct_field(parts, name)).as_py() for name in names)
    return tuple(text for text in greatest if text)


def _combined(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
