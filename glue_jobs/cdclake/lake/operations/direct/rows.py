"""The rows of a direct change, from what a person gave and what the lake holds. Runs in tasks, without Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.merge.resolve import SOFT_DELETED
from cdclake.lake.merge.tasks import SAMPLES_PER_BATCH
from cdclake.lake.raw.ordering import order_values
from cdclake.lake.storage.arrow_ipc import to_ipc
from cdclake.lake.storage.key_ranges import sample
from cdclake.lake.storage.keys import KEY, LEADING_KEY, row_keys
from cdclake.lake.storage.types import cast_column, to_arrow
from cdclake.model.direct import ORDERING
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.position import NULL_ORDERING
from cdclake.model.schema import DELETE, INSERT, OP_COLUMN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.schema import Column
    from cdclake.model.snapshot import KeyValue

_PARTS_OF_POSITION = r"(?s)^(?P<ordering>.*)\|(?P<order>\d{8}-[^|]*)\|\d+$"


@dataclass(frozen=True)
class InputStats:
    """What some given rows are like.

    Attributes:
        rows: How many they are.
        samples: Some of their routes, sorted.
        unfit: Column to the number of values that are not of its type.
        no_key: Rows of which a key column is null.
    """

    rows: int = 0
    samples: tuple[KeyValue, ...] = ()
    unfit: Mapping[str, int] = field(default_factory=dict)
    no_key: int = 0

    def __add__(self, other: InputStats) -> InputStats:
        names = [*self.unfit, *(name for name in other.unfit if name not in self.unfit)]
        return InputStats(
            self.rows + other.rows,
            tuple(sorted(self.samples + other.samples)),  # type: ignore[type-var]  # one kind in a table
            {name: self.unfit.get(name, 0) + other.unfit.get(name, 0) for name in names},
            self.no_key + other.no_key,
        )


def convert_input(
    rows: pa.Table, columns: Sequence[Column | None], primary_key: Sequence[Column]
) -> tuple[InputStats, bytes]:
    """Given rows in the table's types, sorted by route if it has a key.

    Args:
        rows: Rows as they were given.
        columns: The table's column that each of theirs is; None for one to leave out.
        primary_key: Key columns of the table, all of them among these.

    Returns:
        What they are like, and a blob of the columns, with route and key; without rows if some cannot be taken.
    """
    taken: dict[str, pa.Array] = {}
    unfit: dict[str, int] = {}
    for values, column in zip(rows.columns, columns, strict=True):
        if column is None:
            continue
        plain = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        taken[column.name], _ = cast_column(plain, column.type)
        lost = taken[column.name].null_count - plain.null_count  # text without a value, such as '', is lost as well
        if lost:
            unfit[column.name] = lost
    result = pa.table(taken)
    if not primary_key:
        return InputStats(rows.num_rows, unfit=unfit), to_ipc(result.slice(0, 0) if unfit else result)
    route, key = row_keys([taken[column.name] for column in primary_key])
    if unfit or key.null_count:
        return InputStats(rows.num_rows, unfit=unfit, no_key=key.null_count), to_ipc(result.slice(0, 0))
    result = result.append_column(LEADING_KEY, route).append_column(KEY, key)
    result = result.take(pc.sort_indices(result, [(LEADING_KEY, "ascending")])).combine_chunks()
    return InputStats(rows.num_rows, tuple(sample(result[LEADING_KEY], SAMPLES_PER_BATCH))), to_ipc(result)


@dataclass(frozen=True)
class Found:
    """What was found out about given rows.

    Attributes:
        repeated: Rows of a key that an earlier one has.
        present: Different keys that the lake has; likewise absent.
        newest: What the change must come after: the greatest file order, and the greatest ordering value if it is a
            time, of the lake's rows.
    """

    repeated: int = 0
    present: int = 0
    absent: int = 0
    newest: tuple[str, ...] = ()

    def __add__(self, other: Found) -> Found:
        return Found(
            self.repeated + other.repeated,
            self.present + other.present,
            self.absent + other.absent,
            self.newest + other.newest,
        )


def change_rows(
    op: str, given: Sequence[pa.Table], lake: pa.Table, shape: TableShape, order_column: str
) -> tuple[pa.Table, Found]:
    """Rows of a direct change file: the operation, all source columns, and the ordering value.

    What an update does not set stays as it is in the lake, and of a delete all columns tell what was deleted. The
    ordering value of a table without ordering column is null, so that the time of the call counts. Otherwise it is that
    of the row's own ordering column if the change sets it, else that of the lake's row, which the change thus follows.

    Args:
        op: The operation; of an update or delete only rows that are in the lake count.
        given: Rows of `convert_input`; all rows of each key, and no others.
        lake: The lake's rows of these keys: key, position, whether they are dead, and all source columns unless they
            are inserts. A dead row is none, but the change must come after it.
        shape: Shape of the table.
        order_column: The ordering column; empty for none.
    """
    if not shape.primary_key:
        return _as_inserts(given, shape, order_column), Found()
    keys = pa.chunked_array([chunk for rows in given for chunk in rows[KEY].chunks])
    unique = pc.unique(keys)
    newest = _newest(lake[POSITION], order_column)
    lake = lake.filter(pc.invert(lake[SOFT_DELETED]))
    present = lake.num_rows
    found = Found(
        repeated=0 if op == DELETE else len(keys) - len(unique),  # to delete a row twice is to delete it
        present=present,
        absent=len(unique) - present,
        newest=newest,
    )
    if op == INSERT:
        return _as_inserts(given, shape, order_column), found
    given = [lake.select([KEY])] if op == DELETE else given
    changed = [_changed(rows, lake, shape, order_column) for rows in given]
    rows = pa.concat_tables([rows for rows, _ in changed])
    return _finished(op, rows, pa.concat_arrays([orderings for _, orderings in changed])), found


def _as_inserts(given: Sequence[pa.Table], shape: TableShape, order_column: str) -> pa.Table:
    rows = pa.concat_tables([_inserted(table, shape) for table in given])
    return _finished(INSERT, rows, _own_ordering(rows, shape, order_column))


def _inserted(given: pa.Table, shape: TableShape) -> pa.Table:
    """All source columns of rows that are new; those that were not given are null."""
    names = given.schema.names
    return pa.table(
        {
            column.name: given[column.name] if column.name in names else pa.nulls(given.num_rows, to_arrow(column.type))
            for column in shape.schema
        }
    )


def _changed(given: pa.Table, lake: pa.Table, shape: TableShape, order_column: str) -> tuple[pa.Table, pa.Array]:
    """All source columns of the lake's rows of given keys, with what was given in its place; and ordering values."""
    indices = pc.index_in(given[KEY], value_set=lake[KEY].combine_chunks())
    given = given.filter(indices.is_valid())
    were = lake.take(indices.drop_null())
    names = given.schema.names
    rows = pa.table({c.name: given[c.name] if c.name in names else were[c.name] for c in shape.schema})
    column = shape.schema.find(order_column) if order_column else None
    if not order_column or (column and column.name in names):
        return rows, _own_ordering(rows, shape, order_column)
    told = pc.struct_field(pc.extract_regex(were[POSITION], _PARTS_OF_POSITION), "ordering")
    return rows, _one(pc.coalesce(told, _own_ordering(rows, shape, order_column)))


def _own_ordering(rows: pa.Table, shape: TableShape, order_column: str) -> pa.Array:
    """Ordering values that rows have by themselves; null without ordering column."""
    if not order_column:
        return pa.nulls(rows.num_rows, pa.string())
    column = shape.schema.find(order_column)
    if column is None:  # DMS adds it to its files, and the lake does not keep it
        return pa.repeat(NULL_ORDERING, rows.num_rows)
    return order_values(_one(rows[column.name])).cast(pa.string())


def _finished(op: str, rows: pa.Table, orderings: pa.Array) -> pa.Table:
    return rows.add_column(0, OP_COLUMN, pa.repeat(op, rows.num_rows)).append_column(ORDERING, orderings)


def _newest(positions: pa.ChunkedArray, order_column: str) -> tuple[str, ...]:
    parts = pc.extract_regex(positions, _PARTS_OF_POSITION)
    names = ["order"] if order_column else ["order", "ordering"]
    greatest = (pc.max(pc.struct_field(parts, name)).as_py() for name in names)
    return tuple(text for text in greatest if text)


def _one(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
