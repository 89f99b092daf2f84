"""Settles keys that two rows have for a moment, because an update moves one row to the key of another.

A statement that shifts or swaps keys moves rows to keys that are in use. Keys are unique again when the statement ends,
so the older row of such a key moves on, or is deleted, in a later row of the statement. That delete of the key must not
delete the row that arrived. The key keeps its row instead: the delete becomes an update with the values of that row.

Whether a key had a row when another arrived depends on rows that may be late, already in the full load, or delivered
again. What remains of a contradiction is refused:

* The older row never leaves, or the key changes while it has two rows.
* The old key of the update had no row: the row had moved already. This involves two keys, whose rows different tasks
  resolve, so the driver compares their reports (`KeyMoves`).
* The older row is one of the full load, which may contain the changes that its files overlap with: then it is the row
  that moved. Only a change sequence can tell that an update is later than the full load.
* A late row shows that the key did, or did not, have a row. The marks in stored positions tell which was assumed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.errors import UnsettledKeyError
from cdclake.lake.storage.keys import KEY, LEADING_KEY, UNSENT, matches
from cdclake.lake.storage.shape import as_flags, equals_before, with_column
from cdclake.lake.storage.wide_rows import take
from cdclake.model.position import ARRIVED, DEPARTED, DISPLACED, FULL_LOAD_POSITION, SENT, file_and_row
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.position import UNSENT as UNSENT_MARK
from cdclake.model.schema import DELETE, OP_COLUMN
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.settings import IMMEDIATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from cdclake.lake.storage.shape import TableShape

    Flags = NDArray[np.bool_]

_SEQUENCE = r"^(?P<sequence>\d{35})\|"
_MARK = rf"(?P<mark>[{ARRIVED}\{DEPARTED}]?)$"
_IF_IMMEDIATE = (
    "If the source checks keys row by row (MySQL, MariaDB, and PostgreSQL unless the key is DEFERRABLE), "
    f"set {Attribute.UNIQUE_CHECKS} to {IMMEDIATE}. Otherwise: "
)
_RELOAD = "Reload the table with a full load"
_REMEDY = f"{_RELOAD}. AR_H_CHANGE_SEQ in the change files avoids this for rows delivered again"


@dataclass(frozen=True)
class KeyMoves:
    """What one task knows of a change's key updates, by position without mark. The driver adds them up.

    Attributes:
        displacing: Updates that moved a row to a key whose older row then left. Their old key must have had a row.
        doubtful: Updates that moved a row to a key with a row like it. Their old key must have had no row.
        overtaken: Updates that moved a row to a key that a later change deleted before. They must be delivered again.
        absent: Updates whose old key had no row.
        superseded: Updates whose old key has a later change.
        repeated: Updates that were applied before, under another file name.
        leaving: Updates whose old key has a row that arrived there, perhaps while the key had another row.
        outdated: Updates whose new key has a row of a later change.
    """

    displacing: frozenset[str] = frozenset()
    doubtful: frozenset[str] = frozenset()
    overtaken: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    superseded: frozenset[str] = frozenset()
    repeated: frozenset[str] = frozenset()
    leaving: frozenset[str] = frozenset()
    outdated: frozenset[str] = frozenset()

    def __add__(self, other: KeyMoves) -> KeyMoves:
        return KeyMoves(*(getattr(self, name) | getattr(other, name) for name in self.__dataclass_fields__))

    @property
    def has_exceptions(self) -> bool:
        """Whether an update is anything but a row that moved from its old key."""
        return any((self.doubtful, self.overtaken, self.absent, self.superseded, self.repeated, self.outdated))

    def check(self) -> None:
        """Compare what is known about the new keys of updates with what is known about the old keys.

        Raises:
            UnsettledKeyError: They contradict each other; names the first update.
        """
        moved_before = self.displacing & (self.absent | self.superseded | self.repeated)
        if moved_before:
            message = "An update moves a row to the key of another row, but its old key has no row to move"
            raise _unsettled(min(moved_before), f"{message}: the row may be at its new key already", _REMEDY)
        unfinished = self.doubtful - self.absent
        if unfinished:
            raise _unfinished(min(unfinished))
        late = self.overtaken - self.repeated
        if late:
            message = "A late update moves a row to a key that was deleted since, perhaps to make place for this row"
            raise _unsettled(min(late), message, _REMEDY)
        unknown = self.leaving & self.outdated
        if unknown:
            message = "A late update moves a row from a key to which another row had moved before: it may be either"
            raise _unsettled(min(unknown), message, _REMEDY)


@dataclass(frozen=True)
class SettledRows:
    """Rows of a change whose key updates are settled.

    Attributes:
        rows: The rows, with the deletes of older rows turned into updates.
        is_known: Whether each is not later than the lake's row of its key.
        has_tombstone: Whether each is not later than a delete of its key.
        moves: What is known about updates that changed keys.
        displacements: Leading key, key and position of rows that arrived at a key whose older row then left, to be
            remembered with the tombstones; None if there are none.
    """

    rows: pa.Table
    is_known: pa.ChunkedArray
    has_tombstone: pa.ChunkedArray
    moves: KeyMoves = KeyMoves()
    displacements: pa.Table | None = None


def settle_key_updates(
    before: SettledRows,
    existing_rows: pa.Table,
    live: pa.Table,
    tombstones: pa.Table,
    shape: TableShape,
    overlap_end: str,
) -> SettledRows:
    """Settle the keys that two rows have for a moment; see the module.

    Args:
        before: Rows in order of key and position.
        existing_rows: The lake's rows of their keys; with all columns if an update changes a key.
        live: Those that are not soft-deleted.
        tombstones: All tombstones of their keys.
        overlap_end: The full load contains no change whose sequence is greater.

    Raises:
        UnsettledKeyError: It is unknown which of two rows a key keeps.
    """
    rows, live = before.rows, _without_column_marks(live)
    arrived, departed = (has_mark(rows[POSITION], mark) for mark in (ARRIVED, DEPARTED))
    is_key_update = arrived | departed
    if not (is_key_update.any() or any(is_part_of_key_update(known).any() for known in (live, tombstones))):
        return before
    known, buried = as_flags(before.is_known), as_flags(before.has_tombstone)
    again = is_delivered_again(rows) | is_key_update & _has_same_sequence(rows, existing_rows)
    again |= _repeats_displacement(rows, live, tombstones)
    remembered = is_key_update & _has_same_sequence(rows, tombstones)
    known, buried = known | again, buried | remembered
    superseded, overtaken = known | buried, arrived & buried & ~known
    _check_late_rows(rows, superseded & ~(again | remembered | overtaken), live, tombstones)
    moves = KeyMoves(
        overtaken=_positions(rows, np.flatnonzero(overtaken)),
        superseded=_positions(rows, np.flatnonzero(departed & superseded & ~(again | remembered))),
        repeated=_positions(rows, np.flatnonzero(departed & (again | remembered))),
        leaving=_positions(rows, np.flatnonzero(departed & ~superseded & _may_have_joined(rows, live, overlap_end))),
        outdated=_positions(rows, np.flatnonzero(arrived & known & ~again)),
    )
    fresh = np.flatnonzero(~superseded)
    if not len(fresh):
        return SettledRows(rows, _array(known), _array(buried), moves)
    part = take(rows, pa.array(fresh))
    is_delete = as_flags(pc.equal(part[OP_COLUMN], DELETE))
    spans = KeySpans.of(part[KEY].combine_chunks())
    had_row = as_flags(matches(part[KEY], live[KEY]))
    settled = settle(spans, arrived[fresh], is_delete, had_row)
    if settled.ambiguous:
        raise _ambiguous(part[POSITION][settled.ambiguous[0]].as_py())
    for i in settled.unfinished:
        if not _may_have_moved_already(part, i, live, shape):
            raise _unfinished(part[POSITION][i].as_py())
    may_be_loaded = (spans.starts == np.arange(len(fresh))) & _may_be_loaded(part, live, overlap_end)
    for i in settled.displacing:
        if may_be_loaded[i]:
            raise _loaded(part[POSITION][i].as_py())
    is_delete &= settled.sources == np.arange(len(fresh))
    absent = departed[fresh] & ~spans.has_row_before(had_row, is_delete)
    moves += KeyMoves(
        displacing=_positions(part, settled.displacing),
        doubtful=_positions(part, settled.unfinished),
        absent=_positions(part, np.flatnonzero(absent)),
    )
    sources = np.arange(rows.num_rows)
    sources[fresh] = fresh[settled.sources]
    arrived_in_lake = as_flags(matches(part[KEY], live[KEY].filter(pa.array(has_mark(live[POSITION], ARRIVED)))))
    after_arrival = np.zeros(rows.num_rows, dtype=bool)
    after_arrival[fresh] = is_delete & spans.before(arrived_in_lake, arrived[fresh])
    displacing = part.take(pa.array(settled.displacing, pa.int64())).select([LEADING_KEY, KEY, POSITION])
    displacements = _with_mark(displacing, np.ones(displacing.num_rows, dtype=bool), DEPARTED)
    rows = _restate(rows, sources, after_arrival)
    return SettledRows(rows, _array(known), _array(buried), moves, displacements)


def _without_column_marks(live: pa.Table) -> pa.Table:
    """Rows of the lake whose positions do not show which columns were sent, so that they end with the other marks."""
    positions = pc.utf8_rtrim(live[POSITION], SENT + UNSENT_MARK)
    return with_column(live, POSITION, positions)


def has_mark(positions: pa.ChunkedArray, mark: str) -> Flags:
    """Whether each position ends with a mark."""
    return as_flags(pc.ends_with(positions, mark))


def _array(flags: Flags) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(flags)])


def is_delivered_again(rows: pa.Table) -> Flags:
    """Whether each key update or delete repeats the one before it: the same key, mark and sequence.

    Args:
        rows: Rows in order of key and position.
    """
    is_candidate = is_part_of_key_update(rows) | as_flags(pc.equal(rows[OP_COLUMN], DELETE))
    return has_sequence_of_row_before(rows) & is_candidate if is_candidate.any() else is_candidate


def is_part_of_key_update(rows: pa.Table) -> Flags:
    """Whether each row arrived at its key or departed from it."""
    return has_mark(rows[POSITION], ARRIVED) | has_mark(rows[POSITION], DEPARTED)


def has_sequence_of_row_before(rows: pa.Table) -> Flags:
    """Whether each row has the key, mark and sequence of the one before it.

    DMS numbers all change rows of a task, so it is the same change in another file, sent again by a resumed task.

    Args:
        rows: Rows in order of key and position.
    """
    marks = pc.struct_field(pc.extract_regex(rows[POSITION], _MARK), "mark")
    return equals_before(rows[KEY], sequences(rows[POSITION]), marks)


def _repeats_displacement(rows: pa.Table, live: pa.Table, tombstones: pa.Table) -> Flags:
    """Whether each row is a delete that is the last change of the lake's row: it concerned an older row of the key."""
    displaced = tombstones.filter(pa.array(has_mark(tombstones[POSITION], DISPLACED)))
    stayed = live.filter(matches(live[KEY], displaced[KEY].combine_chunks()))
    return as_flags(pc.equal(rows[OP_COLUMN], DELETE)) & _has_same_sequence(rows, stayed)


def sequences(positions: pa.ChunkedArray) -> pa.ChunkedArray:
    """DMS's change sequence in each position, which identifies a change row; null if there is none."""
    return pc.struct_field(pc.extract_regex(positions, _SEQUENCE), "sequence")


def _has_same_sequence(rows: pa.Table, known: pa.Table) -> Flags:
    """Whether a known row has the same key and sequence as each row."""
    return as_flags(matches(_key_and_sequence(rows), _key_and_sequence(known).combine_chunks().drop_null()))


def _key_and_sequence(rows: pa.Table) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(rows[KEY].cast(pa.string()), sequences(rows[POSITION]), "|")


@dataclass(frozen=True)
class KeySpans:
    """Where the rows of each key are among rows in order of their keys.

    Attributes:
        starts: For each row, the index of the first row of its key.
        ends: For each row, the index after the last row of its key.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, keys: pa.Array) -> KeySpans:
        """The spans of at least one key."""
        is_first = np.concatenate([[True], as_flags(pc.not_equal(keys[:-1], keys[1:]))])
        firsts = np.flatnonzero(is_first)
        number = np.cumsum(is_first) - 1
        return cls(firsts[number], np.append(firsts[1:], len(keys))[number])

    def before(self, at_start: Flags, flags: Flags) -> Flags:
        """The flag of the row before each row of the same key; for the first row of a key, the flag in `at_start`."""
        is_first = self.starts == np.arange(len(self.starts))
        result: Flags = np.where(is_first, at_start, np.concatenate([[False], flags[:-1]]))
        return result

    def has_row_before(self, had_row: Flags, is_delete: Flags) -> Flags:
        """Whether the key of each row has a row just before it.

        Args:
            had_row: Whether its key had a row before the change.
        """
        return self.before(had_row, ~is_delete)


@dataclass(frozen=True)
class Settled:
    """The outcome of `settle`.

    Attributes:
        sources: For each row, the index of the row with its values: itself, or, for a delete that concerns an older
            row, the row that arrived.
        displacing: Indices of the rows that arrived at a key whose older row then left.
        unfinished: Indices of the last rows that arrived at a key whose older row did not leave.
        ambiguous: Indices of the rows that arrived at a key that changed while it had two rows.
    """

    sources: NDArray[np.int64]
    displacing: tuple[int, ...] = ()
    unfinished: tuple[int, ...] = ()
    ambiguous: tuple[int, ...] = ()


def settle(spans: KeySpans, arrived: Flags, is_delete: Flags, had_row: Flags) -> Settled:
    """Find the deletes that concern the older of two rows of a key.

    Args:
        spans: The keys of the rows, which are in order of key and position, none superseded.
        arrived: Whether each row moved to its key.
        is_delete: Whether each row is a delete, or moved away from its key.
        had_row: Whether its key had a row before the change.
    """
    sources = np.arange(len(arrived), dtype=np.int64)
    displacing: list[int] = []
    unfinished: list[int] = []
    ambiguous: list[int] = []
    for start in np.unique(spans.starts[arrived & spans.has_row_before(had_row, is_delete)]).tolist():
        has_row, newest, is_changed = bool(had_row[start]), -1, False
        for i in range(start, int(spans.ends[start])):
            if is_delete[i] and newest >= 0:
                if is_changed:
                    ambiguous.append(newest)
                else:
                    sources[i] = newest
                    displacing.append(newest)
                has_row, newest, is_changed = not is_changed, -1, False
            elif is_delete[i]:
                has_row = False
            elif arrived[i] and has_row and newest < 0:
                newest = i
            else:
                has_row, is_changed = True, newest >= 0
        if newest >= 0:
            unfinished.append(newest)
    return Settled(sources, tuple(displacing), tuple(unfinished), tuple(ambiguous))


def _restate(rows: pa.Table, sources: NDArray[np.int64], after_arrival: Flags) -> pa.Table:
    """Give rows the values and operation of their sources, and mark deletes of rows that had arrived."""
    positions = _with_mark(rows, after_arrival, ARRIVED)[POSITION]
    if (sources != np.arange(rows.num_rows)).any():
        rows = take(rows, pa.array(sources))
    return with_column(rows, POSITION, positions)


def _with_mark(rows: pa.Table, where: Flags, mark: str) -> pa.Table:
    """Append a mark to the positions of some rows."""
    if not where.any():
        return rows
    marked = pc.binary_join_element_wise(rows[POSITION], mark, "")
    positions = pc.if_else(pa.array(where), marked, rows[POSITION])
    return with_column(rows, POSITION, positions)


def _check_late_rows(rows: pa.Table, is_late: Flags, live: pa.Table, tombstones: pa.Table) -> None:
    """Refuse late rows that contradict what was assumed when another row arrived at their key.

    Args:
        rows: Rows in order of key and position.
        is_late: Whether each row is superseded by what the lake knows, and not delivered again.

    Raises:
        UnsettledKeyError: The key had a row when it was assumed to have none, or the other way around.
    """
    if not is_late.any():
        return
    deletes = defaultdict[Any, list[str]](list)
    for key, position in _keys_and_positions(tombstones):
        deletes[key].append(position)
    newest = {key: max(positions) for key, positions in deletes.items()} | dict(_keys_and_positions(live))
    late_rows = defaultdict[Any, list[tuple[str, bool]]](list)
    for row in rows.filter(pa.array(is_late)).select([KEY, POSITION, OP_COLUMN]).to_pylist():
        late_rows[row[KEY]].append((row[POSITION], row[OP_COLUMN] != DELETE))
    is_live = set(live[KEY].to_pylist())
    for key, late in late_rows.items():
        arrival = newest.get(key, "")
        assumed = arrival.endswith(DEPARTED)
        if not (arrival.endswith(ARRIVED) or (assumed and key in is_live)):
            continue
        if assumed:
            arrival = max((position for position in deletes[key] if position.endswith(DISPLACED)), default="")
        last_delete = max((position for position in deletes[key] if position < arrival), default="")
        before = [row for row in late if last_delete < row[0] < arrival]
        contradicting = [row for row in before[-1:] if row[1] is not assumed]
        contradicting += [row for row in late if arrival < row[0]]
        if contradicting:
            message = "A late row decides whether its key had a row when an update moved another row to it"
            raise _unsettled(contradicting[0][0], message, _REMEDY)


def _keys_and_positions(rows: pa.Table) -> Iterable[tuple[Any, str]]:
    return zip(rows[KEY].to_pylist(), rows[POSITION].to_pylist(), strict=True)


def _may_have_moved_already(rows: pa.Table, i: int, live: pa.Table, shape: TableShape) -> bool:
    """Whether the row that a key had before row `i` has the values of that row, or of a later row of the key."""
    key, arrived_at = rows[KEY][i].as_py(), rows[POSITION][i].as_py()
    names = [column.name for column in shape.schema]
    columns = [name for name in (*names, POSITION, UNSENT) if name in rows.schema.names]
    upserts = rows.filter(pc.and_(pc.equal(rows[KEY], key), pc.not_equal(rows[OP_COLUMN], DELETE))).select(columns)
    ordered = upserts.to_pylist()
    known = live.filter(pc.equal(live[KEY], key)).select(names).to_pylist()
    before = [*known, *(row for row in ordered if row[POSITION] < arrived_at)]
    since = (row for row in ordered if row[POSITION] >= arrived_at)
    return any(_same_values(before[-1], row, names, shape) for row in since)


def _may_have_joined(rows: pa.Table, live: pa.Table, overlap_end: str) -> Flags:
    """Whether the lake's row of each key arrived there by a change that the full load may contain, as the row's may."""
    arrived = live.filter(pa.array(has_mark(live[POSITION], ARRIVED)))
    return as_flags(matches(rows[KEY], arrived[KEY])) & ~_is_after_load(rows, overlap_end)


def _may_be_loaded(rows: pa.Table, live: pa.Table, overlap_end: str) -> Flags:
    """Whether the key of each row has a row of the full load, which may contain the change."""
    loaded = live.filter(pc.equal(live[POSITION], FULL_LOAD_POSITION))
    return as_flags(matches(rows[KEY], loaded[KEY])) & ~_is_after_load(rows, overlap_end)


def _is_after_load(rows: pa.Table, overlap_end: str) -> Flags:
    """Whether each row's sequence shows that the full load does not contain it."""
    return as_flags(pc.fill_null(pc.greater(sequences(rows[POSITION]), overlap_end), False))


def _same_values(known: dict[str, Any], sent: dict[str, Any], names: Sequence[str], shape: TableShape) -> bool:
    unsent = sent.get(UNSENT) or "0" * len(names)
    folders = {name.lower() for name in shape.partition_key}
    pairs = (
        [_comparable(row[name], is_folder=name.lower() in folders) for row in (known, sent)]
        for name, flag in zip(names, unsent, strict=True)
        if flag != "1"
    )
    return all(one == other for one, other in pairs)


def _comparable(value: Any, *, is_folder: bool) -> Any:  # noqa: ANN401 - a value of any type
    """The value, so that NaN equals NaN, and empty text equals null in a partition column."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return None if is_folder and value == "" else value


def _positions(rows: pa.Table, indices: Sequence[int] | NDArray[np.int64]) -> frozenset[str]:
    """Positions of some rows, without marks."""
    positions = rows[POSITION].take(pa.array(indices, pa.int64()))
    return frozenset(pc.utf8_rtrim(positions, ARRIVED + DEPARTED).to_pylist())


def _ambiguous(position: str) -> UnsettledKeyError:
    message = "An update moves a row to the key of another row, and the key changes while two rows have it"
    return _unsettled(position, message, _REMEDY)


def _unfinished(position: str) -> UnsettledKeyError:
    message = "An update moves a row to the key of another row, which has not been moved or deleted"
    remedy = (
        "If the rest of the statement is in the next change file, the next run applies both. If a row is missing,"
        " reload the table with a full load"
    )
    return _unsettled(position, message, remedy)


def _loaded(position: str) -> UnsettledKeyError:
    message = "An update moves a row to the key of a row of the full load, which then leaves: they may be the same row"
    remedy = f"{_RELOAD}. From a day after it on, such updates are applied if the change files have AR_H_CHANGE_SEQ"
    return _unsettled(position, message, remedy)


def _unsettled(position: str, message: str, remedy: str) -> UnsettledKeyError:
    file, row = file_and_row(position)
    return UnsettledKeyError(message, remedy=f"Nothing was applied. {_IF_IMMEDIATE}{remedy}", file=file, row=row + 1)
