"""Knows what a table leaves out although it works: unread, late and overwritten files. Pure.

Only a run knows what the lake contains, and a plan lists a part of the files. So each run stores in the table's item
what it left out. That stays a finding as long as the files are there unchanged, no full load covers them, and no
operator accepts them, with `IgnoreFiles` or an acknowledgement.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from cdclake.model.table.attributes import Attribute

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cdclake.model.due_files import Pending
    from cdclake.model.raw.files import RawFile, RawFiles
    from cdclake.model.table.name import TableName

MAX_NAMES = 3
"""Number of files that a text names."""
MAX_STORED = 500
"""Number of files of each kind that the item holds: at most a tenth of an item's 400 KB."""
MAX_ACCEPTED = 2_000
"""Number of acknowledged files that it holds. Others stay findings."""


class LeftOut(NamedTuple):
    """What a run leaves out.

    Attributes:
        unread: Relative keys of data files that are neither LOAD nor change files. Of stored ones, only whether there
            were any is known.
        too_late: Identities of the change files that arrived behind the late window, or after a full load or
            adoption that covers their time, by relative key.
        overwritten: Identities of the change files whose content changed after they were applied, by relative key.
        accepted: The late and overwritten files that an operator acknowledged.
    """

    unread: Sequence[str] = ()
    too_late: dict[str, str] = {}  # noqa: RUF012 - never modified
    overwritten: dict[str, str] = {}  # noqa: RUF012 - never modified
    accepted: dict[str, str] = {}  # noqa: RUF012 - never modified

    @classmethod
    def parse(cls, text: str) -> LeftOut:
        """Inverse of `stored`; empty for any other text."""
        try:
            data = json.loads(text)
            files = (dict(data[kind]) for kind in cls._fields[1:])
            return cls(("",) if data["unread"] else (), *files)
        except (ValueError, TypeError, KeyError):
            return cls()

    @property
    def stored(self) -> str:
        """The text that the item holds; empty if nothing is left out."""
        limits = {"too_late": MAX_STORED, "overwritten": MAX_STORED, "accepted": MAX_ACCEPTED}
        files = {kind: dict(list(getattr(self, kind).items())[:limit]) for kind, limit in limits.items()}
        return json.dumps({"unread": bool(self.unread), **files}) if any(self) else ""

    @property
    def unaccepted(self) -> bool:
        """Whether something is left out that no operator has accepted."""
        return any(self[:3])

    def acknowledged(self) -> LeftOut:
        """The same, with the late and overwritten files accepted."""
        return LeftOut(self.unread, accepted={**self.accepted, **self.too_late, **self.overwritten})

    def is_outdated(self, now: LeftOut) -> bool:
        """Whether stored text must be written again: there is something else to report than before."""
        return [bool(files) for files in self[:3]] != [bool(files) for files in now[:3]]

    def updated(self, files: RawFiles, pending: Pending | None = None) -> LeftOut:
        """What is left out now. What lies before the begin of the listing stays as it was.

        Args:
            files: What is in the raw folder.
            pending: What the lake lacks of it. None: unknown, so what was left out still is, if it is still there.
        """
        unread = files.unread or (self.unread if files.begin else ())
        earlier = LeftOut(unread, *(_up_to(files.begin, stored) for stored in self[1:]))
        if not pending:
            late, changed = (_there(stored, files.changes) for stored in (self.too_late, self.overwritten))
            return LeftOut(unread, {**earlier.too_late, **late}, {**earlier.overwritten, **changed}, self.accepted)
        late, changed = ({file.relative: file.identity for file in found} for found in pending[1:])
        late, changed = {**earlier.too_late, **late}, {**earlier.overwritten, **changed}
        accepted = {**earlier.accepted, **_with(self.accepted, {**late, **changed})}
        return LeftOut(unread, _without(late, accepted), _without(changed, accepted), accepted)

    def findings(self, table: TableName) -> tuple[str, ...]:
        """One text for each kind of file, with the remedy."""
        ignore = f"cdclake tables set {table.typed} --set '{Attribute.IGNORE_FILES}=<globs>'"
        acknowledge = f"cdclake tables acknowledge {table.typed}"
        texts = (
            (
                self.unread,
                "file",
                "not read, because no LOAD or change file has such a name. Rename it, move it out of the table's"
                f" folder, or do without it: {ignore}",
            ),
            (self.too_late, "change file", f"too late, so not applied. Reload the table, or do without: {acknowledge}"),
            (
                self.overwritten,
                "change file",
                "overwritten since applied, and not applied again but for released rows. Put the old file back, reload"
                f" the table, or do without: {acknowledge}",
            ),
        )
        return tuple(f"{counted(list(names), noun)} {text}" for names, noun, text in texts if names)


def counted(names: Sequence[str], what: str) -> str:
    """The number of files and the first of their names.

    Example:
        >>> counted(["b.csv", "a.csv"], "file")
        '2 files (a.csv, b.csv)'
    """
    first = ", ".join([*sorted(names)[:MAX_NAMES], *(["..."] if len(names) > MAX_NAMES else [])])
    return f"{len(names)} {what}{'' if len(names) == 1 else 's'} ({first})"


def _up_to(begin: str, stored: Mapping[str, str]) -> dict[str, str]:
    return {name: identity for name, identity in stored.items() if name <= begin}


def _there(stored: Mapping[str, str], files: Iterable[RawFile]) -> dict[str, str]:
    """The stored files that are still there. Only these are identified, as in a folder that reads a file."""
    there = {file.relative: file.identity for file in files if file.relative in stored}
    return _with(stored, there)


def _with(files: Mapping[str, str], others: Mapping[str, str]) -> dict[str, str]:
    return {name: identity for name, identity in files.items() if others.get(name) == identity}


def _without(files: Mapping[str, str], others: Mapping[str, str]) -> dict[str, str]:
    return {name: identity for name, identity in files.items() if others.get(name) != identity}
