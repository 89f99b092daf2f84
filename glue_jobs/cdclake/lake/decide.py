"""What becomes of each change row: the last change of a key wins, and only if it is later than what the lake holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.errors import IntegrityError
from cdclake.lake.arrow_types import partition_text
from cdclake.lake.keys import KEY, ROUTE
from cdclake.lake.raw_reader import DELETE, INSERT
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.schema import OP_COLUMN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Partition = tuple[str | None, ...]

FILE = "_file"
"""Index of the data file in the snapshot that holds a key."""
PARTITION_ID = "_partition"


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
class Decided:
    """Outcome for the keys of one task.

    Attributes:
        removals: Index of a data file to the route and key of rows that leave it, because they are deleted, replaced in
            the same file, or moved to another partition.
        replacements: Index of a data file to the rows that take the place of removed ones in the same file.
        inserts: Partition to rows that are new in it, sorted by route if there is one.
    """

    counts: Counts
    removals: dict[int, pa.Table] = field(default_factory=dict)
    replacements: dict[int, pa.Table] = field(default_factory=dict)
    inserts: dict[Partition, pa.Table] = field(default_factory=dict)


def decide(rows: pa.Table, found: pa.Table, partition_key: Sequence[str]) -> Decided:
    """Decide for all rows of some keys.

    Args:
        rows: Change rows with `Op`, position, route and key; all rows of each key, any order.
        found: The lake's rows of those keys: key, file index, position, partition id; one for a key at most.
        partition_key: Partition columns.

    Raises:
        IntegrityError: The lake holds a key twice.
    """
    if len(pc.unique(found[KEY])) != found.num_rows:
        raise IntegrityError("The lake table holds a key more than once", remedy="Reload the table with a full load")
    winners = _last_of_each_key(rows)
    at = pc.index_in(winners[KEY], value_set=found[KEY].combine_chunks())
    known = found.take(at)
    present = at.is_valid()
    late = pc.fill_null(pc.less_equal(winners[POSITION], known[POSITION]), False)
    deletes = pc.equal(winners[OP_COLUMN], DELETE)

    live, here = pc.invert(late), pc.and_(present, pc.invert(late))
    stays = pc.and_(here, pc.invert(deletes))
    new = pc.and_(pc.and_(live, pc.invert(present)), pc.invert(deletes))
    identities = _partition_ids(winners, partition_key)
    moved = pc.and_(stays, pc.fill_null(pc.not_equal(identities, known[PARTITION_ID]), False))
    in_place = pc.and_(stays, pc.invert(moved))

    applied = _count(live)
    counts = Counts(
        applied=applied,
        superseded=rows.num_rows - applied,
        inserted=_count(new),
        updated=_count(stays),
        deleted=_count(pc.and_(here, deletes)),
        absent=_count(pc.and_(pc.and_(live, pc.invert(present)), deletes)),
    )
    located = winners.append_column(FILE, known[FILE])
    return Decided(
        counts,
        removals=_by_file(located.filter(here).select([FILE, ROUTE, KEY])),
        replacements=_by_file(located.filter(in_place)),
        inserts=dict(by_partition(winners.filter(pc.or_(new, moved)), partition_key)),
    )


def decide_without_key(rows: pa.Table, partition_key: Sequence[str]) -> Decided:
    """Outcome for a table without a key: inserts are taken, everything else is ignored."""
    inserts = rows.filter(pc.equal(rows[OP_COLUMN], INSERT))
    counts = Counts(applied=inserts.num_rows, inserted=inserts.num_rows, ignored=rows.num_rows - inserts.num_rows)
    return Decided(counts, inserts=dict(by_partition(inserts, partition_key)))


def by_partition(rows: pa.Table, partition_key: Sequence[str]) -> Iterator[tuple[Partition, pa.Table]]:
    """Split rows by the text of their partition columns' values; the order within a partition stays."""
    if not partition_key:
        if rows.num_rows:
            yield (), rows
        return
    identities = pc.dictionary_encode(_partition_ids(rows, partition_key).combine_chunks())
    for code in range(len(identities.dictionary)):
        part = rows.filter(pc.equal(identities.indices, code))
        first = part.slice(0, 1)
        yield tuple(partition_text(_one(first[name]))[0].as_py() for name in partition_key), part


def partition_id(partition: Partition) -> str:
    """A partition's values as one text; different partitions give different texts."""
    return "|".join("-" if value is None else f"{len(value)}:{value}" for value in partition)


def _partition_ids(rows: pa.Table, partition_key: Sequence[str]) -> pa.ChunkedArray:
    """`partition_id` of each row."""
    if not partition_key:
        return pa.chunked_array([pa.repeat("", rows.num_rows)])
    texts = [partition_text(_one(rows[name])) for name in partition_key]
    pieces = [
        pc.fill_null(pc.binary_join_element_wise(pc.utf8_length(text).cast(pa.string()), text, ":"), "-")
        for text in texts
    ]
    return pa.chunked_array([pc.binary_join_element_wise(*pieces, "|")])


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _last_of_each_key(rows: pa.Table) -> pa.Table:
    """The row of greatest position of each key, sorted by route and key."""
    ordered = rows.take(pc.sort_indices(rows, [(ROUTE, "ascending"), (KEY, "ascending"), (POSITION, "ascending")]))
    keys = _one(ordered[KEY])
    changes = pc.not_equal(keys.slice(0, max(len(keys) - 1, 0)), keys.slice(1))
    last = pa.array([True] * bool(len(keys)), pa.bool_())
    return ordered.filter(pa.chunked_array([changes, last], pa.bool_()))


def _by_file(rows: pa.Table) -> dict[int, pa.Table]:
    indices = pc.unique(rows[FILE]).to_pylist()
    return {i: rows.filter(pc.equal(rows[FILE], i)).drop_columns([FILE]) for i in indices}


def _count(mask: pa.ChunkedArray) -> int:
    return int(pc.sum(mask).as_py() or 0)
