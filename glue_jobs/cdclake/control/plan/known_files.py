"""Knows which change files up to the watermark the last run saw, in a few hundred bytes. Pure.

The time at which a file was written does not tell whether it is new: S3 reports the begin of a multipart upload, and
copies may keep the time of their original. The lake knows the files of the late window by name, but the planner does
not read it, and the lake forgets older ones. So each run stores a digest and counts in the table's item.

* The digest is of the names and sizes of the files that every scan lists, see `raw_scan.is_in_tail`.
  If it differs, a run must find out why.
* Each name falls into one of 32 cells by its hash. A cell holds the number of its names and the sum of their hashes. If
  it has one name more than before, the difference of the sums is the hash of that name. If it has several names more,
  only their number is known. Files that vanish hide as many new ones in their cell.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from cdclake.control.plan.raw_scan import is_in_tail
from cdclake.model.raw.files import file_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.model.raw.files import RawFile
    from cdclake.model.table.state import TableState

CELLS = 32
_COUNT_BYTES, _SUM_BYTES = 3, 5
_CELL_BYTES = _COUNT_BYTES + _SUM_BYTES
_DIGEST_BYTES = 8


class _Cell(NamedTuple):
    """Some of the files: their number, and the sum of the hashes of their names, modulo 2^40."""

    files: int = 0
    total: int = 0


class KnownFiles(NamedTuple):
    """The change files up to a watermark that a run saw.

    Attributes:
        after: The watermark, relative; empty if none.
        tail: Digest of names and sizes of the files that every scan lists.
        cells: All files, by the hash of their names.
    """

    after: str
    tail: str
    cells: tuple[_Cell, ...]

    @classmethod
    def of(cls, state: TableState, changes: Sequence[RawFile]) -> KnownFiles:
        """The known files of a table.

        Args:
            state: Its item, with the watermark.
            changes: All its change files, in the order to apply them; or a part, if only `tail` is needed.
        """
        after = state.checked_watermark
        end = file_order(after)
        known = [file for file in changes if file.order <= end]
        tail = blake2b(digest_size=_DIGEST_BYTES)
        in_tail = is_in_tail(state)
        for file in known:
            if in_tail(file):
                tail.update(f"{file.relative}\0{file.size_bytes}\n".encode())
        return cls(after, tail.hexdigest(), _cells(known))

    @classmethod
    def parse(cls, text: str) -> KnownFiles | None:
        """Inverse of `str`; None for any other text."""
        try:
            data = json.loads(text)
            cells = b64decode(data["cells"], validate=True)
            after, tail = str(data["after"]), str(data["tail"])
        except (ValueError, TypeError, KeyError):
            return None
        if len(cells) != CELLS * _CELL_BYTES:
            return None
        parts = (cells[begin : begin + _CELL_BYTES] for begin in range(0, len(cells), _CELL_BYTES))
        return cls(
            after,
            tail,
            tuple(
                _Cell(int.from_bytes(part[:_COUNT_BYTES], "big"), int.from_bytes(part[_COUNT_BYTES:], "big"))
                for part in parts
            ),
        )

    def __str__(self) -> str:
        """The JSON object that the item holds."""
        cells = b"".join(
            files.to_bytes(_COUNT_BYTES, "big") + total.to_bytes(_SUM_BYTES, "big") for files, total in self.cells
        )
        return json.dumps({"after": self.after, "tail": self.tail, "cells": b64encode(cells).decode()})

    def added(self, changes: Sequence[RawFile]) -> list[RawFile]:
        """The files up to the same watermark that were not there before, in the same order.

        Of several in a cell, those that were written last: their number is right, and the names are likely.

        Args:
            changes: All change files, in the order to apply them.
        """
        end = file_order(self.after)
        by_cell: dict[int, list[RawFile]] = {}
        for file in changes:
            if file.order <= end:
                by_cell.setdefault(_hash(file.relative) % CELLS, []).append(file)
        added: list[RawFile] = []
        for number, files in by_cell.items():
            before, now = self.cells[number], _cell(files)
            more, total = now.files - before.files, (now.total - before.total) % (1 << 8 * _SUM_BYTES)
            if more <= 0:
                continue
            one = [file for file in files if _hash(file.relative) == total] if more == 1 else []
            added += one or sorted(files, key=lambda file: file.modified_utc)[-more:]
        return sorted(added, key=lambda file: file.order)

    def vanished(self, changes: Sequence[RawFile]) -> int:
        """At least how many of the files are gone.

        Args:
            changes: All change files, any order.
        """
        end = file_order(self.after)
        cells = _cells([file for file in changes if file.order <= end])
        return sum(max(before.files - now.files, 0) for before, now in zip(self.cells, cells))


def _cells(files: Sequence[RawFile]) -> tuple[_Cell, ...]:
    by_cell: list[list[RawFile]] = [[] for _ in range(CELLS)]
    for file in files:
        by_cell[_hash(file.relative) % CELLS].append(file)
    return tuple(map(_cell, by_cell))


def _cell(files: Sequence[RawFile]) -> _Cell:
    total = sum(_hash(file.relative) for file in files)
    return _Cell(min(len(files), (1 << 8 * _COUNT_BYTES) - 1), total % (1 << 8 * _SUM_BYTES))


def _hash(relative: str) -> int:
    return int.from_bytes(blake2b(relative.encode(), digest_size=_SUM_BYTES).digest(), "big")
