"""Resolves change rows: the last change of a key wins, and only if it is later than what the lake has.

In other words, it deduplicates the rows of change data capture (CDC), and upserts them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.errors import BadRowError, IntegrityError, UnsentValueError
from cdclake.lake.merge.key_updates import KeyMoves, SettledRows, settle_key_updates
from cdclake.lake.merge.positioned_deletes import check_positioned_deletes
from cdclake.lake.merge.unknown_keys import UnknownKeys, unknown_keys
from cdclake.lake.storage.keys import KEY, LEADING_KEY, UNSENT, comparable, matches
from cdclake.lake.storage.partitions import NO_ROWS, PartitionedRows, by_partition, partition_ids
from cdclake.lake.storage.shape import with_column, with_constant
from cdclake.lake.storage.tombstones import file_orders
from cdclake.lake.storage.wide_rows import take, where
from cdclake.model.direct import FOLDER as DIRECT_FOLDER
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.position import FULL_LOAD_POSITION, GREATEST_SEQUENCE, file_and_row
from cdclake.model.position import SENT as SENT_MARK
from cdclake.model.position import UNSENT as UNSENT_MARK
from cdclake.model.schema import DELETE, INSERT, OP_COLUMN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from cdclake.lake.storage.shape import TableShape

FILE_INDEX = "_cdc_file"
"""Index, in the snapshot, of the data file that contains a row."""
PARTITION_ID = "_cdc_partition"
SOFT_DELETED = "_cdc_soft_deleted"
"""Whether a row of the lake is soft-deleted."""
KEPT_AS_DELETED = "_cdc_kept_as_deleted"
"""Whether a deleted row stays in its file, with the operation `D`."""
_COLUMN_MARKS = f"(?P<marks>[{SENT_MARK}{UNSENT_MARK}]*)$"
_NO_FILE = "~"
"""Stands for the `file_order` of full-load rows; sorts after all."""


@dataclass(frozen=True)
class Counts:
    """Rows of one task by outcome; the books add them up."""

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
    """Outcome of a batch of change rows.

    Attributes:
        removals: By index of a data file, leading key and key of rows that leave it: rows that are deleted, replaced in
            the same file, or moved to another partition. If the table deletes softly, `KEPT_AS_DELETED` marks those
            that stay in the file as deleted rows.
        replacements: By index of a data file, rows that replace removed ones in the same file.
        inserts: Rows that are new in their partition; within each, sorted by leading key if there is one.
        tombstones: Leading key, key and position of each delete that applies; None for a table without a key.
        moves: What is known about updates that changed keys.
        unknown: Updates of keys that the table lacks, if they may have changed them.
        needs_values: Whether nothing was resolved, because the lake's rows must have all columns for that.
    """

    counts: Counts
    removals: dict[int, pa.Table] = field(default_factory=dict)
    replacements: dict[int, pa.Table] = field(default_factory=dict)
    inserts: PartitionedRows = NO_ROWS
    tombstones: pa.Table | None = None
    moves: KeyMoves = KeyMoves()  # noqa: RUF009 - frozen
    unknown: UnknownKeys = UnknownKeys()  # noqa: RUF009 - frozen
    needs_values: bool = False


def resolve(
    rows: pa.Table,
    existing_rows: pa.Table,
    tombstones: pa.Table,
    shape: TableShape,
    *,
    forgotten: str = "",
    overlap_end: str = GREATEST_SEQUENCE,
) -> ResolvedBatch:
    """Resolve all change rows of some keys.

    Args:
        rows: Rows in flight: all rows of each key, any order.
        existing_rows: The lake's rows of these keys, at most one per key, see `tasks.existing_rows_schema`; with all
            columns if an update changes a key.
        tombstones: Tombstones of these keys: key and position; a key may have several.
        forgotten: See `Snapshot.forgotten`.
        overlap_end: The full load contains no change whose sequence is greater.

    Raises:
        BadRowError: A row might be older than a forgotten delete of its key.
        IntegrityError: The lake contains a key twice.
        OrderingError: A delete without an ordering value has no certain place.
        UnsentValueError: The lake's row may lack a value of an older row.
        UnsettledKeyError: It is unknown which of two rows a key keeps.
    """
    _require_distinct(existing_rows)
    rows, live = in_order(rows), where(existing_rows, pc.invert(existing_rows[SOFT_DELETED]))
    is_known, has_tombstone = _not_after(rows, existing_rows), _not_after(rows, _last_tombstones(tombstones))
    check_positioned_deletes(rows, existing_rows, tombstones)
    before = SettledRows(rows, is_known, has_tombstone)
    settled = settle_key_updates(before, existing_rows, live, tombstones, shape, overlap_end)
    rows, is_known, has_tombstone = settled.rows, settled.is_known, settled.has_tombstone
    new_rows = where(rows, pc.invert(pc.or_(is_known, has_tombstone)))
    winners = _last_of_each_key(new_rows, live, shape)
    was_deleted = has_tombstone
    if shape.soft_delete:
        was_deleted_before = _not_after(rows, _deletes_before(existing_rows, tombstones))
        was_deleted = pc.if_else(matches(rows[KEY], live[KEY]), has_tombstone, was_deleted_before)
    older_rows = rows.filter(pc.and_(is_known, pc.invert(was_deleted)))
    overtaken = _overtaken_by_partial_rows(older_rows, new_rows, existing_rows, shape)
    if overtaken.num_rows and not set(shape.schema.names) <= set(existing_rows.column_names):
        return ResolvedBatch(Counts(), needs_values=True)
    _require_sent(overtaken, existing_rows, shape)
    is_present, is_delete = matches(winners[KEY], live[KEY]), pc.equal(winners[OP_COLUMN], DELETE)
    is_new = pc.invert(pc.or_(is_present, is_delete))
    _require_later(winners[POSITION].filter(is_new), forgotten)
    counts = Counts(
        applied=winners.num_rows,
        superseded=rows.num_rows - winners.num_rows,
        inserted=_count(is_new),
        updated=_count(pc.and_(is_present, pc.invert(is_delete))),
        deleted=_count(pc.and_(is_present, is_delete)),
        absent=_count(pc.and_(pc.invert(is_present), is_delete)),
    )
    stored, deleted = where(winners, pc.invert(is_delete)), winners.filter(is_delete)
    if shape.soft_delete:
        is_gone = pc.invert(pc.or_(is_known, matches(rows[KEY], stored[KEY])))
        soft_deleted = _soft_deleted_rows(rows.filter(is_gone), has_tombstone.filter(is_gone), existing_rows, shape)
        stored = in_order(pa.concat_tables([stored, soft_deleted]))
    stored = _with_unsent_marks(stored, shape)
    before = _matching(existing_rows.select([KEY, FILE_INDEX, PARTITION_ID]), stored[KEY])
    same_partition = pc.equal(partition_ids(stored, shape.partition_key), before[PARTITION_ID])
    in_place = pc.fill_null(same_partition, False)
    return ResolvedBatch(
        counts,
        removals=by_file(_removed_rows(existing_rows, stored, deleted, shape)),
        replacements=by_file(where(stored.append_column(FILE_INDEX, before[FILE_INDEX]), in_place)),
        inserts=by_partition(where(stored, pc.invert(in_place)), shape.partition_key),
        tombstones=_to_remember(deleted, settled.displacements),
        moves=settled.moves,
        unknown=unknown_keys(new_rows, live),
    )


def _require_later(positions: pa.ChunkedArray, forgotten: str) -> None:
    """Refuse new rows whose key may have been deleted after them."""
    first = pc.min(positions).as_py()
    if not forgotten or first is None or first > forgotten:
        return
    file, row = file_and_row(first)
    message = "A row is older than a delete that is forgotten, so its key may have been deleted since"
    remedy = "Nothing was applied. Reload the table, or move the file out of the raw folder if it repeats old changes"
    raise BadRowError(message, remedy=remedy, file=file, row=row + 1)


def _with_unsent_marks(rows: pa.Table, shape: TableShape) -> pa.Table:
    """Mark the positions of rows whose change did not send all columns.

    An update that seems older than a column (see `Snapshot.added`) is marked up to that column, even if it sent all.
    """
    if not (shape.partial or shape.added):
        return rows
    flags = pc.utf8_rtrim(rows[UNSENT], "0") if shape.partial else pa.repeat("", rows.num_rows)
    for i, is_older in _older_than_columns(rows, shape):
        flags = pc.if_else(is_older, pc.utf8_rpad(flags, i + 1, "0"), flags)
    return with_column(rows, POSITION, _marked(rows[POSITION], flags))


def with_column_marks(rows: pa.Table) -> pa.Table:
    """Rows whose positions end with the marks of the columns that `UNSENT` flags."""
    return with_column(rows, POSITION, _marked(rows[POSITION], pc.utf8_rtrim(rows[UNSENT], "0")))


def without_column_marks(rows: pa.Table) -> pa.ChunkedArray:
    """Positions of stored rows without the marks of columns."""
    return pc.utf8_rtrim(rows[POSITION], SENT_MARK + UNSENT_MARK)


def unsent_flags(rows: pa.Table) -> pa.ChunkedArray:
    """What `UNSENT` was for stored rows, by the marks of their positions."""
    return pc.replace_substring(pc.replace_substring(_column_marks(rows), SENT_MARK, "0"), UNSENT_MARK, "1")


def _marked(positions: pa.ChunkedArray, flags: pa.ChunkedArray) -> pa.ChunkedArray:
    marks = pc.replace_substring(pc.replace_substring(flags, "0", SENT_MARK), "1", UNSENT_MARK)
    return pc.binary_join_element_wise(positions, marks, "")


def _older_than_columns(rows: pa.Table, shape: TableShape) -> Iterator[tuple[int, pa.ChunkedArray]]:
    """For each column that a change added, in order: its index, and which updates may be older than that change.

    Those of direct changes may be older than any, because their names contain the time of the call.

    Args:
        rows: Rows with positions. All count as updates if their operations are unknown.
    """
    if not shape.added:
        return
    files = file_orders(rows[POSITION], _NO_FILE)
    is_direct = pc.match_substring(files, f"/{DIRECT_FOLDER}")
    is_known = OP_COLUMN in rows.column_names
    is_update = pc.fill_null(pc.not_equal(rows[OP_COLUMN], INSERT), False) if is_known else pa.scalar(True)
    for i, column in enumerate(shape.schema):
        if column.name in shape.added:
            is_older = pc.or_(is_direct, pc.less_equal(files, shape.added[column.name]))
            yield i, pc.and_(is_update, is_older)


def _deletes_before(existing_rows: pa.Table, tombstones: pa.Table) -> pa.Table:
    """The last tombstone of each key before its existing row; a soft-deleted row has a later one."""
    changed_at = _matching(existing_rows.select([KEY, POSITION]), tombstones[KEY])[POSITION]
    return _last_tombstones(tombstones.filter(pc.fill_null(pc.less(tombstones[POSITION], changed_at), False)))


def _overtaken_by_partial_rows(
    older_rows: pa.Table, new_rows: pa.Table, existing_rows: pa.Table, shape: TableShape
) -> pa.Table:
    """The last of each key's older rows, if it is no delete and the change that made the lake's row lacked columns.

    Columns that it did not send come from earlier rows, else from the lake's row. Rows that a later change replaces as
    a whole do not count.

    Args:
        older_rows: Rows in order that are older than the lake's.
        new_rows: Rows that are later.
    """
    if not older_rows.num_rows:
        return older_rows
    partial_rows = existing_rows.filter(matches(existing_rows[KEY], _one_chunk(older_rows[KEY])))
    is_partial = pc.match_substring(_column_marks(partial_rows), UNSENT_MARK)
    for _, is_unsent in _unmarked_columns(partial_rows, shape):
        is_partial = pc.or_(is_partial, is_unsent)
    partial_rows = partial_rows.filter(is_partial)
    if shape.partial:
        new_rows = new_rows.filter(pc.equal(new_rows[UNSENT], ""))
    if shape.soft_delete:  # a deleted row keeps its values
        new_rows = new_rows.filter(pc.not_equal(new_rows[OP_COLUMN], DELETE))
    partial_rows = partial_rows.filter(pc.invert(matches(partial_rows[KEY], _one_chunk(new_rows[KEY]))))
    older_rows = older_rows.filter(matches(older_rows[KEY], _one_chunk(partial_rows[KEY])))
    last = _last_of_each_key(older_rows, existing_rows, shape)
    return last.filter(pc.not_equal(last[OP_COLUMN], DELETE))


def _require_sent(older_rows: pa.Table, existing_rows: pa.Table, shape: TableShape) -> None:
    """Refuse rows that are older than the lake's, but have a value that the lake's row lacks.

    The change that made the lake's row kept the values of the columns that it did not send, or had none to keep. They
    are right only if all older changes were applied before it. Another change may have sent another value in between,
    but the lake does not know.

    Args:
        older_rows: See `_overtaken_by_partial_rows`.

    Raises:
        UnsentValueError: The lake's row has another value in a column that its change did not send.
    """
    if not older_rows.num_rows:
        return
    now = _matching(existing_rows, older_rows[KEY])
    unsent = _unsent_by_existing(now, shape)
    for i, column in enumerate(shape.schema):
        values, stored = (comparable(_one_chunk(table[column.name])) for table in (older_rows, now))
        differs = pc.fill_null(pc.not_equal(values, stored), pc.xor(values.is_null(), stored.is_null()))
        lost = older_rows[POSITION].filter(pc.and_(differs, pa.array(unsent[:, i])))
        if len(lost):
            raise _not_sent(column.name, lost[0].as_py())


def _unsent_by_existing(rows: pa.Table, shape: TableShape) -> NDArray[np.bool_]:
    """Existing row by column: whether its last change did not send the value."""
    unsent = _flag_matrix(_column_marks(rows), len(shape.schema), UNSENT_MARK)
    for i, is_unsent in _unmarked_columns(rows, shape):
        unsent[:, i] |= is_unsent.to_numpy()
    return unsent


def _unmarked_columns(rows: pa.Table, shape: TableShape) -> Iterator[tuple[int, pa.ChunkedArray]]:
    """For each column that a change added: its index, and the existing rows whose last change came before that."""
    length = pc.utf8_length(_column_marks(rows))
    for i, is_older in _older_than_columns(rows, shape):
        yield i, pc.and_(is_older, pc.less_equal(length, i))


def _column_marks(rows: pa.Table) -> pa.ChunkedArray:
    return pc.struct_field(pc.extract_regex(rows[POSITION], _COLUMN_MARKS), "marks")


def _not_sent(column: str, position: str) -> UnsentValueError:
    file, row = (None, None) if position == FULL_LOAD_POSITION else file_and_row(position)
    message = f"A later change of the row was applied, which did not send column {column}: its value would be lost"
    remedy = "Nothing was applied. Leave the file out and correct the row by hand, or reload the table"
    return UnsentValueError(message, remedy=remedy, file=file, row=None if row is None else row + 1)


def _to_remember(deleted: pa.Table, displacements: pa.Table | None) -> pa.Table:
    tombstones = deleted.select([LEADING_KEY, KEY, POSITION])
    return pa.concat_tables([tombstones, displacements]) if displacements else tombstones


def _removed_rows(existing_rows: pa.Table, stored: pa.Table, deleted: pa.Table, shape: TableShape) -> pa.Table:
    """Existing rows that are replaced or deleted, see `ResolvedBatch.removals`."""
    is_replaced = matches(existing_rows[KEY], stored[KEY])
    is_deleted = pc.and_(matches(existing_rows[KEY], deleted[KEY]), pc.invert(is_replaced))
    if not shape.soft_delete:
        return existing_rows.filter(pc.or_(is_replaced, is_deleted)).select([FILE_INDEX, LEADING_KEY, KEY])
    is_deleted = pc.and_(is_deleted, pc.invert(existing_rows[SOFT_DELETED]))
    removed = existing_rows.append_column(KEPT_AS_DELETED, is_deleted).filter(pc.or_(is_replaced, is_deleted))
    return removed.select([FILE_INDEX, LEADING_KEY, KEY, KEPT_AS_DELETED])


def _soft_deleted_rows(
    rows: pa.Table, has_tombstone: pa.ChunkedArray, existing_rows: pa.Table, shape: TableShape
) -> pa.Table:
    """Soft-deleted rows to store: the last insert or update of each key that is deleted after the change.

    Args:
        rows: Rows in order, of keys that are not live after the change, and later than the lake's.
        has_tombstone: Whether each is not later than a tombstone of its key.
        existing_rows: The lake's rows.
    """
    has_values = _until_last_upsert(rows)
    rows, has_tombstone = rows.filter(has_values), has_tombstone.filter(has_values)
    if shape.partial:  # a row inserted after a delete does not inherit from the deleted one
        late = rows.filter(pc.and_(has_tombstone, is_last_of_key(_one_chunk(rows[KEY]))))
        is_live = pc.invert(existing_rows[SOFT_DELETED])
        existing_rows = existing_rows.filter(pc.or_(is_live, matches(existing_rows[KEY], late[KEY])))
    return with_constant(_last_of_each_key(rows, existing_rows, shape), OP_COLUMN, DELETE)


def _until_last_upsert(rows: pa.Table) -> pa.Array:
    """Whether each row is not one of the deletes at the end of its key's rows, which are in order."""
    if not rows.num_rows:
        return pa.array([], pa.bool_())
    starts, ends = _spans(is_last_of_key(_one_chunk(rows[KEY])))
    indices = np.arange(rows.num_rows)
    is_delete = pc.equal(rows[OP_COLUMN], DELETE).to_numpy()
    last = np.maximum.reduceat(np.where(is_delete, -1, indices), starts)
    return pa.array(indices <= np.repeat(last, ends - starts + 1))


def resolve_without_key(rows: pa.Table, partition_key: Sequence[str]) -> ResolvedBatch:
    """Resolve change rows of a table without a key: inserts are applied, updates and deletes are ignored."""
    inserts = rows.filter(pc.equal(rows[OP_COLUMN], INSERT))
    counts = Counts(applied=inserts.num_rows, inserted=inserts.num_rows, ignored=rows.num_rows - inserts.num_rows)
    return ResolvedBatch(counts, inserts=by_partition(inserts, partition_key))


def resolve_full_load(rows: pa.Table, shape: TableShape) -> ResolvedBatch:
    """Resolve rows of a full load, any order."""
    counts = Counts(applied=rows.num_rows, inserted=rows.num_rows)
    inserts = by_partition(rows, shape.partition_key, LEADING_KEY if shape.primary_key else "")
    return ResolvedBatch(counts, inserts=inserts)


def resolve_difference(rows: pa.Table, existing_rows: pa.Table, shape: TableShape) -> ResolvedBatch:
    """Resolve all rows of a full load of some keys that is compared with the table: what is equal stays as it is.

    The table then has the rows that it would have if they had replaced it. Rows that repeat a key are all inserted,
    because the task that writes them keeps the last and quarantines the others.

    Args:
        rows: Rows in flight, any order.
        existing_rows: All rows that the table has in the same range of keys, with all columns.

    Raises:
        IntegrityError: The lake contains a key twice.
    """
    _require_distinct(existing_rows)
    rows = in_order(rows)
    is_last = is_last_of_key(_one_chunk(rows[KEY]))
    is_repeated = matches(rows[KEY], _one_chunk(rows.filter(pc.invert(is_last))[KEY]))
    before = _matching(existing_rows, rows[KEY])
    was_live = pc.fill_null(pc.invert(before[SOFT_DELETED]), False)
    is_equal = pc.and_not(was_live, is_repeated)
    for name in shape.schema.names:
        is_equal = pc.and_(is_equal, equal_values(rows[name], before[name]))
        if pa.types.is_floating(rows[name].type) and name not in shape.partition_key:  # both zeros share a folder
            is_equal = pc.and_(is_equal, _equal_signs(rows[name], before[name]))
    stored, kept = where(rows, pc.invert(is_equal)), _one_chunk(rows[KEY].filter(is_equal))
    removed = existing_rows.filter(pc.invert(matches(existing_rows[KEY], kept)))
    is_surplus = pc.invert(pc.or_(matches(removed[KEY], _one_chunk(rows[KEY])), removed[SOFT_DELETED]))
    updated, surplus = _count(pc.and_(pc.and_not(was_live, is_equal), is_last)), _count(is_surplus)
    counts = Counts(
        applied=stored.num_rows + surplus,
        superseded=len(kept),
        inserted=stored.num_rows - updated,
        updated=updated,
        deleted=surplus,
    )
    file_index, was_in = (before[name].filter(pc.invert(is_equal)) for name in (FILE_INDEX, PARTITION_ID))
    in_place = pc.fill_null(pc.equal(partition_ids(stored, shape.partition_key), was_in), False)
    in_place = pc.and_not(in_place, is_repeated.filter(pc.invert(is_equal)))
    removals = removed.select([FILE_INDEX, LEADING_KEY, KEY])
    if shape.soft_delete:
        removals = removals.append_column(KEPT_AS_DELETED, pa.repeat(False, removed.num_rows))
    return ResolvedBatch(
        counts,
        removals=by_file(removals),
        replacements=by_file(where(stored.append_column(FILE_INDEX, file_index), in_place)),
        inserts=by_partition(where(stored, pc.invert(in_place)), shape.partition_key),
    )


def _require_distinct(existing_rows: pa.Table) -> None:
    if len(pc.unique(existing_rows[KEY])) != existing_rows.num_rows:
        message = "The lake table contains a key more than once"
        raise IntegrityError(message, remedy="Reload the table with a full load")


def equal_values(left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whether values are equal; null equals null, and NaN equals NaN."""
    equal = pc.or_(pc.fill_null(pc.equal(left, right), False), pc.and_(left.is_null(), right.is_null()))
    if pa.types.is_floating(left.type):
        equal = pc.or_(equal, pc.fill_null(pc.and_(pc.is_nan(left), pc.is_nan(right)), False))
    return equal


def _equal_signs(left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whether equal floating-point values also have the same sign, which 0.0 and -0.0 do not."""
    return equal_values(pc.divide(1.0, left), pc.divide(1.0, right))


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def in_order(rows: pa.Table, columns: Sequence[str] = (LEADING_KEY, KEY, POSITION)) -> pa.Table:
    """Sort rows by these columns."""
    if rows.num_rows and _is_ascending(_one_chunk(rows[columns[0]])):
        return rows
    return take(rows, pc.sort_indices(rows, [(name, "ascending") for name in columns]))


def _is_ascending(values: pa.Array) -> bool:
    """Whether each value is greater than the one before, which saves the sort."""
    return bool(pc.all(pc.less(values.slice(0, len(values) - 1), values.slice(1))).as_py() is not False)


def is_last_of_key(keys: pa.Array) -> pa.Array:
    """Whether each of some sorted keys is the last of equal ones."""
    if not len(keys):
        return pa.array([], pa.bool_())
    changes = pc.not_equal(keys.slice(0, len(keys) - 1), keys.slice(1))
    return pa.concat_arrays([changes, pa.array([True])])


def _last_tombstones(tombstones: pa.Table) -> pa.Table:
    """The last tombstone of each key."""
    tombstones = in_order(tombstones, (KEY, POSITION))
    return tombstones.filter(is_last_of_key(_one_chunk(tombstones[KEY])))


def _not_after(rows: pa.Table, known: pa.Table) -> pa.ChunkedArray:
    """Whether each row is not later than the known row of its key; false if there is none."""
    known_positions = _matching(known.select([KEY, POSITION]), rows[KEY])[POSITION]
    return pc.fill_null(pc.less_equal(rows[POSITION], known_positions), False)


def _matching(known: pa.Table, keys: pa.ChunkedArray) -> pa.Table:
    """The known row of each key; all null where there is none."""
    return take(known, pc.index_in(keys, value_set=_one_chunk(known[KEY])))


def _last_of_each_key(rows: pa.Table, existing_rows: pa.Table, shape: TableShape) -> pa.Table:
    """The last row of each key. Columns that it did not send come from earlier rows, else from the lake's row."""
    is_last = is_last_of_key(_one_chunk(rows[KEY]))
    winners = where(rows, is_last)
    if not shape.partial or not winners.num_rows:
        return winners
    starts, ends = _spans(is_last)
    unsent = unsent_matrix(rows, len(shape.schema))
    is_delete = pc.equal(rows[OP_COLUMN], DELETE)
    unsent[is_delete.to_numpy()] = False  # a deleted row has no values to inherit
    before = _matching(existing_rows, winners[KEY])
    for i, column in enumerate(shape.schema):
        if not unsent[:, i].any():
            continue
        sent_at = np.maximum.accumulate(np.where(unsent[:, i], -1, np.arange(rows.num_rows)))[ends]
        was_sent = sent_at >= starts
        values = pc.if_else(is_delete, pa.scalar(None, rows[column.name].type), rows[column.name])
        picked = take(pa.table({KEY: values}), pa.array(sent_at, mask=~was_sent))[KEY]
        completed = pc.if_else(pa.array(was_sent), picked, before[column.name])
        winners = with_column(winners, column.name, completed)
    return winners


def _spans(is_last: pa.Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """First and last index of each key's rows, given which row is the last of its key; there is at least one row."""
    ends = np.flatnonzero(is_last.to_numpy(zero_copy_only=False))
    return np.concatenate([[0], ends[:-1] + 1]), ends


def unsent_matrix(rows: pa.Table, columns: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Row by column: whether the value was not sent."""
    return _flag_matrix(rows[UNSENT], columns, "1")


def _flag_matrix(texts: pa.ChunkedArray, columns: int, flag: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Text by column: whether the text has the flag there; a column after its end has none."""
    text = "".join(pc.utf8_rpad(texts, columns, "0").to_pylist())
    flags: np.ndarray[Any, np.dtype[np.bool_]] = np.frombuffer(text.encode(), dtype="S1") == flag.encode()
    return flags.reshape(len(texts), columns)


def by_file(rows: pa.Table, column: str = FILE_INDEX) -> dict[int, pa.Table]:
    """Rows by the index of a data file in this column, without the column."""
    indices = pc.unique(rows[column]).to_pylist()
    return {i: where(rows, pc.equal(rows[column], i)).drop_columns([column]) for i in indices}


def _count(mask: pa.ChunkedArray) -> int:
    return int(pc.sum(mask).as_py() or 0)
