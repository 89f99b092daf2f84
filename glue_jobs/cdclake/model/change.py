"""Change records: what a lake table's change log is made of.

A change record is one committed step of a table. It is kept as JSON, and writing it, if absent, is the commit.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from cdclake.errors import BooksError

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT = 1


class ChangeKind(Enum):
    """What made a change."""

    FULL_LOAD = "full load"
    INCREMENTAL = "incremental"
    DIRECT = "direct"
    """A person inserted, updated or deleted rows by hand."""
    ADOPTION = "adoption"
    """Files that were there already became the table."""
    ROLLBACK = "rollback"
    """The table is again what it was after an earlier change."""
    REAPPLY = "reapply"
    """What a rollback had undone was done again."""
    TAKEOVER = "takeover"
    """Nothing changed but the writer: the number is taken, so that a run that lost its lease cannot commit it."""
    RELEASE = "release"
    """Bad rows that had been put aside were taken after all."""
    ERASURE = "erasure"
    """Rows of a key were taken out of the table and of all that it was before, for good."""


@dataclass(frozen=True)
class Balance:
    """A sum that must be right: what is on the left comes to as much as what is on the right.

    Attributes:
        rule: The sum in words.
        left: Counts by their names in `Books`; what is taken away is negative.
        right: Likewise.
    """

    rule: str
    left: Mapping[str, int]
    right: Mapping[str, int]

    @property
    def off_by(self) -> int:
        """How much more is on the left; 0 if it balances."""
        return sum(self.left.values()) - sum(self.right.values())


@dataclass(frozen=True)
class Books:
    """The row counts of one change, which must balance.

    `read_*` count rows of raw files by operation (a full-load row counts as an insert). Each row read is applied,
    superseded (an equal or later row of its key is known), ignored (a table without a key takes inserts alone), or put
    into quarantine; `read_unknown` counts those of the last that have no operation to be counted by. What was applied
    inserted, updated or deleted a row, or was `absent`: the delete of a row that is not there. `derived` counts the
    deletes of old keys that updates of keys stand for, beside the rows read. `replaced` counts the rows of data files
    that a reload or a rollback took away as a whole, `restored` those of data files that came back as a whole. `erased`
    counts those that were taken out for good.
    """

    read_insert: int = 0
    read_update: int = 0
    read_delete: int = 0
    read_unknown: int = 0
    derived: int = 0
    applied: int = 0
    superseded: int = 0
    ignored: int = 0
    quarantined: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    absent: int = 0
    replaced: int = 0
    restored: int = 0
    erased: int = 0
    rows_before: int = 0
    rows_after: int = 0

    @property
    def read(self) -> int:
        """Rows read."""
        return self.read_insert + self.read_update + self.read_delete + self.read_unknown

    @property
    def sums(self) -> tuple[Balance, ...]:
        """The sums that must be right."""
        return (
            Balance(
                "rows read + derived = applied + superseded + ignored + quarantined",
                self._counts("read_insert", "read_update", "read_delete", "read_unknown", "derived"),
                self._counts("applied", "superseded", "ignored", "quarantined"),
            ),
            Balance(
                "applied = inserted + updated + deleted + absent",
                self._counts("applied"),
                self._counts("inserted", "updated", "deleted", "absent"),
            ),
            Balance(
                "rows before - replaced + restored + inserted - deleted - erased = rows after",
                {
                    "rows_before": self.rows_before,
                    "replaced": -self.replaced,
                    "restored": self.restored,
                    "inserted": self.inserted,
                    "deleted": -self.deleted,
                    "erased": -self.erased,
                },
                self._counts("rows_after"),
            ),
        )

    def check(self) -> None:
        """Refuse books that do not balance.

        Raises:
            BooksError: Says which sum is off.
        """
        wrong = [f"{one.rule} is off by {one.off_by}" for one in self.sums if one.off_by]
        if wrong:
            raise BooksError(
                "The books of a change do not balance: " + "; ".join(wrong),
                remedy="Nothing was committed. Keep the raw files and report this with the figures",
                books=asdict(self),
            )

    def _counts(self, *names: str) -> dict[str, int]:
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class StagedFile:
    """A new data file of a change: where it was staged, and the relative path it is published as."""

    staged_key: str
    path: str


@dataclass(frozen=True)
class ChangeRecord:
    """One committed step of a lake table.

    Attributes:
        change: 1, 2, 3, ...
        kind: What made it.
        created_utc: ISO 8601.
        run_id: The job run that made it.
        fencing_token: The lease's number under which it was made, or the greatest before it if it was made by hand
            without a lease.
        raw_files: Relative keys of the raw files read.
        books: Row counts.
        added: New data files.
        retired: Relative paths of the data files it took out of sight.
        restored: Relative paths of the retired data files it brought back.
        as_of: Number of the change whose table this one shows again; None if it made a table of its own.
        reason: Why, where that is not plain from the kind; for people.
        made_by: Who asked for it, where a person did and could be told; for people.
        snapshot_key: Key of the snapshot written for it.
        too_late: Relative keys of change files that came after the late window and were left out.
        quarantine: Keys of the files of bad rows put aside.
        bytes_read: Size of the raw files read, and of the data files replaced.
        bytes_added: Size of the new data files.
        seconds: Duration of each phase up to the commit; `ChangeLog.seconds` knows what came after.
    """

    change: int
    kind: ChangeKind
    created_utc: str
    run_id: str
    fencing_token: int
    raw_files: tuple[str, ...]
    books: Books
    added: tuple[StagedFile, ...]
    retired: tuple[str, ...]
    snapshot_key: str
    restored: tuple[str, ...] = ()
    as_of: int | None = None
    reason: str = ""
    made_by: str = ""
    too_late: tuple[str, ...] = ()
    quarantine: tuple[str, ...] = ()
    bytes_read: int = 0
    bytes_added: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def content_change(self) -> int:
        """Number of the change that made the table as it is after this one."""
        return self.change if self.as_of is None else self.as_of

    def to_bytes(self) -> bytes:
        """JSON, readable by a person."""
        data = {**asdict(self), "kind": self.kind.value, "format": FORMAT}
        return (json.dumps(data, indent=1) + "\n").encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> ChangeRecord:
        """Inverse of `to_bytes`."""
        read: dict[str, Any] = json.loads(data)
        del read["format"]
        read["kind"] = ChangeKind(read["kind"])
        read["books"] = Books(**read["books"])
        added: list[dict[str, str]] = read["added"]
        read["added"] = tuple(StagedFile(**file) for file in added)
        for name in ("raw_files", "retired", "restored", "too_late", "quarantine"):
            read[name] = tuple(read[name])
        return cls(**read)
