"""What a lake table was after a change: which change a number or a time names, and its snapshot. No Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING

from cdclake.adapters.filesystem import FileSystemSpec, lake_filesystem
from cdclake.adapters.stores import parse_location, store
from cdclake.commit.log import ChangeLog
from cdclake.commit.timeline import newest_before
from cdclake.control.jobs.arguments import folder_prefix
from cdclake.errors import ConfigurationError, PastRetentionError
from cdclake.model.layout import LakeLayout
from cdclake.model.snapshot import Snapshot
from cdclake.model.table import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cdclake.model.change import StagedFile
    from cdclake.model.snapshot import DataFile
    from cdclake.ports import ObjectStore


@dataclass(frozen=True)
class TableLocation:
    """Where a lake table is; small, without secrets, and can be pickled.

    Attributes:
        lake: `bucket`, `s3://bucket` or `file:///folder`.
        layout: Where its objects lie there.
        fs: The same place for pyarrow, as the process that made this reaches it.
    """

    lake: str
    layout: LakeLayout
    fs: FileSystemSpec

    @classmethod
    def at(cls, lake: str, table: str, prefix: str = "") -> TableLocation:
        """The table of that name in a lake.

        Args:
            lake: `bucket`, `s3://bucket` or `file:///folder`.
            table: `schema.table`.
            prefix: Folder of the lake in the bucket; empty for none.

        Raises:
            ConfigurationError: The lake or the name cannot be read as such.
        """
        layout = LakeLayout(parse_location(lake).root, folder_prefix(prefix), TableName.parse(table))
        return cls(lake, layout, lake_filesystem(lake))

    def store(self) -> ObjectStore:
        """The lake as an object store."""
        return store(self.lake)

    def log(self) -> ChangeLog:
        """The table's change log."""
        return ChangeLog(self.store(), self.layout)


@dataclass(frozen=True)
class RetainedFile:
    """A data file of some change, in sight of the table's readers or retired.

    Attributes:
        file: What the snapshot says of it.
        staged_key: Where it was staged, if that very change added it: it may not be published yet. Empty otherwise.
    """

    file: DataFile
    staged_key: str = ""


@dataclass(frozen=True)
class TableAsOf:
    """What a table was after a change.

    Attributes:
        change: Number of the change; 0: the table before any.
        committed_utc: When it was committed, ISO 8601; empty for change 0.
        snapshot: The table after it.
        added: Data files that the change itself added.
    """

    change: int = 0
    committed_utc: str = ""
    snapshot: Snapshot = field(default_factory=Snapshot)
    added: tuple[StagedFile, ...] = ()

    @property
    def files(self) -> tuple[RetainedFile, ...]:
        """Its data files, in the snapshot's order."""
        return self.kept(self.snapshot.files)

    def kept(self, files: Iterable[DataFile]) -> tuple[RetainedFile, ...]:
        """Some of the files of its snapshot, or of its history, to be read."""
        staged = {added.path: added.staged_key for added in self.added}
        return tuple(RetainedFile(file, staged.get(file.path, "")) for file in files)


def table_as_of(log: ChangeLog, change: int | None = None, at: date | str | None = None) -> TableAsOf:
    """The table after a change, or as it was at a time.

    Args:
        log: The table's change log.
        change: Number of a change, a rollback's or any other.
        at: A time; without a zone it is UTC, and a date is its midnight. The newest change committed by then counts. If
            neither is given, the newest change of all does.

    Raises:
        ConfigurationError: There is no such change, or both were given.
        PastRetentionError: What the table was then is no longer kept.
    """
    number = find_change(log, change, at)
    record = log.record(number)
    return TableAsOf(number, record.created_utc, log.snapshot(number), record.added)


def find_change(log: ChangeLog, change: int | None = None, at: date | str | None = None) -> int:
    """Number of the change that `table_as_of` reads; arguments and errors are the same."""
    name, head = log.layout.name, log.head()
    if change is not None and at is not None:
        raise ConfigurationError("A change and a time were given", remedy="Give one of them")
    if not head:
        message = f"The lake has no change of {name}"
        remedy = "Look at the names of table, bucket and folder"
        raise ConfigurationError(message, remedy=remedy, folder=log.layout.control_prefix)
    number = _at(log, at, head) if at is not None else head if change is None else change
    if not 1 <= number <= head:
        message = f"{name} has no change {number}"
        raise ConfigurationError(message, remedy=f"Name a number from {log.first_retained()} to {head}")
    first = log.first_retained()
    if number < first:
        message = f"What {name} was after change {number} is no longer kept"
        raise PastRetentionError(message, remedy=f"Name change {first} or a later one")
    return number


def parse_time(text: str) -> datetime:
    """Read a time in ISO 8601; without a zone it is UTC.

    Raises:
        ConfigurationError: It is none.
    """
    try:
        return _in_utc(datetime.fromisoformat(text))
    except ValueError as error:
        message = f"'{text}' is no time"
        raise ConfigurationError(message, remedy="Write it as 2024-03-05T10:00:00Z, in UTC") from error


def _at(log: ChangeLog, at: date | str, head: int) -> int:
    moment = _in_utc(at) if isinstance(at, datetime) else parse_time(str(at))
    found = newest_before(log, moment, head)
    if not found:
        message = f"{log.layout.name} had no change yet at {moment.isoformat()}"
        raise ConfigurationError(message, remedy=f"Its first change was committed at {log.record(1).created_utc}")
    return found


def _in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=timezone.utc) if moment.tzinfo is None else moment.astimezone(timezone.utc)
