"""What the rows of a sample have in common: counts, nulls, lengths, keys and sequences, never a row kept. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.raw.normalize import SEQUENCE_COLUMN
from cdclake.lake.raw.reader import ADDED_PREFIXES
from cdclake.lake.storage.keys import KEY
from cdclake.lake.storage.types import as_text
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.rawfiles import RawKind
from cdclake.model.schema import DELETE, INSERT, OP_COLUMN, UPDATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.lake.raw.rows import BadRow, RawRows, ReadBatch
    from cdclake.model.rawfiles import RawFile

LOAD = "load"
_MOVED = "moved"
KILOBYTE = 1024
"""In which DMS counts LobMaxSize."""
_MOST_KEYS = 2_000_000
_MOST_PARTITIONS = 20_000
_SEQUENCE = r"^\d{35}$"
_STAMP = r"^\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}\.\d{6}$"


@dataclass(frozen=True)
class Bad:
    """Bad rows of one reason.

    Attributes:
        count: How many.
        file: The first of them is in it, relative to the raw folder.
        row: Its number in the file; None if it cannot be told.
    """

    count: int
    file: str
    row: int | None


@dataclass(frozen=True)
class Longest:
    """The longest values of a column.

    Attributes:
        size_bytes: Their length.
        count: How many are so long; none is longer.
        different: Whether two of them differ.
    """

    size_bytes: int
    count: int
    different: bool


@dataclass
class FileRows:
    """What the rows of one file tell.

    Attributes:
        sequences: Values of `AR_H_CHANGE_SEQ`, in the order of the rows; none if it has no such column.
        falls_at: Row whose ordering value is less than that of the row before; None if there is none.
        rows: How many were looked at.
        digest: The same for change files whose rows are the same.
    """

    sequences: list[str] = field(default_factory=list)
    falls_at: int | None = None
    rows: int = 0
    digest: bytes = b""


class Tally:
    """Takes in the rows of a sample, file by file.

    Args:
        partition_key: Columns whose values to count.

    Attributes:
        rows: Rows by `load`, `I`, `U` and `D`.
        nulls: For each of these, nulls by column as the files name it.
        bad: Bad rows by reason, without values.
        stamps: Columns all of whose values so far are times as DMS's timestamp column has them; by name, whether so.
        longest: Longest values by column.
        like_sequences: Columns of change files, and whether all values so far have 35 digits, as a change sequence has.
        distinct: Columns without nulls whose values differ in all of the first LOAD rows, in the files' order.
        partitions: Different values of the partition columns.
        stamp_ends: Greatest text of such a column in each change file, by column and file.
        files: What single files tell, by relative key.
    """

    def __init__(self, partition_key: Sequence[str] = ()) -> None:
        self.rows: Counter[str] = Counter()
        self.nulls: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.bad: dict[str, Bad] = {}
        self.stamps: dict[str, bool] = {}
        self.stamp_ends: dict[str, dict[str, str]] = defaultdict(dict)
        self.longest: dict[str, Longest] = {}
        self.like_sequences: dict[str, bool] = {}
        self.distinct: tuple[str, ...] | None = None
        self.partitions: set[tuple[object, ...]] = set()
        self.files: dict[str, FileRows] = {}
        self._partition_key = tuple(partition_key)
        self._keys: dict[str, list[pa.Array]] = defaultdict(list)
        self._key_count = 0

    def add(self, file: RawFile, raw: RawRows, read: ReadBatch) -> None:
        """Take in some rows of a file, in order.

        Args:
            raw: As they were read.
            read: The same as the lake takes them.
        """
        told = self.files.setdefault(file.relative, FileRows())
        told.rows += raw.columns.num_rows
        if file.kind is RawKind.CHANGE:
            digest = blake2b(told.digest, digest_size=16)
            digest.update(raw.columns.serialize())
            told.digest = digest.digest()
        classes = _classes(file, raw)
        if self.distinct is None and file.kind is RawKind.FULL_LOAD and raw.columns.num_rows:
            self.distinct = _distinct(raw)
        self._count_nulls(file, raw, classes)
        self._look_at_texts(file, raw)
        self._take_sequences(file, raw, told)
        self._take_read(file, read, told)
        for bad in read.bad_rows:
            self._take_bad(bad)

    @property
    def keys_complete(self) -> bool:
        """Whether the keys of all rows were kept, and not only the first ones."""
        return self._key_count <= _MOST_KEYS

    def values(self, column: str) -> int:
        """Values of a column that are not null."""
        return sum(count - self.nulls[kind][column] for kind, count in self.rows.items() if column in self.nulls[kind])

    def repeated_load_keys(self) -> int:
        """Rows of the full load whose key came before."""
        keys = self._keys[LOAD]
        if not keys:
            return 0
        count = sum(len(part) for part in keys)
        return count - int(pc.count_distinct(pa.chunked_array(keys)).as_py())

    def unknown_updates(self) -> int:
        """Different keys that are updated, and neither loaded nor inserted, nor made of another key by an update."""
        known, updated = [*self._keys[LOAD], *self._keys[INSERT], *self._keys[_MOVED]], self._keys[UPDATE]
        if not updated:
            return 0
        keys = pc.unique(pa.chunked_array(updated))
        found = pc.is_in(keys, value_set=pa.chunked_array(known, pa.string()).combine_chunks())
        return int(pc.sum(pc.invert(found)).as_py() or 0)

    def _count_nulls(self, file: RawFile, raw: RawRows, classes: pa.Array | None) -> None:
        for kind in (LOAD,) if file.kind is RawKind.FULL_LOAD else (INSERT, UPDATE, DELETE):
            if classes is None:
                return
            rows = raw.columns.filter(pc.fill_null(pc.equal(classes, kind), False))
            if rows.num_rows:
                self.rows[kind] += rows.num_rows
                for name, column in zip(rows.schema.names, rows.columns, strict=True):
                    self.nulls[kind][name] += column.null_count

    def _look_at_texts(self, file: RawFile, raw: RawRows) -> None:
        for name, column in zip(raw.columns.schema.names, raw.columns.columns, strict=True):
            if not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
                continue
            lengths = pc.binary_length(column)
            most = pc.max(lengths).as_py() or 0
            self._take_longest(name, column, lengths, most)
            if name == OP_COLUMN or name.startswith(ADDED_PREFIXES) or not len(column):
                continue
            if self.stamps.get(name, True):
                self._take_stamps(file, name, column)
            if file.kind is RawKind.CHANGE and self.like_sequences.get(name, True):
                self.like_sequences[name] = _all_match(_texts(column), _SEQUENCE)

    def _take_longest(self, name: str, column: pa.Array, lengths: pa.Array, most: int) -> None:
        before = self.longest.get(name, Longest(0, 0, different=False))
        if most < before.size_bytes or not most:
            return
        found = column.filter(pc.equal(lengths, most))
        count, different = len(found), pc.count_distinct(found).as_py() > 1
        if most == before.size_bytes:
            count, different = count + before.count, different or before.different
        self.longest[name] = Longest(most, count, different)

    def _take_stamps(self, file: RawFile, name: str, column: pa.Array) -> None:
        texts = _texts(column)
        self.stamps[name] = _all_match(texts, _STAMP)
        if self.stamps[name] and file.kind is RawKind.CHANGE:
            ends = self.stamp_ends[name]
            ends[file.relative] = max(ends.get(file.relative, ""), str(pc.max(texts).as_py()))

    def _take_sequences(self, file: RawFile, raw: RawRows, told: FileRows) -> None:
        if file.kind is RawKind.CHANGE and SEQUENCE_COLUMN in raw.columns.schema.names:
            values = _texts(raw.columns.column(raw.columns.schema.names.index(SEQUENCE_COLUMN)))
            told.sequences += [text.strip().zfill(35) for text in values.drop_null().to_pylist() if text.strip()]

    def _take_read(self, file: RawFile, read: ReadBatch, told: FileRows) -> None:
        rows = read.rows.slice(0, read.rows.num_rows - read.derived)
        if file.kind is RawKind.CHANGE and told.falls_at is None and rows.num_rows > 1:
            positions = rows[POSITION].combine_chunks()
            falls = pc.indices_nonzero(pc.less(positions[1:], positions[:-1]))
            if len(falls):
                told.falls_at = int(positions[falls[0].as_py() + 1].as_py().rpartition("|")[2])
        if KEY in rows.column_names:
            moved = read.rows.slice(rows.num_rows)[POSITION].combine_chunks()
            self._take_keys(file, rows, moved)
        if self._partition_key and len(self.partitions) < _MOST_PARTITIONS:
            wanted = {name.lower() for name in self._partition_key}
            names = [name for name in rows.column_names if name.lower() in wanted]
            if len(names) < len(wanted):
                return
            different = rows.select(names).group_by(names).aggregate([]).to_pylist()
            self.partitions |= {tuple(row.values()) for row in different}

    def _take_keys(self, file: RawFile, rows: pa.Table, moved: pa.Array) -> None:
        """Keep keys.

        Args:
            moved: Positions of the updates that changed the key.
        """
        self._key_count += rows.num_rows
        if not self.keys_complete:
            return
        keys = rows[KEY].cast(pa.string())  # files may differ in the column's type
        if file.kind is RawKind.FULL_LOAD:
            self._keys[LOAD] += keys.chunks
            return
        for kind in (INSERT, UPDATE):
            self._keys[kind] += keys.filter(pc.equal(rows[OP_COLUMN], kind)).chunks
        if len(moved):
            self._keys[_MOVED] += keys.filter(pc.is_in(rows[POSITION], value_set=moved)).chunks

    def _take_bad(self, bad: BadRow) -> None:
        before = self.bad.get(bad.reason, Bad(0, bad.file, bad.row))
        self.bad[bad.reason] = replace(before, count=before.count + 1)


def _classes(file: RawFile, raw: RawRows) -> pa.Array | None:
    """What each row is: `load`, `I`, `U` or `D`; None if a change file does not tell."""
    if file.kind is RawKind.FULL_LOAD:
        return pa.repeat(LOAD, raw.columns.num_rows)
    if OP_COLUMN not in raw.columns.schema.names:
        return None
    return _texts(raw.columns.column(raw.columns.schema.names.index(OP_COLUMN)))


def _all_match(texts: pa.Array, pattern: str) -> bool:
    """Whether all of some texts, at least one, are there and match."""
    return not texts.null_count and bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _distinct(raw: RawRows) -> tuple[str, ...]:
    rows = raw.columns
    countable = {name: column for name, column in zip(rows.schema.names, rows.columns) if not column.null_count}
    return tuple(name for name, column in countable.items() if _all_differ(name, column))


def _all_differ(name: str, column: pa.Array) -> bool:
    kind = column.type
    of_keys = pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_binary(kind)
    added = name == OP_COLUMN or name.startswith(ADDED_PREFIXES)
    return of_keys and not added and pc.count_distinct(column).as_py() == len(column)


def _texts(values: pa.Array) -> pa.Array:
    """Values as text; bytes of CSV that are no UTF-8 are null."""
    if pa.types.is_binary(values.type):
        try:
            return values.cast(pa.string())
        except pa.ArrowInvalid:
            return pa.array([_decoded(value) for value in values.to_pylist()], pa.string())
    return as_text(values)


def _decoded(value: bytes | None) -> str | None:
    text = None if value is None else value.decode("utf-8", "replace")
    return None if text is None or "\N{REPLACEMENT CHARACTER}" in text else text
