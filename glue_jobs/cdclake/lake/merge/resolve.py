"""What becomes of each change row: the last change of a key wins, and only if it is later than what the lake holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.errors import IntegrityError
from cdclake.lake.storage.keys import KEY, LEADING_KEY, UNSENT, matches
from cdclake.lake.storage.partitions import by_partition, partition_ids
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.schema import DELETE, INSERT, OP_COLUMN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from cdclake.lake.storage.partitions import Partition
    from cdclake.lake.storage.shape import TableShape

FILE_INDEX = "_file"
"""Index of the data file in the snapshot that holds a key."""
PARTITION_ID = "_partition"
SOFT_DELETED = "_dead"
"""Whether a row of the lake was deleted softly."""
KEPT_AS_DELETED = "_stays"
"""Whether a row that was deleted stays in its file, with the operation `D`."""


@dataclass(frozen=True)
class Counts:
    """Rows of one task by what became of them; add them up for the books."""

    applied: int = 0
    superseded: int = 0
    ignored: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    absent: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__})


@dataclass(frozen=True)
class ResolvedBatch:
    """Outcome for the keys of one task.

    Attributes:
        removals: Index of a data file to the route and key of rows that leave it, because they are deleted, replaced in
            the same file, or moved to another partition. If the table deletes softly, `KEPT_AS_DELETED` marks those
            that stay in it as deleted rows.
        replacements: Index of a data file to the rows that take the place of removed ones in the same file.
        inserts: Partition to rows that are new in it, sorted by route if there is one.
        tombstones: Route, key and position of each delete that counts; None for a table without a key.
    """

    counts: Counts
    removals: dict[int, pa.Table] = field(default_factory=dict)
    replacements: dict[int, pa.Table] = field(default_factory=dict)
    inserts: dict[Partition, pa.Table] = field(default_factory=dict)
    tombstones: pa.Table | None = None


def resolve(rows: pa.Table, found: pa.Table, buried: pa.Table, shape: TableShape) -> ResolvedBatch:
    """Decide for all rows of some keys.

    Args:
        rows: Rows in flight; all rows of each key, any order.
        found: The lake's rows of those keys: key, file index, position, partition id, whether they are dead, and if
            changes may leave columns out, all source columns; one for a key at most.
        buried: Tombstones of those keys: key and position; several for a key are possible.
        shape: Shape of the table.

    Raises:
        IntegrityError: The lake holds a key twice.
    """
    if len(pc.unique(found[KEY])) != found.num_rows:
        raise IntegrityError("The lake table holds a key more than once", remedy="Reload the table with a full load")
    rows, live = in_order(rows), found.filter(pc.invert(found[SOFT_DELETED]))
    known, buried = _not_after(rows, found), _not_after(rows, _last_graves(buried))
    winners = _last_of_each_key(rows.filter(pc.invert(pc.or_(known, buried))), live, shape)
    present, deletes = matches(winners[KEY], live[KEY]), pc.equal(winners[OP_COLUMN], DELETE)
    counts = Counts(
        applied=winners.num_rows,
        superseded=rows.num_rows - winners.num_rows,
        inserted=_count(pc.invert(pc.or_(present, deletes))),
        updated=_count(pc.and_(present, pc.invert(deletes))),
        deleted=_count(pc.and_(present, deletes)),
        absent=_count(pc.and_(pc.invert(present), deletes)),
    )
    stored, deleted = winners.filter(pc.invert(deletes)), winners.filter(deletes)
    if shape.soft_delete:
        news = pc.invert(pc.or_(known, matches(rows[KEY], stored[KEY])))
        dead = _last_known(rows.filter(news), buried.filter(news), found, shape)
        stored = in_order(pa.concat_tables([stored, dead]))
    place = _matching(found, stored[KEY])
    same_partition = pc.equal(partition_ids(stored, shape.partition_key), place[PARTITION_ID])
    in_place = pc.fill_null(same_partition, False)
    return ResolvedBatch(
        counts,
        removals=_by_file(_leaving(found, stored, deleted, shape)),
        replacements=_by_file(stored.append_column(FILE_INDEX, place[FILE_INDEX]).filter(in_place)),
        inserts=dict(by_partition(stored.filter(pc.invert(in_place)), shape.partition_key)),
        tombstones=deleted.select([LEADING_KEY, KEY, POSITION]),
    )


def _leaving(found: pa.Table, stored: pa.Table, deleted: pa.Table, shape: TableShape) -> pa.Table:
    """The lake's rows that others take the place of, and those that are deleted; see `ResolvedBatch.removals`."""
    replaced = matches(found[KEY], stored[KEY])
    gone = pc.and_(matches(found[KEY], deleted[KEY]), pc.invert(replaced))
    if not shape.soft_delete:
        return found.filter(pc.or_(replaced, gone)).select([FILE_INDEX, LEADING_KEY, KEY])
    gone = pc.and_(gone, pc.invert(found[SOFT_DELETED]))
    leaving = found.append_column(KEPT_AS_DELETED, gone).filter(pc.or_(replaced, gone))
    return leaving.select([FILE_INDEX, LEADING_KEY, KEY, KEPT_AS_DELETED])


def _last_known(rows: pa.Table, buried: pa.ChunkedArray, found: pa.Table, shape: TableShape) -> pa.Table:
    """Rows that are stored as deleted ones: the last that inserts and updates hold of keys that are deleted now.

    Args:
        rows: Rows later than the lake's of keys that are not live after the change, in order.
        buried: Whether each is not later than a remembered delete.
        found: The lake's rows.
    """
    held = _up_to_last_told(rows)
    rows, buried = rows.filter(held), buried.filter(held)
    if shape.partial:  # what was inserted again after a delete does not go on from the row before it
        late = rows.filter(pc.and_(buried, is_last_of_key(_one(rows[KEY]))))
        found = found.filter(pc.or_(pc.invert(found[SOFT_DELETED]), matches(found[KEY], late[KEY])))
    last = _last_of_each_key(rows, found, shape)
    index = last.schema.get_field_index(OP_COLUMN)
    return last.set_column(index, last.schema.field(index), pa.repeat(DELETE, last.num_rows))


def _up_to_last_told(rows: pa.Table) -> pa.Array:
    """Of rows in order, which are not among the deletes that come last of their key."""
    if not rows.num_rows:
        return pa.array([], pa.bool_())
    starts, ends = _spans(is_last_of_key(_one(rows[KEY])))
    locations = np.arange(rows.num_rows)
    deletes = pc.equal(rows[OP_COLUMN], DELETE).to_numpy()
    last = np.maximum.reduceat(np.where(deletes, -1, locations), starts)
    return pa.array(locations <= np.repeat(last, ends - starts + 1))


def resolve_without_key(rows: pa.Table, partition_key: Sequence[str]) -> ResolvedBatch:
    """Outcome for a table without a key: inserts are taken, everything else is ignored."""
    inserts = rows.filter(pc.equal(rows[OP_COLUMN], INSERT))
    counts = Counts(applied=inserts.num_rows, inserted=inserts.num_rows, ignored=rows.num_rows - inserts.num_rows)
    return ResolvedBatch(counts, inserts=dict(by_partition(inserts, partition_key)))


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def in_order(rows: pa.Table, columns: Sequence[str] = (LEADING_KEY, KEY, POSITION)) -> pa.Table:
    """Rows sorted by these columns."""
    if rows.num_rows and _ascends(_one(rows[columns[0]])):
        return rows
    return rows.take(pc.sort_indices(rows, [(name, "ascending") for name in columns]))


def _ascends(values: pa.Array) -> bool:
    """Whether each value is greater than the one before: then there is nothing to sort, which takes time."""
    return bool(pc.all(pc.less(values.slice(0, len(values) - 1), values.slice(1))).as_py() is not False)


def is_last_of_key(keys: pa.Array) -> pa.Array:
    """Of sorted keys, which are the last of their kind."""
    if not len(keys):
        return pa.array([], pa.bool_())
    changes = pc.not_equal(keys.slice(0, len(keys) - 1), keys.slice(1))
    return pa.concat_arrays([changes, pa.array([True])])


def _last_graves(buried: pa.Table) -> pa.Table:
    """The last tombstone of each key."""
    buried = in_order(buried, (KEY, POSITION))
    return buried.filter(is_last_of_key(_one(buried[KEY])))


def _not_after(rows: pa.Table, known: pa.Table) -> pa.ChunkedArray:
    """Whether each row is not later than what is known of its key; false if nothing is."""
    return pc.fill_null(pc.less_equal(rows[POSITION], _matching(known, rows[KEY])[POSITION]), False)


def _matching(known: pa.Table, keys: pa.ChunkedArray) -> pa.Table:
    """The row of `known` for each key; all null where there is none."""
    return known.take(pc.index_in(keys, value_set=_one(known[KEY])))


def _last_of_each_key(live: pa.Table, found: pa.Table, shape: TableShape) -> pa.Table:
    """The last row of each key; columns that were not sent are completed from earlier rows, else from the lake's."""
    last = is_last_of_key(_one(live[KEY]))
    winners = live.filter(last)
    if not shape.partial or not winners.num_rows:
        return winners
    starts, ends = _spans(last)
    unsent = _unsent_matrix(live, len(shape.schema))
    deletes = pc.equal(live[OP_COLUMN], DELETE)
    unsent[deletes.to_numpy()] = False  # what was deleted has no values left to keep
    lake = _matching(found, winners[KEY])
    for i, column in enumerate(shape.schema):
        if not unsent[:, i].any():
            continue
        sent_at = np.maximum.accumulate(np.where(unsent[:, i], -1, np.arange(live.num_rows)))[ends]
        known = sent_at >= starts
        values = pc.if_else(deletes, pa.scalar(None, live[column.name].type), live[column.name])
        picked = values.take(pa.array(sent_at, mask=~known))
        completed = pc.if_else(pa.array(known), picked, lake[column.name])
        winners = winners.set_column(winners.schema.get_field_index(column.name), column.name, completed)
    return winners


def _spans(last: pa.Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """First and last place of each key, given which rows are the last of theirs; there is one at least."""
    ends = np.flatnonzero(last.to_numpy(zero_copy_only=False))
    return np.concatenate([[0], ends[:-1] + 1]), ends


def _unsent_matrix(rows: pa.Table, columns: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Row by column: whether the value was not sent."""
    text = "".join(pc.utf8_rpad(rows[UNSENT], columns, "0").to_pylist())
    flags: np.ndarray[Any, np.dtype[np.bool_]] = np.frombuffer(text.encode(), dtype="S1") == b"1"
    return flags.reshape(rows.num_rows, columns)


def _by_file(rows: pa.Table) -> dict[int, pa.Table]:
    indices = pc.unique(rows[FILE_INDEX]).to_pylist()
    return {i: rows.filter(pc.equal(rows[FILE_INDEX], i)).drop_columns([FILE_INDEX]) for i in indices}


def _count(mask: pa.ChunkedArray) -> int:
    return int(pc.sum(mask).as_py() or 0)
