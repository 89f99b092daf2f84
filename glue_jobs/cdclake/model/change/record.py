"""Change records, the entries of a lake table's change log.

A change record is one committed step of a table, stored as JSON. Writing it, if it is absent, is the commit.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Literal, get_args

from cdclake.model.change.books import Books
from cdclake.model.change.place import NO_PLACE, Place
from cdclake.model.drift import ColumnDrift
from cdclake.model.layout import HISTORY, is_in_history
from cdclake.model.stored_json import FORMAT, from_fields, parse_stored, reading

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cdclake.model.snapshot import Snapshot

Phase = Literal["list", "read", "route", "merge", "load", "history", "rewrite", "commit", "publish"]
PHASES: tuple[Phase, ...] = get_args(Phase)
"""The phases of a change, in their order; each change has some of them."""


class ChangeKind(Enum):
    """The kind of a change."""

    FULL_LOAD = "full load"
    INCREMENTAL = "incremental"
    DIRECT = "direct"
    """An operator inserted, updated or deleted rows by hand."""
    ADOPTION = "adoption"
    """Existing files became the table."""
    ROLLBACK = "rollback"
    """The table is again as it was after an earlier change."""
    REAPPLY = "reapply"
    """A change that a rollback had undone was applied again."""
    TAKEOVER = "takeover"
    """Only the writer changed: it takes the number, so that a run that lost its lease cannot commit under it."""
    RELEASE = "release"
    """Quarantined rows were applied."""
    ERASURE = "erasure"
    """Rows of a key were permanently removed from the table and its past."""


@dataclass(frozen=True)
class StagedFile:
    """A new data file of a change: its staged key, and the relative path under which it is published."""

    staged_key: str
    path: str


@dataclass(frozen=True)
class RawFileRows:
    """A raw file that a change read, or that an erasure rewrote or deleted.

    Attributes:
        relative: Its key, relative to the table's raw folder.
        rows: Number of rows that were read from it, bad ones included; None for an erasure.
        quarantined: Number of them that could not be converted.
    """

    relative: str
    rows: int | None = None
    quarantined: int = 0

    def __str__(self) -> str:
        if self.rows is None:
            return self.relative
        bad = f", {self.quarantined:,} of them quarantined" if self.quarantined else ""
        return f"{self.relative} ({self.rows:,} row{'' if self.rows == 1 else 's'}{bad})"


@dataclass(frozen=True)
class ChangeRecord:
    """One committed step of a lake table.

    Attributes:
        change: 1, 2, 3, ...
        kind: Its kind.
        run_id: The job run that made it.
        fencing_token: The token of the lease under which it was made; without a lease, the greatest token before it.
        books: Row counts.
        snapshot_key: Key of its snapshot.
        created_utc: When it was made, ISO 8601 to the second. Never before the time of the change before. Empty until
            `ChangeLog.dated` sets it.
        raw_files: The raw files read, in their order.
        added: New data files.
        retired: Relative paths of the data files that it retired.
        restored: Relative paths of the retired data files that it restored.
        as_of: Number of the change whose content this one restored; None if it made new content.
        reason: Why it was made, if the kind does not show it; for people.
        made_by: The operator who made it, if known; for people.
        quarantine: Keys of the files with quarantined rows.
        row_rules: `CsvDialect.row_rules` with which its raw files were read, if it quarantined rows.
        drift: Columns that changed at the source, as the raw files read show it.
        missing_columns: Columns of the table that some of its change files lacked.
        unknown_keys: Updates of keys that the table lacked, from files that do not tell whether they changed the key;
            0 if the operator expects them.
        bytes_read: Size of the raw files read, and of the data files replaced.
        bytes_added: Size of the new data files.
        iceberg: Whether the table is an Iceberg table after it.
        switched: Whether it became one, or is none any more.
        history_iceberg: Whether its history is one after it.
        history_switched: Whether the history became one, or is none any more.
        clock_utc: What the writer's clock showed, if that was before the change before by more than a minute, so that
            `created_utc` is the time of that change; else empty.
        seconds: Duration of each phase up to the commit; `ChangeLog.seconds` has the later phases.
        oldest_written_utc: When the oldest of the change files was written that it applied and no run had seen in the
            table before, see `cdclake.model.change.delay`; empty if there is none, or that is unknown.
        newest_written_utc: The same of the newest.
        place: Where it was computed.
    """

    change: int
    kind: ChangeKind
    run_id: str
    fencing_token: int
    books: Books
    snapshot_key: str
    created_utc: str = ""
    raw_files: tuple[RawFileRows, ...] = ()
    added: tuple[StagedFile, ...] = ()
    retired: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    as_of: int | None = None
    reason: str = ""
    made_by: str = ""
    quarantine: tuple[str, ...] = ()
    row_rules: str = ""
    drift: tuple[ColumnDrift, ...] = ()
    missing_columns: tuple[str, ...] = ()
    unknown_keys: int = 0
    bytes_read: int = 0
    bytes_added: int = 0
    iceberg: bool = False
    switched: bool = False
    history_iceberg: bool = False
    history_switched: bool = False
    clock_utc: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)
    oldest_written_utc: str = ""
    newest_written_utc: str = ""
    place: Place = NO_PLACE

    @property
    def raw_names(self) -> tuple[str, ...]:
        """Relative keys of `raw_files`."""
        return tuple(file.relative for file in self.raw_files)

    @property
    def content_change(self) -> int:
        """Number of the change that made the table's content after this change."""
        return self.change if self.as_of is None else self.as_of

    def check(self) -> None:
        """Refuse a change whose books do not balance, or have other rows than its raw files.

        Raises:
            BooksError: Names the figures.
        """
        self.books.check()
        rows = [file.rows for file in self.raw_files if file.rows is not None]
        if rows and sum(rows) != self.books.read:
            message = f"The raw files of a change have {sum(rows):,} rows, and its books {self.books.read:,}"
            raise self.books.refusal(message)

    def with_iceberg(self, before: Snapshot, after: Snapshot) -> ChangeRecord:
        """The record with what the change does to the Iceberg tables of the table and its history."""
        (was, history_was), (is_now, history_is_now) = (
            (lake.iceberg is not None, lake.history is not None and lake.history.iceberg is not None)
            for lake in (before, after)
        )
        return replace(
            self,
            iceberg=is_now,
            switched=was != is_now,
            history_iceberg=history_is_now,
            history_switched=history_was != history_is_now,
        )

    def of_history(self) -> ChangeRecord:
        """What the change does to the history, as a change of a table of its own."""
        retired, restored = (
            tuple(path[len(HISTORY) :] for path in paths if is_in_history(path))
            for paths in (self.retired, self.restored)
        )
        added = (replace(file, path=file.path[len(HISTORY) :]) for file in self.added if is_in_history(file.path))
        return replace(
            self,
            added=tuple(added),
            retired=retired,
            restored=restored,
            iceberg=self.history_iceberg,
            switched=self.history_switched,
        )

    def to_bytes(self) -> bytes:
        """Indented JSON."""
        data = {**asdict(self), "kind": self.kind.value, "format": FORMAT}
        return (json.dumps(data, indent=1) + "\n").encode()

    @classmethod
    def from_bytes(cls, data: bytes, key: str) -> ChangeRecord:
        """Inverse of `to_bytes`.

        Args:
            key: Key of the record, for errors.

        Raises:
            ConfigurationError: A newer version of cdclake wrote it.
            IntegrityError: It is damaged.
        """
        with reading("change record of a table", key):
            read = parse_stored(data, cls)
            read["kind"] = ChangeKind(read["kind"])
            read["books"] = from_fields(Books, read["books"])
            read["place"] = from_fields(Place, read["place"])
            read["added"] = tuple(from_fields(StagedFile, file) for file in read["added"])
            read["drift"] = tuple(from_fields(ColumnDrift, one) for one in read["drift"])
            read["raw_files"] = tuple(from_fields(RawFileRows, file) for file in read["raw_files"])
            for name in ("retired", "restored", "quarantine", "missing_columns"):
                read[name] = tuple(read[name])
            return cls(**read)
