"""Versions of rows: what the history of a table contains, and how a change is merged into it.

A version is a row of the table as it was from one moment to another. Each change row makes one. The versions of a key
are ordered by the full load after which they came, then by position. Everything else in a version follows from its
neighbors in that order: a late version finds its place, and its neighbors are corrected. This module does no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.errors import IntegrityError
from cdclake.lake.merge.key_updates import (
    KeySpans,
    has_mark,
    has_sequence_of_row_before,
    is_part_of_key_update,
    sequences,
    settle,
)
from cdclake.lake.merge.resolve import (
    by_file,
    equal_values,
    in_order,
    is_last_of_key,
    unsent_flags,
    unsent_matrix,
    with_column_marks,
    without_column_marks,
)
from cdclake.lake.storage.keys import KEY, LEADING_KEY, UNSENT, row_keys
from cdclake.lake.storage.partitions import NO_ROWS, PartitionedRows, by_partition
from cdclake.lake.storage.shape import as_flags, equals_before, with_column, with_constant
from cdclake.lake.storage.types import TIMESTAMP
from cdclake.lake.storage.wide_rows import take
from cdclake.model.iceberg.field_ids import NO_FIELD_IDS
from cdclake.model.position import ARRIVED, FULL_LOAD_POSITION, ROW_PATTERN
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.schema import DELETE, OP_COLUMN, Schema
from cdclake.model.versions import (
    CHANGE_ID,
    DELETED,
    INSERTED,
    MONTH,
    OPERATION,
    OWN_COLUMNS,
    UPDATED,
    VALID_FROM,
    VALID_TO,
    VALIDITY_FLAG,
    YEAR,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.iceberg.field_ids import FieldIds
    from cdclake.model.snapshot import DataFile, History

FILE_INDEX = "_cdc_file_index"
"""Index of the data file that contains a version, files of open versions first; null for a new version."""
_LOAD = "_cdc_load"
_ENDED = "!"
"""Follows the position of a version in the position of its end, if the end's own position is unknown."""
_SEQUENCE = r"^(?P<digits>\d{16})\d{19}\|"
_FILE_TIME = r"\|(?P<day>\d{8})-(?P<time>\d{9})[^|]*\|" + ROW_PATTERN


@dataclass(frozen=True)
class VersionChanges:
    """Changes to the data files of a history. Rows have `file_shape`, keys are keys of versions.

    Attributes:
        removals: By index of a data file, versions that leave it.
        replacements: By index of a data file of closed versions, versions that replace removed ones.
        opened: New open versions, sorted by leading key within each partition.
        closed: New closed versions, likewise.
    """

    removals: dict[int, pa.Table] = field(default_factory=dict)
    replacements: dict[int, pa.Table] = field(default_factory=dict)
    opened: PartitionedRows = NO_ROWS
    closed: PartitionedRows = NO_ROWS


def keyed_shape(table: TableShape) -> TableShape:
    """Shape of a history's data files, with the key of the table and without field ids."""
    return replace(
        table,
        schema=Schema((*table.schema, *OWN_COLUMNS)),
        partition_key=(YEAR, MONTH),
        partial=False,
        complete=True,
        soft_delete=False,
        field_ids=NO_FIELD_IDS,
    )


def history_field_ids(table: TableShape, before: History | None) -> FieldIds:
    """Field ids of a history's files after a change.

    Args:
        table: The table after it.
        before: The history before it; None if there is none.
    """
    columns = Schema((*before.schema, *OWN_COLUMNS)) if before else Schema()
    return keyed_shape(table).with_field_ids(before.field_ids if before else NO_FIELD_IDS, columns).field_ids


def file_shape(table: TableShape) -> TableShape:
    """Shape of a history's data files, with the key of a version, which has the same leading key as the table."""
    leading = len(table.primary_key)
    return replace(keyed_shape(table), primary_key=(*table.primary_key, CHANGE_ID, POSITION), leading=leading)


def version_schema(table: TableShape) -> pa.Schema:
    """Schema of versions to merge: the stored columns, leading key and key of the table, `FILE_INDEX` and `UNSENT`.

    Positions are without the marks of columns that a change did not send; `UNSENT` has them.
    """
    keyed = keyed_shape(table)
    leading_key, key = (keyed.in_flight.field(name) for name in (LEADING_KEY, KEY))
    own = (pa.field(FILE_INDEX, pa.int32()), pa.field(UNSENT, pa.string()))
    return pa.schema([*keyed.stored, leading_key, key, *own])


def existing_versions(rows: pa.Table, index: int, file: DataFile, table: TableShape) -> pa.Table:
    """Convert rows of a data file to `version_schema`.

    Args:
        index: See `FILE_INDEX`.
        file: The data file.
    """
    leading_key, key = keyed_shape(table).keys_of(rows, file.partition)
    columns = {**{name: rows[name] for name in rows.schema.names}, LEADING_KEY: leading_key, KEY: key}
    columns[FILE_INDEX] = pa.repeat(pa.scalar(index, pa.int32()), rows.num_rows)
    columns |= {POSITION: without_column_marks(rows), UNSENT: unsent_flags(rows)}
    return pa.table(columns, schema=version_schema(table))


def new_versions(
    rows: pa.Table, table: TableShape, change: int, time_column: str, loaded_utc: datetime, default_utc: datetime
) -> pa.Table:
    """Make a version of each row in flight. Its operation only shows whether it is a delete.

    Args:
        rows: Rows in flight; the position of a full-load row is the empty one.
        change: Number of the change that makes the versions.
        time_column: Timestamp column with the time since when a row is valid; empty for none.
        loaded_utc: Start of validity of full-load rows without a time in the column.
        default_utc: The same for other rows without a time in the column or the position.
    """
    count = rows.num_rows
    loaded = pa.scalar(loaded_utc, TIMESTAMP)
    valid_from = pc.if_else(pc.equal(rows[POSITION], FULL_LOAD_POSITION), loaded, times_of(rows[POSITION]))
    column = table.schema.find(time_column) if time_column else None
    if column:
        valid_from = pc.coalesce(rows[column.name], valid_from)
    columns = {name: rows[name] for name in (*table.schema.names, POSITION, LEADING_KEY, KEY)}
    columns |= {
        OPERATION: pc.if_else(pc.equal(rows[OP_COLUMN], DELETE), DELETED, UPDATED),
        VALID_FROM: pc.fill_null(valid_from, pa.scalar(default_utc, TIMESTAMP)),
        VALIDITY_FLAG: pa.repeat(pa.scalar(0, pa.int32()), count),
        CHANGE_ID: pa.repeat(pa.scalar(change, pa.int64()), count),
    }
    columns[UNSENT] = pc.fill_null(rows[UNSENT], "") if table.partial else pa.repeat("", count)
    schema = version_schema(table)
    return pa.table({one.name: columns.get(one.name, pa.nulls(count, one.type)) for one in schema}, schema=schema)


def times_of(positions: pa.ChunkedArray) -> pa.ChunkedArray:
    """When the changes at these positions were made, by DMS's change sequence, else by the file's name.

    Returns:
        Timestamps in UTC; null where a position contains neither.
    """
    sequence = pc.struct_field(pc.extract_regex(positions, _SEQUENCE), "digits")
    file = pc.extract_regex(positions, _FILE_TIME)
    stamp = pc.binary_join_element_wise(pc.struct_field(file, "day"), pc.struct_field(file, "time"), "")
    return pc.coalesce(_parse_times(sequence), _parse_times(stamp))


def _parse_times(digits: pa.ChunkedArray) -> pa.ChunkedArray:
    """Parse `yyyymmddHHMMSS` with two or three digits of a fraction; null for anything else."""
    seconds = pc.strptime(pc.utf8_slice_codeunits(digits, 0, 14), "%Y%m%d%H%M%S", "us", error_is_null=True)
    fraction = pc.utf8_rpad(pc.utf8_slice_codeunits(digits, 14, 17), 6, "0")
    return pc.add(seconds, fraction.cast(pa.int64()).cast(pa.duration("us"))).cast(TIMESTAMP)


def loaded_versions(rows: pa.Table, table: TableShape, change: int, time_column: str, loaded_utc: datetime) -> pa.Table:
    """Make a version of each key of a full load: of the last row of the key, as in the table."""
    ordered = in_order(rows)
    last = ordered.filter(is_last_of_key(ordered[KEY].combine_chunks()))
    last = with_constant(last, POSITION, FULL_LOAD_POSITION)
    return new_versions(last, table, change, time_column, loaded_utc, loaded_utc)


def missing_versions(
    live: pa.Table, existing: pa.Table, table: TableShape, change: int, loads: Sequence[int], ended_utc: datetime
) -> pa.Table:
    """The versions that a history lacks for its newest versions to be the rows of the table.

    Args:
        live: A version of each row of the table, one per key.
        existing: All open versions of the same key range.
        change: Number of the change that makes the new versions.
        loads: Numbers of all full loads of the history; a version made before the last is older than all since.
        ended_utc: When rows ended whose delete is unknown.
    """
    newest = take(existing, pc.index_in(live[KEY], value_set=existing[KEY].combine_chunks()))
    is_old = pa.array(_count_loads(newest[CHANGE_ID], loads) < len(loads))
    is_same = pc.and_(is_old, pc.equal(live[POSITION], FULL_LOAD_POSITION))
    is_same = pc.and_(is_same, pc.fill_null(pc.not_equal(newest[OPERATION], DELETED), False))
    for name in table.schema.names:
        is_same = pc.and_(is_same, equal_values(live[name], newest[name]))
    has_position = pc.and_(pc.invert(is_old), pc.fill_null(pc.equal(live[POSITION], newest[POSITION]), False))
    is_present = pc.is_in(existing[KEY], value_set=live[KEY].combine_chunks())
    ended = existing.filter(pc.and_(pc.invert(is_present), pc.not_equal(existing[OPERATION], DELETED)))
    was_old = pa.array(_count_loads(ended[CHANGE_ID], loads) < len(loads))
    positions = pc.if_else(was_old, FULL_LOAD_POSITION, pc.binary_join_element_wise(ended[POSITION], _ENDED, ""))
    count = ended.num_rows
    columns = {
        OPERATION: pa.repeat(DELETED, count),
        VALID_FROM: pa.repeat(pa.scalar(ended_utc, TIMESTAMP), count),
        VALIDITY_FLAG: pa.repeat(pa.scalar(0, pa.int32()), count),
        CHANGE_ID: pa.repeat(pa.scalar(change, pa.int64()), count),
        POSITION: positions,
        FILE_INDEX: pa.nulls(count, pa.int32()),
        UNSENT: pa.repeat("", count),
    }
    deletes = pa.table({name: columns.get(name, ended[name]) for name in ended.schema.names}, schema=ended.schema)
    return pa.concat_tables([live.filter(pc.invert(pc.or_(is_same, has_position))), deletes])


def late_versions(new: pa.Table, existing: pa.Table, loads: Sequence[int]) -> pa.Table:
    """The new versions that are older than the open version of their key, or may be it; see `_in_order`."""
    newest = take(existing, pc.index_in(new[KEY], value_set=existing[KEY].combine_chunks()))
    since_load = pa.array(_count_loads(newest[CHANGE_ID], loads) == len(loads))
    is_before = pc.less(new[POSITION], newest[POSITION])
    is_absence = pc.and_(pc.equal(newest[POSITION], FULL_LOAD_POSITION), pc.equal(newest[OPERATION], DELETED))
    is_before = pc.or_(is_before, pc.and_(is_absence, pc.equal(new[POSITION], FULL_LOAD_POSITION)))
    is_other = pc.and_(pc.equal(new[OPERATION], DELETED), pc.not_equal(newest[OPERATION], DELETED))
    is_again = pc.and_(is_other, pc.equal(sequences(new[POSITION]), sequences(newest[POSITION])))
    is_before = pc.or_(pc.fill_null(is_before, False), pc.fill_null(is_again, False))
    return new.filter(pc.and_(since_load, is_before))


def merge_versions(
    existing: pa.Table, new: pa.Table, table: TableShape, loads: Sequence[int], open_files: int
) -> VersionChanges:
    """Merge new versions of some keys with the existing ones.

    Args:
        existing: The open version of each key that has one; all versions of a key with a late new version.
        new: New versions, any order; those that exist already are ignored.
        loads: As for `missing_versions`.
        open_files: Number of data files of open versions.

    Raises:
        IntegrityError: The history does not have exactly one open version of each key.
    """
    _require_one_open(existing)
    rows, disproved = _in_order(pa.concat_tables([existing, new]), table, loads)
    rows = _settle_key_updates(rows, table, as_flags(rows[FILE_INDEX].is_valid()))
    before = rows.select([OPERATION, VALID_TO, VALIDITY_FLAG])
    exists = as_flags(rows[FILE_INDEX].is_valid())
    keys = rows[KEY].combine_chunks()
    last = as_flags(is_last_of_key(keys))
    first = np.concatenate([[True], last[:-1]]) if len(last) else last
    rows, completed = _complete(rows, table, first, exists)
    rows, has_other_values = _derive_from_neighbors(rows, table, first, last, exists, completed)
    changed = exists & (has_other_values | as_flags(_differ(rows, before)))
    shape = file_shape(table)
    removed = pa.concat_tables([rows.filter(pa.array(changed)), disproved.select(rows.column_names)])
    removed = _with_version_keys(removed, shape)
    written = _with_version_keys(rows.filter(pa.array(changed | ~exists)), shape)
    is_open = pc.equal(written[VALIDITY_FLAG], 1)
    in_place = pc.fill_null(pc.greater_equal(written[FILE_INDEX], open_files), False)
    return VersionChanges(
        removals=by_file(removed.select([LEADING_KEY, KEY, FILE_INDEX]), FILE_INDEX),
        replacements=by_file(written.filter(in_place), FILE_INDEX),
        opened=_by_month(written.filter(is_open)),
        closed=_by_month(written.filter(pc.invert(pc.or_(is_open, in_place)))),
    )


def _in_order(rows: pa.Table, table: TableShape, loads: Sequence[int]) -> tuple[pa.Table, pa.Table]:
    """Sort versions by key and order, and drop new versions of change rows that have one already.

    Returns:
        The versions, and existing ones that new ones disprove, see `_one_of_each_position`.
    """
    rows = rows.append_column(_LOAD, pa.array(_count_loads(rows[CHANGE_ID], loads)))
    columns = (LEADING_KEY, KEY, _LOAD, POSITION)
    rows = take(rows, pc.sort_indices(rows, [(name, "ascending") for name in (*columns, FILE_INDEX)]))  # nulls last
    repeats = equals_before(*(rows[name] for name in columns))
    rows, disproved = _one_of_each_position(rows, repeats) if repeats.any() else (rows, rows.slice(0, 0))
    return _without_repeats(rows, table).drop_columns([_LOAD]).combine_chunks(), disproved


def _without_repeats(rows: pa.Table, table: TableShape) -> pa.Table:
    """Drop new versions of changes that were sent again in another file, where a sequence shows that.

    A row that is sent again with other values stays, because it replaces the row of the table.

    Args:
        rows: Versions in order, one of each position.
    """
    loads = rows[_LOAD].to_numpy()
    candidates = np.flatnonzero(has_sequence_of_row_before(rows))
    candidates = candidates[loads[candidates] == loads[candidates - 1]]
    if not len(candidates):
        return rows
    is_key_update = is_part_of_key_update(rows)[candidates]
    is_repeat = np.zeros(rows.num_rows, dtype=bool)
    is_repeat[candidates] = is_key_update | _are_same(rows, candidates - 1, candidates, table)
    starts, indices = np.flatnonzero(~is_repeat), np.arange(rows.num_rows)
    exists = as_flags(rows[FILE_INDEX].is_valid())
    kept = np.minimum.reduceat(np.where(exists, indices, indices + rows.num_rows), starts) % rows.num_rows
    kept_of_row = np.repeat(kept, np.diff(np.append(starts, rows.num_rows)))
    return rows.filter(pa.array(exists | (kept_of_row == indices)))


def _are_same(
    rows: pa.Table, left: NDArray[np.int64], right: NDArray[np.int64], table: TableShape
) -> NDArray[np.bool_]:
    """Whether pairs of versions, given by their indices, are deletes, or not deletes and have the same values.

    An existing version has values for the columns that its change did not send. If the change was the delete of the
    older of two rows of the key, the existing version is of the other row, see `_settle_key_updates`.
    """
    first, second = (take(rows, pa.array(indices)) for indices in (left, right))
    first_deleted, second_deleted = (as_flags(pc.equal(one[OPERATION], DELETED)) for one in (first, second))
    same = ~(first_deleted | second_deleted)
    unsent = [unsent_matrix(one, len(table.schema)) for one in (first, second)]
    filled = [as_flags(one[FILE_INDEX].is_valid())[:, np.newaxis] for one in (first, second)]
    is_unsent = (unsent[0] | unsent[1]) & (unsent[0] | filled[0]) & (unsent[1] | filled[1])
    for i, name in enumerate(table.schema.names):
        same &= as_flags(equal_values(first[name], second[name])) | is_unsent[:, i]
    return same | (second_deleted & (first_deleted | _have_displaced(rows, left)))


def _have_displaced(rows: pa.Table, indices: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each of some existing versions follows a row that arrived at its key, in place of the delete there."""
    before = take(rows, pa.array(np.maximum(indices - 1, 0))).select([KEY, POSITION])
    found = take(rows, pa.array(indices))
    same_key = as_flags(pc.equal(before[KEY], found[KEY])) & (indices > 0)
    return as_flags(found[FILE_INDEX].is_valid()) & same_key & has_mark(before[POSITION], ARRIVED)


def _one_of_each_position(rows: pa.Table, repeats: NDArray[np.bool_]) -> tuple[pa.Table, pa.Table]:
    """Keep the existing version of each position, else the last new one, as in the table.

    A key that a reload lacked has a delete in place of the loaded row. If the row was in quarantine and is released, it
    disproves the delete.

    Args:
        rows: Versions in order, existing ones first.
        repeats: Whether each has the position of the one before.

    Returns:
        The versions, and existing ones that new ones disprove.
    """
    starts, ends = ~repeats, np.append(~repeats[1:], True)
    group = np.cumsum(starts) - 1
    first, last = np.flatnonzero(starts)[group], np.flatnonzero(ends)[group]
    exists, is_delete = as_flags(rows[FILE_INDEX].is_valid()), as_flags(pc.equal(rows[OPERATION], DELETED))
    is_loaded = as_flags(pc.equal(rows[POSITION], FULL_LOAD_POSITION))
    is_disproved = starts & exists & is_delete & is_loaded & ~is_delete[last]
    is_known = (exists & ~is_disproved)[first]
    return rows.filter(pa.array(np.where(is_known, starts, ends))), rows.filter(pa.array(is_disproved))


def _complete(
    rows: pa.Table, table: TableShape, first: NDArray[np.bool_], exists: NDArray[np.bool_]
) -> tuple[pa.Table, NDArray[np.bool_]]:
    """Fill values that a change did not send from the version before, unless that is a delete.

    An existing version has values, from the version that was before it. It gets another one only if a new version
    between them sent it.

    Args:
        first: Whether each version is the first of its key; of an existing one, earlier versions may be in no row.
        exists: Whether it is not new.

    Returns:
        The versions, and whether each is an existing one that got values.
    """
    completed = np.zeros(rows.num_rows, dtype=bool)
    if not pc.any(pc.not_equal(rows[UNSENT], "")).as_py():
        return rows, completed
    indices = np.arange(rows.num_rows)
    starts = np.maximum.accumulate(np.where(first, indices, 0))
    is_delete = as_flags(pc.equal(rows[OPERATION], DELETED))
    unsent = unsent_matrix(rows, len(table.schema)) & ~is_delete[:, np.newaxis]

    def last_that(has: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The last version of the key up to each one that has a value, and whether there is one and is no delete."""
        at: NDArray[np.int64] = np.maximum.accumulate(np.where(has, indices, 0))
        return at, (at >= starts) & has[at] & ~is_delete[at]

    for i, column in enumerate(table.schema):
        if not unsent[:, i].any():
            continue
        sent_at, is_sent = last_that(~unsent[:, i])
        from_new = exists & unsent[:, i] & is_sent & ~exists[sent_at]
        completed |= from_new
        has_value = ~unsent[:, i] | (exists & ~from_new)
        at, is_found = last_that(has_value)
        values = rows[column.name].combine_chunks().take(pa.array(at, mask=~(has_value | is_found)))
        rows = with_column(rows, column.name, values)
    return rows, completed


def _settle_key_updates(rows: pa.Table, table: TableShape, exists: NDArray[np.bool_]) -> pa.Table:
    """Turn deletes of older rows of a key into updates with the values of the row that arrived, as in the table.

    Args:
        rows: Versions in order, at least one.
        exists: Whether each is not new.
    """
    arrived = has_mark(rows[POSITION], ARRIVED) & ~exists
    if not arrived.any():
        return rows
    spans = KeySpans.of(rows[KEY].combine_chunks())
    is_delete = as_flags(pc.equal(rows[OPERATION], DELETED))
    sources = settle(spans, arrived, is_delete, np.zeros(rows.num_rows, dtype=bool)).sources
    restated = pa.array(np.where(exists, np.arange(rows.num_rows), sources))
    for name in (*table.schema.names, OPERATION, UNSENT):
        rows = with_column(rows, name, take(rows.select([name]), restated)[name])
    return rows


def _count_loads(change_ids: pa.ChunkedArray, loads: Sequence[int]) -> NDArray[np.int64]:
    """Number of full loads up to each change; arbitrary for null."""
    changes = pc.fill_null(change_ids, 0).to_numpy()
    counts: NDArray[np.int64] = np.searchsorted(np.array(loads, np.int64), changes, "right")
    return counts


def _require_one_open(existing: pa.Table) -> None:
    """Refuse existing versions unless each key has exactly one open version."""
    keys = existing[KEY]
    opened = keys.filter(pc.equal(existing[VALIDITY_FLAG], 1))
    if not len(pc.unique(keys)) == len(pc.unique(opened)) == len(opened):
        message = "The history of a table does not have exactly one open version of a key"
        remedy = "Go back to an earlier change with cdclake rollback, and report this error"
        raise IntegrityError(message, remedy=remedy)


def _derive_from_neighbors(
    rows: pa.Table,
    table: TableShape,
    first: NDArray[np.bool_],
    last: NDArray[np.bool_],
    exists: NDArray[np.bool_],
    completed: NDArray[np.bool_],
) -> tuple[pa.Table, NDArray[np.bool_]]:
    """Set operation, end and flag of versions in order, and the values of deletes, from their neighbors.

    If the first version of a key exists already, its operation stays: older versions may not be among the rows.

    Args:
        first: Whether each version is the first of its key.
        last: Whether it is the last.
        exists: Whether it is not new.
        completed: Whether it exists and got values in `_complete`.

    Returns:
        The versions, and whether each existing one gets other source values.
    """
    indices = np.arange(rows.num_rows)
    is_delete = as_flags(pc.equal(rows[OPERATION], DELETED))
    after_delete = np.concatenate([[False], is_delete[:-1]]) if len(is_delete) else is_delete
    operation = pc.if_else(pa.array(first | after_delete), INSERTED, UPDATED)
    operation = pc.if_else(pa.array(is_delete), DELETED, operation)
    operation = pc.if_else(pa.array(first & exists), rows[OPERATION].combine_chunks(), operation)
    valid_to = rows[VALID_FROM].combine_chunks().take(pa.array(indices + 1, mask=last))
    flag = pa.array(last).cast(pa.int32())
    for name, values in ((OPERATION, operation), (VALID_TO, valid_to), (VALIDITY_FLAG, flag)):
        rows = with_column(rows, name, values)
    # A delete has the values of the row that it removes: the values of the last version before it that is not a delete.
    sources = np.maximum.accumulate(np.where(is_delete & ~first, 0, indices)) if len(indices) else indices
    if (sources != indices).any():
        for name in table.schema.names:
            rows = with_column(rows, name, take(rows.select([name]), pa.array(sources))[name])
    return rows, exists & (~exists | completed)[sources]


def _differ(rows: pa.Table, before: pa.Table) -> pa.ChunkedArray:
    """Whether each version differs from `before` in any of its columns."""
    differs = pa.chunked_array([pa.array(np.zeros(rows.num_rows, dtype=bool))])
    for name in before.schema.names:
        differs = pc.or_(differs, pc.invert(equal_values(rows[name], before[name])))
    return differs


def _with_version_keys(rows: pa.Table, shape: TableShape) -> pa.Table:
    """Add year and month and the marks of columns, and replace the key of the table by the key of the version."""
    rows = with_column_marks(rows).drop_columns([UNSENT])
    columns = [column for name in shape.primary_key if (column := shape.schema.find(name))]
    _, keys = row_keys([rows[column.name].combine_chunks() for column in columns])
    valid_from = rows[VALID_FROM]
    rows = rows.append_column(YEAR, pc.utf8_lpad(pc.year(valid_from).cast(pa.string()), 4, "0"))
    rows = rows.append_column(MONTH, pc.utf8_lpad(pc.month(valid_from).cast(pa.string()), 2, "0"))
    return with_column(rows, KEY, keys)


def _by_month(rows: pa.Table) -> PartitionedRows:
    return by_partition(rows.drop_columns([FILE_INDEX]), (YEAR, MONTH))
