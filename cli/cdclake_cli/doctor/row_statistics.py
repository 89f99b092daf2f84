"""Statistics of the rows of a sample: counts, nulls, lengths, keys and sequences. Keeps no row. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.raw.added_columns import SEQUENCE_COLUMN
from cdclake.lake.raw.bad_values import added, bad_text, faults_of
from cdclake.lake.raw.cast import as_text
from cdclake.lake.storage.keys import KEY, UNSEEN
from cdclake.model.position import ARRIVED, file_and_row
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.raw.files import RawKind
from cdclake.model.schema import ADDED_PREFIXES, DELETE, INSERT, OP_COLUMN, UPDATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.lake.raw.bad_values import Fault
    from cdclake.lake.raw.rows import BadRow, BadRowKind, RawRows, ReadBatch
    from cdclake.model.raw.files import RawFile
    from cdclake_cli.doctor.types.shapes import TypeStatistics

LOAD = "load"
_MOVED = "moved"
KILOBYTE = 1024
"""The unit of LobMaxSize."""
_MAX_KEYS = 2_000_000
_MAX_PARTITIONS = 20_000
_MAX_BAD_VALUES = 1_000
_SEQUENCE = r"^\d{35}$"
_TIMESTAMP = r"^\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}\.\d{6}$"


@dataclass(frozen=True)
class BadRows:
    """The bad rows with one reason.

    Attributes:
        count: Number of rows.
        kind: What is wrong with them.
        file: File of the first of them, relative to the raw folder.
        row: Number of the first row in its file, from 0; None if unknown.
    """

    count: int
    kind: BadRowKind
    file: str
    row: int | None


@dataclass(frozen=True)
class LongestValues:
    """The longest values of a column.

    Attributes:
        size_bytes: Their length.
        count: Number of values of that length.
        differ: Whether at least two of them differ.
    """

    size_bytes: int
    count: int
    differ: bool


@dataclass
class FileStatistics:
    """Statistics of the rows of one file.

    Attributes:
        sequences: Values of `AR_H_CHANGE_SEQ`, in row order; empty without that column.
        first_decrease: Number, from 0, of the first row that sorts before the row above it; None if there is none.
        rows: Number of rows read.
        updates: Number of updates among them, without bad rows.
        key_changes: Number of those that change the key, as far as before images show it.
        tells_keys: Whether each update has before images of all key columns.
        digest: Equal for change files with equal rows.
    """

    sequences: list[str] = field(default_factory=list)
    first_decrease: int | None = None
    rows: int = 0
    updates: int = 0
    key_changes: int = 0
    tells_keys: bool = True
    digest: bytes = b""


class RowStatistics:
    """Collects statistics of the rows of a sample, file by file.

    Args:
        partition_key: Columns whose distinct values are counted.
        types: Collects what columns of CSV files without types look like.

    Attributes:
        row_counts: Rows by kind: `load`, `I`, `U` and `D`.
        null_counts: Nulls by kind and by column name.
        bad_rows: Bad rows by reason, without values.
        faults: What the bad values have in common, by reason.
        bad_values: The most frequent bad values by reason, for the operator's eyes.
        timestamp_like: Whether all values so far look like DMS's timestamp column, by column.
        latest_timestamps: Greatest text of each such column, by column and change file.
        longest: Longest values by column.
        sequence_like: Whether all values so far in change files have 35 digits, as a change sequence has, by column.
        unique_columns: Columns without nulls or repeated values in the first LOAD rows; None before any LOAD row.
        partitions: Distinct values of the partition columns.
        files: Statistics by relative key of the file.
    """

    def __init__(self, partition_key: Sequence[str] = (), types: TypeStatistics | None = None) -> None:
        self.row_counts: Counter[str] = Counter()
        self.null_counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.bad_rows: dict[str, BadRows] = {}
        self.faults: dict[str, Fault] = {}
        self.bad_values: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.timestamp_like: dict[str, bool] = {}
        self.latest_timestamps: dict[str, dict[str, str]] = defaultdict(dict)
        self.longest: dict[str, LongestValues] = {}
        self.sequence_like: dict[str, bool] = {}
        self.unique_columns: tuple[str, ...] | None = None
        self.partitions: set[tuple[object, ...]] = set()
        self.files: dict[str, FileStatistics] = {}
        self._partition_key, self._types = tuple(partition_key), types
        self._keys: dict[str, list[pa.Array]] = defaultdict(list)
        self._key_count = 0

    def add(self, file: RawFile, raw: RawRows, batch: ReadBatch) -> None:
        """Add the next rows of a file.

        Args:
            raw: The rows as read.
            batch: The same rows, normalized for the lake.
        """
        statistics = self.files.setdefault(file.relative, FileStatistics())
        statistics.rows += raw.columns.num_rows
        if file.kind is RawKind.CHANGE:
            digest = blake2b(statistics.digest, digest_size=16)
            digest.update(raw.columns.serialize())
            statistics.digest = digest.digest()
        if self.unique_columns is None and file.kind is RawKind.FULL_LOAD and raw.columns.num_rows:
            self.unique_columns = _unique_columns(raw)
        if self._types:
            self._types.add(file, raw.columns)
        self._count_nulls(file, raw)
        self._add_texts(file, raw)
        self._add_sequences(file, raw, statistics)
        self._add_batch(file, batch, statistics)
        self.faults = added(self.faults, faults_of(batch.bad_rows))
        for bad in batch.bad_rows:
            self._add_bad_row(bad)

    @property
    def keys_complete(self) -> bool:
        """Whether the keys of all rows were kept, and not only the first ones."""
        return self._key_count <= _MAX_KEYS

    def value_count(self, column: str) -> int:
        """The number of values of a column that are not null."""
        return sum(
            count - self.null_counts[kind][column]
            for kind, count in self.row_counts.items()
            if column in self.null_counts[kind]
        )

    def repeated_load_keys(self) -> int:
        """The number of LOAD rows whose key occurs in an earlier row."""
        keys = self._keys[LOAD]
        if not keys:
            return 0
        count = sum(len(part) for part in keys)
        return count - int(pc.count_distinct(pa.chunked_array(keys)).as_py())

    def unknown_updates(self) -> int:
        """The number of distinct updated keys that no load, insert or key change created."""
        known, updated = [*self._keys[LOAD], *self._keys[INSERT], *self._keys[_MOVED]], self._keys[UPDATE]
        if not updated:
            return 0
        keys = pc.unique(pa.chunked_array(updated))
        is_known = pc.is_in(keys, value_set=pa.chunked_array(known, pa.string()).combine_chunks())
        return int(pc.sum(pc.invert(is_known)).as_py() or 0)

    def _count_nulls(self, file: RawFile, raw: RawRows) -> None:
        kinds = _row_kinds(file, raw)
        if kinds is None:
            return
        for kind in (LOAD,) if file.kind is RawKind.FULL_LOAD else (INSERT, UPDATE, DELETE):
            rows = raw.columns.filter(pc.fill_null(pc.equal(kinds, kind), False))
            if rows.num_rows:
                self.row_counts[kind] += rows.num_rows
                for name, column in zip(rows.schema.names, rows.columns, strict=True):
                    self.null_counts[kind][name] += column.null_count

    def _add_texts(self, file: RawFile, raw: RawRows) -> None:
        for name, column in zip(raw.columns.schema.names, raw.columns.columns, strict=True):
            if not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
                continue
            self._add_longest(name, column)
            if name == OP_COLUMN or name.startswith(ADDED_PREFIXES) or not len(column):
                continue
            if self.timestamp_like.get(name, True):
                self._add_timestamps(file, name, column)
            if file.kind is RawKind.CHANGE and self.sequence_like.get(name, True):
                self.sequence_like[name] = _all_match(_texts(column), _SEQUENCE)

    def _add_longest(self, name: str, column: pa.Array) -> None:
        lengths = pc.binary_length(column)
        greatest = pc.max(lengths).as_py() or 0
        before = self.longest.get(name, LongestValues(0, 0, differ=False))
        if greatest < before.size_bytes or not greatest:
            return
        values = column.filter(pc.equal(lengths, greatest))
        count, differ = len(values), pc.count_distinct(values).as_py() > 1
        if greatest == before.size_bytes:
            count, differ = count + before.count, differ or before.differ
        self.longest[name] = LongestValues(greatest, count, differ)

    def _add_timestamps(self, file: RawFile, name: str, column: pa.Array) -> None:
        texts = _texts(column)
        self.timestamp_like[name] = _all_match(texts, _TIMESTAMP)
        if self.timestamp_like[name] and file.kind is RawKind.CHANGE:
            latest = self.latest_timestamps[name]
            latest[file.relative] = max(latest.get(file.relative, ""), str(pc.max(texts).as_py()))

    def _add_sequences(self, file: RawFile, raw: RawRows, statistics: FileStatistics) -> None:
        if file.kind is RawKind.CHANGE and SEQUENCE_COLUMN in raw.columns.schema.names:
            values = _texts(raw.columns.column(raw.columns.schema.names.index(SEQUENCE_COLUMN)))
            statistics.sequences += [text.strip().zfill(35) for text in values.drop_null().to_pylist() if text.strip()]

    def _add_batch(self, file: RawFile, batch: ReadBatch, statistics: FileStatistics) -> None:
        rows = batch.rows.slice(0, batch.rows.num_rows - batch.derived)
        statistics.updates += pc.equal(rows[OP_COLUMN].combine_chunks(), UPDATE).true_count
        statistics.key_changes += batch.derived
        statistics.tells_keys &= UNSEEN not in rows.column_names or not rows[UNSEEN].combine_chunks().true_count
        if file.kind is RawKind.CHANGE and statistics.first_decrease is None and rows.num_rows > 1:
            positions = rows[POSITION].combine_chunks()
            decreases = pc.indices_nonzero(pc.less(positions[1:], positions[:-1]))
            if len(decreases):
                _, statistics.first_decrease = file_and_row(positions[decreases[0].as_py() + 1].as_py())
        if KEY in rows.column_names:
            self._add_keys(file, rows)
        if self._partition_key and len(self.partitions) < _MAX_PARTITIONS:
            partition_key = {name.lower() for name in self._partition_key}
            names = [name for name in rows.column_names if name.lower() in partition_key]
            if len(names) < len(partition_key):
                return
            distinct = rows.select(names).group_by(names).aggregate([]).to_pylist()
            self.partitions |= {tuple(row.values()) for row in distinct}

    def _add_keys(self, file: RawFile, rows: pa.Table) -> None:
        self._key_count += rows.num_rows
        if not self.keys_complete:
            return
        keys = rows[KEY].cast(pa.string())  # the column's type may differ between files
        if file.kind is RawKind.FULL_LOAD:
            self._keys[LOAD] += keys.chunks
            return
        for kind in (INSERT, UPDATE):
            self._keys[kind] += keys.filter(pc.equal(rows[OP_COLUMN], kind)).chunks
        self._keys[_MOVED] += keys.filter(pc.ends_with(rows[POSITION], ARRIVED)).chunks

    def _add_bad_row(self, bad: BadRow) -> None:
        before = self.bad_rows.get(bad.reason, BadRows(0, bad.kind, bad.file, bad.row))
        self.bad_rows[bad.reason] = replace(before, count=before.count + 1)
        text, texts = bad_text(bad), self.bad_values[bad.reason]
        if text is not None and (text in texts or len(texts) < _MAX_BAD_VALUES):
            texts[text] += 1


def _row_kinds(file: RawFile, raw: RawRows) -> pa.Array | None:
    """The kind of each row: `load`, `I`, `U` or `D`; None for a change file without Op."""
    if file.kind is RawKind.FULL_LOAD:
        return pa.repeat(LOAD, raw.columns.num_rows)
    if OP_COLUMN not in raw.columns.schema.names:
        return None
    return _texts(raw.columns.column(raw.columns.schema.names.index(OP_COLUMN)))


def _all_match(texts: pa.Array, pattern: str) -> bool:
    """Whether there is at least one text, none is null and all match."""
    return not texts.null_count and bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _unique_columns(raw: RawRows) -> tuple[str, ...]:
    rows = raw.columns
    without_nulls = {name: column for name, column in zip(rows.schema.names, rows.columns) if not column.null_count}
    return tuple(name for name, column in without_nulls.items() if _may_be_key(name, column))


def _may_be_key(name: str, column: pa.Array) -> bool:
    kind = column.type
    is_key_type = pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_binary(kind)
    added = name == OP_COLUMN or name.startswith(ADDED_PREFIXES)
    return is_key_type and not added and pc.count_distinct(column).as_py() == len(column)


def _texts(values: pa.Array) -> pa.Array:
    """Values as text; CSV bytes that are not UTF-8 become null."""
    if pa.types.is_binary(values.type):
        try:
            return values.cast(pa.string())
        except pa.ArrowInvalid:
            return pa.array([_decoded(value) for value in values.to_pylist()], pa.string())
    return as_text(values)


def _decoded(value: bytes | None) -> str | None:
    text = None if value is None else value.decode("utf-8", "replace")
    return None if text is None or "\N{REPLACEMENT CHARACTER}" in text else text
