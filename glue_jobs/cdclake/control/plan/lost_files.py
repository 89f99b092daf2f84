"""Detects change files that vanished after they were listed and before they were applied. Pure.

Each run notes in the table's item which change files are due before it applies any. Applied files may vanish at any
time. But if a noted file is neither listed nor in the lake, its changes are lost, and the table is frozen: later
changes are not applied. The frozen state is not stored. Each run detects it again, so it ends when the files are back.
Then the note no longer holds names of applied files, so that the planner, which does not know the lake, agrees. A
rollback takes these names out of the note, too: whoever undoes a change may remove its files.

The note names the oldest files, as many as a run takes by default. Of a larger backlog it counts the others, until
their turn comes.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, NamedTuple

from cdclake.control.plan.left_out import MAX_NAMES
from cdclake.errors import RawFilesLostError
from cdclake.model.raw.files import file_order, is_covered
from cdclake.model.table.attributes import Attribute

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from cdclake.model.raw.files import RawFile, RawFiles
    from cdclake.model.raw.ledger import Recorded
    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table.state import TableState

MAX_NAMED = 10_000
"""`MaxFilesPerRun` by default. DMS's names take some 5 bytes each."""
MAX_PACKED_BYTES = 100_000
"""A quarter of what DynamoDB holds in an item. Names that do not compress take more, so fewer are named."""


class PendingNote(NamedTuple):
    """The due change files that a run listed.

    Attributes:
        names: Relative keys of the oldest ones, in order.
        others: Number of the others.
        last: Relative key of the last of all; empty if there are none.
        load: When the newest LOAD file was written; empty if there was none. A later full load contains their changes.
    """

    names: Sequence[str] = ()
    others: int = 0
    last: str = ""
    load: str = ""

    @classmethod
    def of(cls, due: Iterable[str], load: str = "") -> PendingNote:
        """The note for due change files, by relative key."""
        in_order = sorted(due, key=file_order)
        names = in_order[:MAX_NAMED]
        while len(_packed(names)) > MAX_PACKED_BYTES:
            names = names[: len(names) // 2]
        return cls(names, len(in_order) - len(names), in_order[-1] if in_order else "", load)

    @classmethod
    def of_item(cls, item: Mapping[str, str]) -> PendingNote:
        """The note that a table's item holds; empty if it holds none."""
        return cls.parse(item.get(Attribute.LAST_PENDING, ""))

    @classmethod
    def parse(cls, text: str) -> PendingNote:
        """Inverse of `str`; empty for any other text, such as the one that clears the note."""
        try:
            data = json.loads(text)
            names = zlib.decompress(b64decode(data["names"], validate=True)).decode().split("\0")
            return cls(names, int(data["files"]) - len(names), str(data["last"]), str(data["load"]))
        except (ValueError, TypeError, KeyError, zlib.error):
            return cls()

    def __str__(self) -> str:
        """The JSON object that the item holds; empty if nothing is due."""
        if not self.last:
            return ""
        return json.dumps({"files": self.files, "last": self.last, "names": _packed(self.names), "load": self.load})

    @property
    def files(self) -> int:
        """Number of all due files."""
        return len(self.names) + self.others

    def missing(self, listed: Iterable[RawFile]) -> list[str]:
        """The named files that are not listed, whether applied or not."""
        there = {file.relative for file in listed}
        return [name for name in self.names if name not in there]

    def without(self, names: Collection[str]) -> PendingNote:
        """The note without files that the lake table contains, before a rollback takes them out of it."""
        rest = [name for name in self.names if name not in names]
        if self.names[-1] in names:  # it is unknown how many of the others were applied
            return PendingNote.of(rest, self.load)
        return self._replace(names=rest)


class Vanished(NamedTuple):
    """Change files that vanished before they were applied.

    Attributes:
        names: Relative keys of those that the note names, in order.
        others: Number of the others.
    """

    names: Sequence[str]
    others: int

    def __str__(self) -> str:
        """Their number and the first names."""
        count = len(self.names) + self.others
        first = [*self.names[:MAX_NAMES], *(["..."] if count > len(self.names[:MAX_NAMES]) else [])]
        return f"{count} ({', '.join(first)})" if self.names else str(count)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.names or self.others)


def vanished(
    state: TableState, files: RawFiles, known: Snapshot, recorded: Recorded | None, load: str = ""
) -> Vanished:
    """The noted change files that vanished before they were applied.

    An operator does without the files that `IgnoreFiles` covers.

    Args:
        state: The table's item, with the note.
        files: What is in the raw folder.
        known: The lake table, as far as it is known.
        recorded: Those of the noted files that the lake's ledger contains. None: it is unknown, so the files up to the
            watermark count as contained, unless a run has found that files vanished.
        load: The full load that is due now, as `PendingNote.load`: if it is another one, nothing is missed.
    """
    note, ignore = PendingNote.of_item(state.item), state.settings.ignore_files
    if load and load != note.load:
        return Vanished((), 0)
    found = state.item.get(Attribute.LAST_ERROR_CODE) == RawFilesLostError.__name__
    watermark, listed = file_order(known.watermark), files.all_changes
    contained_to = file_order(known.floor) if recorded or found else watermark
    contained = recorded.names if recorded else ()
    names = [
        name
        for name in note.missing(listed)
        if not (file_order(name) <= contained_to or name in contained or is_covered(name, ignore))
    ]
    others, named_to, end = 0, file_order(note.names[-1]) if note.names else "", file_order(note.last)
    if note.others and watermark <= named_to:  # else it is unknown how many of them were applied
        others = max(note.others - sum(named_to < file.order <= end for file in listed), 0)
    return Vanished(names, others)


def _packed(names: Iterable[str]) -> str:
    return b64encode(zlib.compress("\0".join(names).encode(), 9)).decode()
