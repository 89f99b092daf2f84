"""The kernel: merges base files (several, one or none) and their changes into new data files."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from math import ceil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.errors import IntegrityError
from cdclake.lake.merge.resolve import in_order, is_last_of_key
from cdclake.lake.merge.sorted_rows import SortedRows, parts_of
from cdclake.lake.raw.rows import BadRow, BadRowKind
from cdclake.lake.storage.key_ranges import split_unsorted
from cdclake.lake.storage.keys import KEY, LEADING_KEY, matches
from cdclake.lake.storage.reader import read_batches
from cdclake.lake.storage.shape import TableShape, conform, is_deleted, with_column, with_constant
from cdclake.lake.storage.wanted_keys import WantedKeys
from cdclake.lake.storage.writer import DataFileWriter, Encodings
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.position import FULL_LOAD_POSITION
from cdclake.model.schema import DELETE, OP_COLUMN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyarrow.fs import FileSystem

    from cdclake.lake.storage.partitions import Partition
    from cdclake.model.snapshot import DataFile, KeyValue


@dataclass(frozen=True)
class MergeSpec:
    """What to merge.

    Attributes:
        bases: The data files to replace, `path` being the object key, in the order of their rows; none if all rows are
            new.
        partition: Partition of these files and of every added row.
        file_count: Number of files to write.
        staged_keys: Object keys to write to, at least `file_count`.
        cuts: Leading keys at which the files begin, from the second on; none to write files of equal size. If there are
            as many files, the rows before the first and from the last on are in the first file.
        full_load: Whether the added rows are a full load's, which are older than every change. They are written with
            the empty position, in place of the one that contains file and row.
        repeated: Positions of added rows that do not count, because a later row of another partition has the same key.
        keeps_order: Whether the added rows have distinct keys and keep their order.
        purge_soft_deleted: Whether to drop soft-deleted rows of the base files.
    """

    bases: tuple[DataFile, ...]
    partition: Partition
    file_count: int
    staged_keys: tuple[str, ...]
    cuts: tuple[KeyValue, ...] = ()
    full_load: bool = False
    repeated: frozenset[str] = frozenset()
    keeps_order: bool = False
    purge_soft_deleted: bool = False

    @property
    def sorts_rows(self) -> bool:
        """Whether all rows are sorted, to split them evenly."""
        return self.file_count > 1 and not self.cuts


@dataclass(frozen=True)
class MergeResult:
    """Outcome of a merge.

    Attributes:
        files: The files written, `path` being the staged key; none if no row is left.
        duplicates: Full-load rows that were left out because a later row has the same key.
    """

    files: tuple[DataFile, ...]
    duplicates: tuple[BadRow, ...] = ()


def merge(
    fs: FileSystem,
    spec: MergeSpec,
    shape: TableShape,
    removals: pa.Table | None,
    additions: pa.Table | SortedRows,
    soft_deletes: pa.Table | None = None,
    source: FileSystem | None = None,
    encodings: Encodings | None = None,
) -> MergeResult:
    """Write the base files without removed rows and with added ones.

    Remaining rows keep their order; added rows follow, by key. Only if the result is split into several files of equal
    size are all rows sorted by key, so that the files' key ranges do not overlap.

    Args:
        removals: Leading keys and keys of rows to remove from the base files, which contain each exactly once; None
            for none.
        additions: Rows in flight, all of the spec's partition, any order; all of a key are in one part.
        soft_deletes: Likewise, of rows to mark as deleted.
        source: Where to read the base files; None for `fs`.
        encodings: Shared with other merges; None for encodings of its own.

    Raises:
        IntegrityError: The base files do not contain exactly the rows to remove or to mark.
    """
    duplicates: list[BadRow] = []
    added = (_added(part, spec, shape, duplicates) for part in parts_of(additions))
    rows: Iterator[pa.Table] = chain(_remaining_rows(source or fs, spec, shape, removals, soft_deletes), added)
    if spec.cuts:
        return MergeResult(tuple(_cut(rows, fs, spec, shape, encodings or Encodings())), tuple(duplicates))
    count = sum(base.rows for base in spec.bases) - (removals.num_rows if removals else 0) + additions.num_rows
    if spec.sorts_rows and shape.primary_key:
        rows, count = _sorted_by_key(rows, shape, spec.partition)
    rows_per_file = ceil(count / spec.file_count)
    writer = DataFileWriter(fs, spec.staged_keys[: spec.file_count], shape, spec.partition, rows_per_file, encodings)
    for part in rows:
        writer.write(part)
    writer.close()
    return MergeResult(tuple(writer.written), tuple(duplicates))


def _cut(
    rows: Iterable[pa.Table], fs: FileSystem, spec: MergeSpec, shape: TableShape, encodings: Encodings
) -> Iterator[DataFile]:
    """Write rows into a file for each key range, or for the last and the first together; no file if it has no rows."""
    writers = [
        DataFileWriter(fs, (key,), shape, spec.partition, 0, encodings) for key in spec.staged_keys[: spec.file_count]
    ]
    for part in rows:
        for number, own in split_unsorted(part, shape.leading_key_of(part, spec.partition), spec.cuts):
            writers[number % len(writers)].write(own)
    for writer in writers:
        writer.close()
        yield from writer.written


def _added(part: pa.Table, spec: MergeSpec, shape: TableShape, duplicates: list[BadRow]) -> pa.Table:
    """The rows to add of a part with all rows of its keys."""
    if not spec.keeps_order:
        part, repeated = _without_duplicates(part, shape, spec.repeated)
        duplicates += repeated
    return with_constant(part, POSITION, FULL_LOAD_POSITION) if spec.full_load else part


def _remaining_rows(
    fs: FileSystem, spec: MergeSpec, shape: TableShape, remove: pa.Table | None, mark: pa.Table | None
) -> Iterator[pa.Table]:
    expected, found = sum(keys.num_rows for keys in (remove, mark) if keys), 0
    to_remove, to_mark = (WantedKeys(keys, shape) if keys and keys.num_rows else None for keys in (remove, mark))
    for base in spec.bases:
        for batch in read_batches(fs, base.path, shape, file=base, encoded=not spec.sorts_rows):
            rows = batch
            if expected:
                removed, marked = (_find(keys, rows, spec.partition) for keys in (to_remove, to_mark))
                found += removed.true_count + marked.true_count
                rows = _mark_deleted(rows, marked) if marked.true_count else rows
                rows = rows.filter(pc.invert(removed)) if removed.true_count else rows
            yield rows.filter(pc.invert(is_deleted(rows))) if spec.purge_soft_deleted else rows
    if found != expected:
        message = f"Data files contain {found} of {expected} rows that a change removes or deletes"
        raise IntegrityError(
            message, remedy="Reload the table with a full load", file=", ".join(base.path for base in spec.bases)
        )


def _find(keys: WantedKeys | None, rows: pa.Table, partition: Partition) -> pa.Array:
    return keys.find(rows, partition) if keys else pa.repeat(False, rows.num_rows)


def _mark_deleted(rows: pa.Table, marked: pa.Array) -> pa.Table:
    """Set the operation of some rows of a data file to `D`."""
    operations = pc.if_else(marked, DELETE, rows[OP_COLUMN].cast(pa.string()))
    return with_column(rows, OP_COLUMN, operations)


def _without_duplicates(
    additions: pa.Table, shape: TableShape, repeated: frozenset[str]
) -> tuple[pa.Table, tuple[BadRow, ...]]:
    """The last row of each key by position, sorted by key; and the other rows."""
    if not shape.primary_key:
        return additions, ()
    ordered = in_order(additions)
    is_last = is_last_of_key(ordered[KEY].combine_chunks())
    if repeated:
        is_repeated = matches(ordered[POSITION].combine_chunks(), pa.array(sorted(repeated)))
        is_last = pc.and_not(is_last, is_repeated)
    if is_last.true_count == len(is_last):
        return ordered, ()
    duplicates = ordered.filter(pc.invert(is_last)).to_pylist()
    return ordered.filter(is_last), tuple(_duplicate(row, shape) for row in duplicates)


def _duplicate(row: dict[str, Any], shape: TableShape) -> BadRow:
    file, _, number = row[POSITION].rpartition("|")
    reason = f"A later full-load row has the same key ({', '.join(shape.primary_key)})"
    content: dict[str, str | None] = {name: str(row[name]) for name in shape.schema.names}
    return BadRow(file, int(number), BadRowKind.REPEATED_KEY, reason, content)


def _sorted_by_key(
    tables: Iterable[pa.Table], shape: TableShape, partition: Partition
) -> tuple[Iterator[pa.Table], int]:
    """All rows by leading key, and their number."""
    rows = SortedRows(shape.limits)
    for table in tables:
        stored = conform(table, shape.stored)
        rows.add(stored.append_column(LEADING_KEY, shape.leading_key_of(stored, partition)))
    return (in_order(part, (LEADING_KEY,)) for part in rows.parts()), rows.num_rows
