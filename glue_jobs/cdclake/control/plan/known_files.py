"""Knows whether the change files up to the watermark are those that the last run saw. Pure.

The time at which a file was written does not tell whether it is new: S3 reports the begin of a multipart upload, and
copies may keep the time of their original. The lake's ledger has all files by name, but the planner does not read it.
So each run stores digests in the table's item. If one differs, a run must find out why.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from cdclake.control.plan.raw_scan import is_in_tail
from cdclake.model.raw.files import file_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cdclake.model.raw.files import RawFile
    from cdclake.model.table.state import TableState

_DIGEST_BYTES = 8


class KnownFiles(NamedTuple):
    """The change files up to a watermark that a run saw.

    Attributes:
        after: The watermark, relative; empty if none.
        tail: Digest of the names and sizes of the files that every scan lists, see `raw_scan.is_in_tail`.
        names: Digest of the names of all files; empty if the run did not list all.
    """

    after: str
    tail: str
    names: str

    @classmethod
    def of(cls, state: TableState, changes: Sequence[RawFile], *, complete: bool = True) -> KnownFiles:
        """The known files of a table.

        Args:
            state: Its item, with the watermark.
            changes: All its change files, in the order to apply them; or a part, if only `tail` is needed.
            complete: Whether they are all.
        """
        after = state.checked_watermark
        end, in_tail = file_order(after), is_in_tail(state)
        known = [file for file in changes if file.order <= end]
        tail = _digest(f"{file.relative}\0{file.size_bytes}" for file in known if in_tail(file))
        return cls(after, tail, _digest(file.relative for file in known) if complete else "")

    @classmethod
    def parse(cls, text: str) -> KnownFiles | None:
        """Inverse of `str`; None for any other text."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError):
            return None

    def __str__(self) -> str:
        """The JSON object that the item holds."""
        return json.dumps(self._asdict())


def _digest(texts: Iterable[str]) -> str:
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for text in texts:
        digest.update(f"{text}\n".encode())
    return digest.hexdigest()
