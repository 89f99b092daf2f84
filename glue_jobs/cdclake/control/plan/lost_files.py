"""Detects change files that vanished after they were listed and before they were applied. Pure.

Each run stores in the table's item how many change files it listed after the watermark. Applied files may vanish at any
time. But if fewer of the other files are left than the note counts, changes are lost, and the table is frozen: later
changes are not applied. The frozen state is not stored. Each run detects it again, so it ends when the files are back.

The note is small whatever the backlog. It holds two counts and the last file of each: the batch that the run was about
to apply, and the files after that batch. The watermark shows which of them are still pending: it is where the note
begins, or at the end of the batch. With any other watermark (after a full load, a rollback or an edit by an operator)
the note no longer applies.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from cdclake.model.raw.files import file_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.model.raw.files import RawFile


class PendingNote(NamedTuple):
    """The change files that a run listed after the watermark.

    Attributes:
        batch_files: Number of change files that it was about to apply.
        batch_end: Relative key of the last of them in order.
        left_files: Number of change files after the batch.
        left_end: Relative key of the last change file.
        after: The watermark at that time; empty if none.
    """

    batch_files: int
    batch_end: str
    left_files: int
    left_end: str
    after: str

    @classmethod
    def parse(cls, text: str) -> PendingNote | None:
        """Inverse of `str`; None for any other text, such as the one that clears the note."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError):
            return None

    def __str__(self) -> str:
        """The JSON object that the item holds."""
        return json.dumps(self._asdict())


def pending_note(after: str, batch: Sequence[RawFile], pending: Sequence[RawFile]) -> str:
    """The note for the change files after a watermark; empty if there are none.

    Args:
        after: The watermark, relative; empty if none.
        batch: The first of the pending files, which are about to be applied.
        pending: Change files after the watermark, in the order of `RawFile.order`.
    """
    if not pending:
        return ""
    end = batch[-1].relative if batch else after
    return str(PendingNote(len(batch), end, len(pending) - len(batch), pending[-1].relative, after))


def count_vanished(note: str, watermark: str, pending: Sequence[RawFile]) -> int:
    """Number of noted change files that vanished before they were applied.

    A late file that arrives among them hides one vanished file.

    Args:
        watermark: The current watermark, relative; empty if none.
        pending: Change files after it.
    """
    noted = PendingNote.parse(note)
    if noted is None:
        return 0
    if watermark == noted.after:
        expected = noted.batch_files + noted.left_files
    elif watermark == noted.batch_end:
        expected = noted.left_files
    else:
        return 0
    end = file_order(noted.left_end)
    return max(expected - sum(file.order <= end for file in pending), 0)
