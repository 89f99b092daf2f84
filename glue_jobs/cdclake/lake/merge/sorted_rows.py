"""Sorts rows that may be too many for memory: few files of a change, or one, may have all of its long texts."""

from __future__ import annotations

from math import ceil
from os import SEEK_END
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.storage.arrow_ipc import from_ipc, to_ipc
from cdclake.lake.storage.key_ranges import quantiles, sample, split_at_bounds
from cdclake.lake.storage.keys import LEADING_KEY
from cdclake.lake.storage.wide_rows import cut_by_bytes, take

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake.lake.limits import EngineLimits
    from cdclake.model.snapshot import KeyValue

_SAMPLES_PER_PIECE = 16


class _Piece(NamedTuple):
    """Where rows are in the file."""

    start: int
    size_bytes: int


def parts_of(rows: pa.Table | SortedRows) -> Iterator[pa.Table]:
    """Rows in parts, with all rows of a key in one; see `SortedRows`."""
    return rows.parts() if isinstance(rows, SortedRows) else iter((rows,))


class SortedRows:
    """Rows of one file to write, in any order. They come back in parts: one, unless they are many.

    Many rows are sorted by leading key, so that all rows of a key are in one part; without a key they keep their order.

    Args:
        limits: If they need more memory than `sorted_bytes`, they go to a file on disk, compressed.
    """

    def __init__(self, limits: EngineLimits) -> None:
        self.num_rows = 0
        self._limits = limits
        self._tables: list[pa.Table] = []
        self._bytes = 0
        self._spilled: list[_Piece] = []
        self._file: IO[bytes] | None = None
        self._samples: list[KeyValue] = []

    def add(self, rows: pa.Table) -> None:
        """Add rows, with a leading key if the table has a key."""
        if not rows.num_rows:
            return
        self.num_rows += rows.num_rows
        self._bytes += rows.nbytes
        self._tables.append(rows)
        if self._bytes > self._limits.sorted_bytes:
            while self._tables:
                self._spill(self._tables.pop(0))
            pa.default_memory_pool().release_unused()

    def _spill(self, rows: pa.Table) -> None:
        for piece in cut_by_bytes(rows, self._limits.sorted_piece_bytes):
            has_key = LEADING_KEY in piece.column_names
            one = take(piece, pc.sort_indices(piece[LEADING_KEY])) if has_key else piece
            self._samples += sample(one[LEADING_KEY], _SAMPLES_PER_PIECE) if has_key else []
            self._spilled.append(self._write(one))

    def parts(self) -> Iterator[pa.Table]:
        """The rows, once; no part if there are none."""
        if self._tables:
            tables, self._tables = self._tables, []
            yield pa.concat_tables(tables)
        elif self._samples:
            yield from self._by_key()
        else:
            yield from map(self._read, self._spilled)
        if self._file:
            self._file.close()

    def _by_key(self) -> Iterator[pa.Table]:
        count = ceil(self._bytes / self._limits.part_bytes)
        bounds = quantiles(sorted(self._samples), count)  # type: ignore[type-var]  # one kind
        ranges: list[list[_Piece]] = [[] for _ in range(len(bounds) + 1)]
        for piece in self._spilled:
            found = list(split_at_bounds(self._read(piece), bounds))
            for number, rows in found:
                ranges[number].append(piece if len(found) == 1 else self._write(rows))
        for pieces in filter(None, ranges):
            rows = pa.concat_tables(map(self._read, pieces))
            yield take(rows, pc.sort_indices(rows[LEADING_KEY]))
            del rows
            pa.default_memory_pool().release_unused()

    def _write(self, rows: pa.Table) -> _Piece:
        if self._file is None:
            self._file = TemporaryFile()  # noqa: SIM115 - closed with the last part
        data, start = to_ipc(rows), self._file.seek(0, SEEK_END)
        self._file.write(data)
        return _Piece(start, len(data))

    def _read(self, piece: _Piece) -> pa.Table:
        assert self._file
        self._file.seek(piece.start)
        return from_ipc(self._file.read(piece.size_bytes))
