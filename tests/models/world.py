"""What the stores of one lake table hold, in the model of the commit protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

NOBODY = -1
FRESH = -2
"""The writer of `finish`."""
ANY = -3
"""The token of who writes whether or not it has the lease."""
ENDED = -1
BEGIN = 0


class File(NamedTuple):
    """A data file, named after its change, with the rows of some raw files."""

    number: int
    raw: frozenset[int]


class Change(NamedTuple):
    """A change record with its snapshot: the data files and the ledger of raw files."""

    number: int = 0
    kind: str = ""
    writer: int = NOBODY
    token: int = 0
    files: frozenset[File] = frozenset()
    ledger: frozenset[int] = frozenset()
    added: tuple[int, ...] = ()
    restored: tuple[int, ...] = ()
    retired: tuple[int, ...] = ()

    @property
    def numbers(self) -> frozenset[int]:
        """Numbers of the data files."""
        return frozenset(file.number for file in self.files)


class World(NamedTuple):
    """Everything in the stores, and the writers.

    Attributes:
        writers: How far each is: a number of `Model.place`, or `ENDED`.
        faults: How many deaths, pauses and lost answers may still happen.
        log: The change records; change N is the N-th.
        snapshots: Numbers of the changes whose snapshot exists.
        drafts: Numbers of changes to come of which there is a snapshot.
        staged: Change and writer of staged files.
        files: By number, what the store has of each data file, newest first: `data`, and what hides it. In a bucket
            with versions that are delete markers, which have numbers; elsewhere `retired` is a file moved aside.
        published: Changes that are marked as published.
        dropped: Changes that are not retained, as `retained.json` says.
        pointer: The change that the version hint of the Iceberg table names.
        offered: By change, the changes that readers of its Iceberg metadata may open; none: it has no metadata.
        aged: Whether `retained.json` is older than the grace of Iceberg readers.
        recent: Changes that an Iceberg reader may have open: those offered since that grace began.
        holder: Who holds the lease.
        token: The newest fencing token.
        expired: Whether the lease has expired.
        active: Whether runs may work on the table.
        known: The newest change that the item knows.
        flying: A commit that nobody waits for, and that may arrive yet.
    """

    writers: tuple[int, ...]
    faults: tuple[int, int, int]
    log: tuple[Change, ...] = ()
    snapshots: frozenset[int] = frozenset()
    drafts: frozenset[int] = frozenset()
    staged: frozenset[tuple[int, int]] = frozenset()
    files: tuple[tuple[Any, ...], ...] = ((),)
    published: frozenset[int] = frozenset()
    dropped: frozenset[int] = frozenset()
    pointer: int = 0
    offered: tuple[frozenset[int], ...] = (frozenset(),)
    aged: bool = True
    recent: frozenset[int] = frozenset()
    holder: int = NOBODY
    token: int = 0
    expired: bool = False
    active: bool = True
    known: int = 0
    flying: Change | None = None

    def change(self, number: int) -> Change:
        """A committed change; change 0 is the table before any."""
        return self.log[number - 1] if number else Change()

    @property
    def of_stores(self) -> tuple[Any, ...]:
        """The world without its writers."""
        return self[2:]

    @property
    def head(self) -> Change:
        """The newest committed change."""
        return self.change(len(self.log))

    @property
    def visible(self) -> frozenset[int]:
        """Numbers of the files that a reader of the folder sees."""
        return frozenset(number for number, file in enumerate(self.files) if file[:1] == ("data",))

    @property
    def retained(self) -> list[int]:
        """Numbers of the retained changes."""
        return [number for number in range(1, len(self.log) + 1) if number not in self.dropped]

    def needed(self, changes: Iterable[int]) -> frozenset[int]:
        """Numbers of the files that changes have."""
        return frozenset[int]().union(*(self.change(number).numbers for number in changes))

    def offers(self, number: int) -> frozenset[int]:
        """The changes that readers of the Iceberg metadata of a change may open; none if there is no metadata."""
        return self.offered[number] if number < len(self.offered) else frozenset()

    def with_file(self, number: int, file: tuple[Any, ...]) -> World:
        """The world with other content of one file."""
        return self._replace(files=_with(self.files, number, file, ()))

    def with_offer(self, number: int, offered: frozenset[int]) -> World:
        """The world with other Iceberg metadata of one change."""
        return self._replace(offered=_with(self.offered, number, offered, frozenset()))._noting_readers()

    def with_pointer(self, number: int) -> World:
        """The world with another version hint."""
        return self._replace(pointer=number)._noting_readers()

    def _noting_readers(self) -> World:
        return self._replace(recent=self.recent | self.offers(self.pointer))


def _with(row: tuple[Any, ...], number: int, value: object, filler: object) -> tuple[Any, ...]:
    longer = (*row, *[filler] * (number + 1 - len(row)))
    return (*longer[:number], value, *longer[number + 1 :])
