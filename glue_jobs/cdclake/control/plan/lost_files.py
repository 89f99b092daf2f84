"""Notices that change files vanished which were listed and not yet applied. Pure.

A run notes in the table's item how many change files it saw after the watermark. Files that were applied may vanish at
any time; if there are fewer of the noted ones than there must be, changes are lost, and what comes after them is not
applied: the table is frozen. That is not stored but found anew each time, so it ends by itself when the files are back.

The note is small whatever the backlog: two counts with the last file of each, of the batch that the run was about to
apply and of what is left after it. The watermark tells which of them is still to come: it stands where the note
begins, or at the end of the batch. Anywhere else (a full load, a rollback, a person) the note says nothing any more.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from cdclake.model.rawfiles import file_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.model.rawfiles import RawFile


class PendingNote(NamedTuple):
    """What a run saw after the watermark.

    Attributes:
        batch_files: Number of change files it was about to apply.
        batch_end: Relative key of the last of them in order.
        left_files: Number of those after them.
        left_end: Relative key of the last of all.
        after: The watermark then; empty if none.
    """

    batch_files: int
    batch_end: str
    left_files: int
    left_end: str
    after: str

    @classmethod
    def parse(cls, text: str) -> PendingNote | None:
        """Inverse of `str`; None for anything else, such as what a person cleared it with."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError):
            return None

    def __str__(self) -> str:
        """As it stands in the item: a JSON object."""
        return json.dumps(self._asdict())


def pending_note(after: str, batch: Sequence[RawFile], pending: Sequence[RawFile]) -> str:
    """What to note of the change files after a watermark; empty if there are none.

    Args:
        after: The watermark, relative; empty if none.
        batch: Those of the pending files that are about to be applied: the first of them.
        pending: Change files after the watermark, in the order of `RawFile.order`.
    """
    if not pending:
        return ""
    end = batch[-1].relative if batch else after
    return str(PendingNote(len(batch), end, len(pending) - len(batch), pending[-1].relative, after))


def vanished(note: str, watermark: str, pending: Sequence[RawFile]) -> int:
    """How many of the noted change files are gone although they were not applied.

    A late file that came among them since hides one that is gone.

    Args:
        note: As the item has it.
        watermark: The watermark now, relative; empty if none.
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
