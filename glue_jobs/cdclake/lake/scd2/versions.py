"""Versions of rows: what the history of a table holds, and how a change is merge_into_history into it.

A version is a row of the table as it was from one moment to another. Each change row makes one. Those of a key are
ordered by the full load after which they came and then by their position, and everything else that a version tells
comes of its neighbours in that order: so a version that comes late finds its place, and the ones beside it are
corrected. Nothing here reads or writes files.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.errors import IntegrityError
from cdclake.lake.merge.resolve import in_order, is_last_of_key
from cdclake.lake.storage.keys import KEY, LEADING_KEY, row_keys
from cdclake.lake.storage.partitions import Partition, by_partition
from cdclake.lake.storage.types import TIMESTAMP
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.position import FULL_LOAD_POSITION
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

VERSION_FILE = "_cdc_place"
"""Index of the data file that holds a version, those of open versions first; null for a new one."""
_LOAD = "_cdc_load"
_ENDED = "!"
"""After the position of a version: that of its end, where that is known and its position is not."""
_SEQUENCE = r"^(?P<digits>\d{16})\d{19}\|"
_FILE_TIME = r"\|(?P<day>\d{8})-(?P<time>\d{9})[^|]*\|\d+$"


@dataclass(frozen=True)
class VersionChanges:
    """What becomes of the data files of a history; rows are as `file_shape` says, keys are those of versions.

    Attributes:
        removals: Index of a data file to the versions that leave it.
        replacements: Index of a data file of closed versions to those that take the place of removed ones in it.
        opened: Partition to open versions that are new in it, sorted by route.
        closed: Likewise closed ones.
    """

    removals: dict[int, pa.Table] = field(default_factory=dict)
    replacements: dict[int, pa.Table] = field(default_factory=dict)
    opened: dict[Partition, pa.Table] = field(default_factory=dict)
    closed: dict[Partition, pa.Table] = field(default_factory=dict)


def keyed_shape(table: TableShape) -> TableShape:
    """Shape of a history's data files, with the key of the table."""
    columns = Schema((*table.schema, *OWN_COLUMNS))
    return replace(table, schema=columns, partition_key=(YEAR, MONTH), partial=False, complete=True, soft_delete=False)


def file_shape(table: TableShape) -> TableShape:
    """Shape of a history's data files, with the key of a version: of that and of the table the routes are the same."""
    return replace(keyed_shape(table), primary_key=(*table.primary_key, CHANGE_ID, POSITION))


def version_schema(table: TableShape) -> pa.Schema:
    """Schema of versions to merge: the stored columns, leading key and key of the table, and `VERSION_FILE`."""
    keyed = keyed_shape(table)
    flight = keyed.in_flight
    return pa.schema([*keyed.stored, flight.field(LEADING_KEY), flight.field(KEY), pa.field(VERSION_FILE, pa.int32())])


def new_versions(rows: pa.Table, table: TableShape, change: int, time_column: str, otherwise: datetime) -> pa.Table:
    """A version for each row in flight. Its operation is so far that it deletes the row, or not.

    Args:
        rows: Rows in flight; the position of a full-load row is the empty one.
        change: Number of the change that makes them.
        time_column: Timestamp column that says since when a row is so; empty for none.
        otherwise: What counts where neither the column nor the position tells a time.
    """
    count = rows.num_rows
    began = times_of(rows[POSITION])
    column = table.schema.find(time_column) if time_column else None
    if column:
        began = pc.coalesce(rows[column.name], began)
    began = pc.fill_null(began, pa.scalar(otherwise, TIMESTAMP))
    own = {
        OPERATION: pc.if_else(pc.equal(rows[OP_COLUMN], DELETE), DELETED, UPDATED),
        VALID_FROM: began,
        VALIDITY_FLAG: pa.repeat(pa.scalar(0, pa.int32()), count),
        CHANGE_ID: pa.repeat(pa.scalar(change, pa.int64()), count),
    }
    schema = version_schema(table)
    held = {name: rows[name] for name in (*table.schema.names, POSITION, LEADING_KEY, KEY)}
    given = {**held, **own}
    return pa.table({one.name: given.get(one.name, pa.nulls(count, one.type)) for one in schema}, schema=schema)


def times_of(positions: pa.ChunkedArray) -> pa.ChunkedArray:
    """When the changes of some positions were made: by DMS's change sequence, else by the name of the file.

    Returns:
        Timestamps in UTC; null where neither tells a time.
    """
    sequence = pc.struct_field(pc.extract_regex(positions, _SEQUENCE), "digits")
    file = pc.extract_regex(positions, _FILE_TIME)
    stamp = pc.binary_join_element_wise(pc.struct_field(file, "day"), pc.struct_field(file, "time"), "")
    return pc.coalesce(_time(sequence), _time(stamp))


def _time(digits: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts of `yyyymmddHHMMSS` and two or three digits of a fraction as timestamps; null for what is no time."""
    seconds = pc.strptime(pc.utf8_slice_codeunits(digits, 0, 14), "%Y%m%d%H%M%S", "us", error_is_null=True)
    fraction = pc.utf8_rpad(pc.utf8_slice_codeunits(digits, 14, 17), 6, "0")
    return pc.add(seconds, fraction.cast(pa.int64()).cast(pa.duration("us"))).cast(TIMESTAMP)


def loaded_versions(rows: pa.Table, table: TableShape, change: int, time_column: str, loaded_utc: datetime) -> pa.Table:
    """A version for each key of a full load: of several rows of a key the last one counts, as in the table."""
    ordered = in_order(rows)
    kept = ordered.filter(is_last_of_key(ordered[KEY].combine_chunks()))
    index = kept.schema.get_field_index(POSITION)
    kept = kept.set_column(index, kept.schema.field(index), pa.repeat(FULL_LOAD_POSITION, kept.num_rows))
    return new_versions(kept, table, change, time_column, loaded_utc)


def compared(
    live: pa.Table, known: pa.Table, table: TableShape, change: int, loads: Sequence[int], gone_utc: datetime
) -> pa.Table:
    """The versions that a history lacks so that its newest ones are the rows of the table.

    Args:
        live: A version for each row of the table, one for a key.
        known: All open versions of the same range of keys.
        change: Number of the change that makes the new ones.
        loads: Numbers of all full loads of the history; a version made before the last is older than all since.
        gone_utc: When rows went of which it is not known.
    """
    versions = known.take(pc.index_in(live[KEY], value_set=known[KEY].combine_chunks()))
    is_old = pa.array(_loads_before(versions[CHANGE_ID], loads) < len(loads))
    same = pc.and_(is_old, pc.equal(live[POSITION], FULL_LOAD_POSITION))
    same = pc.and_(same, pc.fill_null(pc.not_equal(versions[OPERATION], DELETED), False))
    for name in table.schema.names:
        same = pc.and_(same, _equal(live[name], versions[name]))
    known_already = pc.and_(pc.invert(is_old), pc.fill_null(pc.equal(live[POSITION], versions[POSITION]), False))
    same = pc.or_(same, known_already)
    there = pc.is_in(known[KEY], value_set=live[KEY].combine_chunks())
    gone = known.filter(pc.and_(pc.invert(there), pc.not_equal(known[OPERATION], DELETED)))
    was_old = pa.array(_loads_before(gone[CHANGE_ID], loads) < len(loads))
    ends = pc.if_else(was_old, FULL_LOAD_POSITION, pc.binary_join_element_wise(gone[POSITION], _ENDED, ""))
    count = gone.num_rows
    set_values = {
        OPERATION: pa.repeat(DELETED, count),
        VALID_FROM: pa.repeat(pa.scalar(gone_utc, TIMESTAMP), count),
        VALIDITY_FLAG: pa.repeat(pa.scalar(0, pa.int32()), count),
        CHANGE_ID: pa.repeat(pa.scalar(change, pa.int64()), count),
        POSITION: ends,
        VERSION_FILE: pa.nulls(count, pa.int32()),
    }
    deletes = pa.table({name: set_values.get(name, gone[name]) for name in gone.schema.names}, schema=gone.schema)
    return pa.concat_tables([live.filter(pc.invert(same)), deletes])


def _equal(left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whether values are the same; null is the same as null, and NaN as NaN."""
    same = pc.or_(pc.fill_null(pc.equal(left, right), False), pc.and_(left.is_null(), right.is_null()))
    if pa.types.is_floating(left.type):
        same = pc.or_(same, pc.fill_null(pc.and_(pc.is_nan(left), pc.is_nan(right)), False))
    return same


def late_versions(new: pa.Table, known: pa.Table, loads: Sequence[int]) -> pa.Table:
    """Of new versions those that come before a known open one of their key."""
    versions = known.take(pc.index_in(new[KEY], value_set=known[KEY].combine_chunks()))
    since_load = pa.array(_loads_before(versions[CHANGE_ID], loads) == len(loads))
    before = pc.fill_null(pc.less(new[POSITION], versions[POSITION]), False)
    return new.filter(pc.and_(since_load, before))


def merge_versions(
    known: pa.Table, new: pa.Table, table: TableShape, loads: Sequence[int], open_files: int
) -> VersionChanges:
    """Put new versions of some keys among the known ones.

    Args:
        known: The open version of each of these keys that has versions; of keys with a new version that is older than
            the open one all versions.
        new: New ones, any order; those that are known already are passed over.
        table: Shape of the table.
        loads: As for `compared`.
        open_files: How many data files of open versions there are.

    Raises:
        IntegrityError: The history has not exactly one open version of each key.
    """
    rows = _in_order(pa.concat_tables([known, new]), loads)
    was = rows.select([OPERATION, VALID_TO, VALIDITY_FLAG])
    is_known = _flags(rows[VERSION_FILE].is_valid())
    keys = rows[KEY].combine_chunks()
    last = _flags(is_last_of_key(keys))
    first = np.concatenate([[True], last[:-1]]) if len(last) else last
    _require_one_open(rows, is_known, keys)
    rows, refilled = _told_by_neighbours(rows, table, first, last, is_known)
    changed = is_known & (refilled | _flags(_differ(rows, was)))
    written = rows.filter(pa.array(changed | ~is_known))
    left = rows.filter(pa.array(changed))
    shape = file_shape(table)
    placed = _with_keys_of_versions(written, shape)
    is_open = pc.equal(placed[VALIDITY_FLAG], 1)
    stays = pc.fill_null(pc.greater_equal(placed[VERSION_FILE], open_files), False)
    return VersionChanges(
        removals=_by_place(_with_keys_of_versions(left, shape).select([LEADING_KEY, KEY, VERSION_FILE])),
        replacements=_by_place(placed.filter(stays)),
        opened=_by_month(placed.filter(is_open)),
        closed=_by_month(placed.filter(pc.invert(pc.or_(is_open, stays)))),
    )


def _in_order(rows: pa.Table, loads: Sequence[int]) -> pa.Table:
    """Versions by key and in order, each once: of a known and a new one of the same position the known one."""
    rows = rows.append_column(_LOAD, pa.array(_loads_before(rows[CHANGE_ID], loads)))
    by = (LEADING_KEY, KEY, _LOAD, POSITION)
    rows = rows.take(pc.sort_indices(rows, [(name, "ascending") for name in (*by, VERSION_FILE)]))  # nulls come last
    again = pa.array(np.ones(max(0, rows.num_rows - 1), dtype=bool))
    for name in by:
        values = rows[name].combine_chunks()
        again = pc.and_(again, pc.equal(values.slice(0, len(again)), values.slice(1)))  # none is null
    if again.true_count:
        rows = rows.filter(pa.concat_arrays([pa.array([True]), pc.invert(again)]))
    return rows.drop_columns([_LOAD]).combine_chunks()


def _loads_before(change_ids: pa.ChunkedArray, loads: Sequence[int]) -> NDArray[np.int64]:
    """How many full loads there were up to each change; for a null it is any number."""
    changes = pc.fill_null(change_ids, 0).to_numpy()
    found: NDArray[np.int64] = np.searchsorted(np.array(loads, np.int64), changes, "right")
    return found


def _require_one_open(rows: pa.Table, is_known: NDArray[np.bool_], keys: pa.Array) -> None:
    """Refuse known versions of which not exactly one is open for each key."""
    known = keys.filter(pa.array(is_known))
    opened = keys.filter(pc.equal(rows[VALIDITY_FLAG].combine_chunks(), 1))
    if not len(pc.unique(known)) == len(pc.unique(opened)) == len(opened):
        message = "The history of a table has not exactly one open version of a key"
        raise IntegrityError(message, remedy="Go back to an earlier change: cdclake rollback; and report this")


def _told_by_neighbours(
    rows: pa.Table, table: TableShape, first: NDArray[np.bool_], last: NDArray[np.bool_], is_known: NDArray[np.bool_]
) -> tuple[pa.Table, NDArray[np.bool_]]:
    """Versions in order with what their neighbours make of them.

    Before the first version of a key there is none, or, if it is known, what made it what it is.

    Args:
        first: Which versions are the first of their key.
        last: Which are the last.
        is_known: Which are not new.

    Returns:
        The versions, and which known ones tell other values of the source than they did.
    """
    locations = np.arange(rows.num_rows)
    deletes = _flags(pc.equal(rows[OPERATION], DELETED))
    after_delete = np.concatenate([[False], deletes[:-1]]) if len(deletes) else deletes
    operation = pc.if_else(pa.array(first | after_delete), INSERTED, UPDATED)
    operation = pc.if_else(pa.array(deletes), DELETED, operation)
    operation = pc.if_else(pa.array(first & is_known), rows[OPERATION].combine_chunks(), operation)
    until = rows[VALID_FROM].combine_chunks().take(pa.array(locations + 1, mask=last))
    flag = pa.array(last).cast(pa.int32())
    for name, values in ((OPERATION, operation), (VALID_TO, until), (VALIDITY_FLAG, flag)):
        rows = _with_column(rows, name, values)
    # A delete tells the row that it took away, which is that of the last version before it that is no delete.
    sources = np.maximum.accumulate(np.where(deletes & ~first, 0, locations)) if len(locations) else locations
    if (sources != locations).any():
        chosen = pa.array(sources)
        for name in table.schema.names:
            rows = _with_column(rows, name, rows[name].take(chosen))
    return rows, deletes & is_known & ~is_known[sources]


def _differ(rows: pa.Table, was: pa.Table) -> pa.ChunkedArray:
    """Which versions differ in one of the columns of `was`."""
    different = pa.chunked_array([pa.array(np.zeros(rows.num_rows, dtype=bool))])
    for name in was.schema.names:
        different = pc.or_(different, pc.invert(_equal(rows[name], was[name])))
    return different


def _with_keys_of_versions(rows: pa.Table, shape: TableShape) -> pa.Table:
    """Versions with year and month, and the key of a version in the place of the table's."""
    columns = [column for name in shape.primary_key if (column := shape.schema.find(name))]
    _, keys = row_keys([rows[column.name].combine_chunks() for column in columns])
    began = rows[VALID_FROM]
    rows = rows.append_column(YEAR, pc.utf8_lpad(pc.year(began).cast(pa.string()), 4, "0"))
    rows = rows.append_column(MONTH, pc.utf8_lpad(pc.month(began).cast(pa.string()), 2, "0"))
    return _with_column(rows, KEY, keys)


def _with_column(rows: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    index = rows.schema.get_field_index(name)
    return rows.set_column(index, name, values)


def _by_place(rows: pa.Table) -> dict[int, pa.Table]:
    locations = pc.unique(rows[VERSION_FILE]).to_pylist()
    return {place: rows.filter(pc.equal(rows[VERSION_FILE], place)).drop_columns([VERSION_FILE]) for place in locations}


def _by_month(rows: pa.Table) -> dict[Partition, pa.Table]:
    return dict(by_partition(rows.drop_columns([VERSION_FILE]), (YEAR, MONTH)))


def _flags(values: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
    flags: NDArray[np.bool_] = (
        values.to_numpy(zero_copy_only=False) if isinstance(values, pa.Array) else values.to_numpy()
    )
    return flags
