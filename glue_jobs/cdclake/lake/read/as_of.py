"""Finds the change that a number or a time names, and loads the table's snapshot as of that change. No Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING

from cdclake.adapters.filesystem import FileSystemSpec, lake_filesystem
from cdclake.adapters.stores import open_store, parse_location
from cdclake.commit.log import ChangeLog
from cdclake.control.jobs.arguments import folder_prefix
from cdclake.errors import ConfigurationError
from cdclake.model.layout import LakeLayout
from cdclake.model.snapshot import Snapshot
from cdclake.model.table.name import TableName
from cdclake.model.times import display_utc

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cdclake.model.change.record import StagedFile
    from cdclake.model.snapshot import DataFile
    from cdclake.ports import ObjectStore


@dataclass(frozen=True)
class TableLocation:
    """Where a lake table is stored. Small, picklable and free of secrets.

    Attributes:
        lake: `bucket`, `s3://bucket` or `file:///folder`.
        layout: Keys of the table's objects in the lake.
        fs: The lake for pyarrow, with the connection settings of the process that created this object.
    """

    lake: str
    layout: LakeLayout
    fs: FileSystemSpec

    @classmethod
    def at(cls, lake: str, table: str, prefix: str = "") -> TableLocation:
        """Locate a table by its name.

        Args:
            lake: `bucket`, `s3://bucket` or `file:///folder`.
            table: `schema.table`; `schema/table` if one of them contains a dot.
            prefix: Folder of the lake in the bucket; empty for none.

        Raises:
            ConfigurationError: The lake or the name is not valid.
        """
        layout = LakeLayout(parse_location(lake).root, folder_prefix(prefix), TableName.parse(table))
        return cls(lake, layout, lake_filesystem(lake))

    def store(self) -> ObjectStore:
        """The lake as an object store."""
        return open_store(self.lake)

    def log(self) -> ChangeLog:
        """The table's change log."""
        return ChangeLog(self.store(), self.layout)


@dataclass(frozen=True)
class RetainedFile:
    """A data file of a retained change: published, retired, or still staged.

    Attributes:
        file: Its entry in the snapshot.
        staged_key: Its staged key if the change itself added it, because it may not be published yet; else empty.
    """

    file: DataFile
    staged_key: str = ""


@dataclass(frozen=True)
class TableAsOf:
    """The state of a table after a change.

    Attributes:
        change: Number of the change; 0: the table before its first change.
        committed_utc: Commit time, ISO 8601; empty for change 0.
        snapshot: The table after the change.
        added: Data files that the change added.
    """

    change: int = 0
    committed_utc: str = ""
    snapshot: Snapshot = field(default_factory=Snapshot)
    added: tuple[StagedFile, ...] = ()

    @property
    def files(self) -> tuple[RetainedFile, ...]:
        """The table's data files, in the snapshot's order."""
        return self.retained(self.snapshot.files)

    def retained(self, files: Iterable[DataFile]) -> tuple[RetainedFile, ...]:
        """Data files of the snapshot or its history, with what a reader needs to find them."""
        staged = {added.path: added.staged_key for added in self.added}
        return tuple(RetainedFile(file, staged.get(file.path, "")) for file in files)


def table_as_of(log: ChangeLog, change: int | None = None, at: date | str | None = None) -> TableAsOf:
    """Load the table as of a change or a time; as of the newest change if neither is given.

    Args:
        change: Number of a change of any kind.
        at: A time, which selects the newest change committed by then. Without a zone it is UTC; a date means midnight.

    Raises:
        ConfigurationError: There is no such change, or both arguments were given.
        PastRetentionError: The state after that change is no longer retained.
    """
    number = find_change(log, change, at)
    record = log.record(number)
    return TableAsOf(number, record.created_utc, log.snapshot(number), record.added)


def find_change(log: ChangeLog, change: int | None = None, at: date | str | None = None) -> int:
    """Number of the change that `table_as_of` loads. Arguments and errors are the same."""
    name, head = log.layout.name, log.head()
    if change is not None and at is not None:
        raise ConfigurationError("A change and a time were given", remedy="Give only one of them")
    if not head:
        message = f"The lake has no changes of {name}"
        remedy = "Check the names of the table, the bucket and the folder"
        raise ConfigurationError(message, remedy=remedy, folder=log.layout.control_prefix)
    number = _at(log, at, head) if at is not None else head if change is None else change
    if not 1 <= number <= head:
        message = f"{name} has no change {number}"
        raise ConfigurationError(message, remedy=f"Use a number from {log.retained().first} to {head}")
    log.require_retained(number)
    return number


def parse_time(text: str) -> datetime:
    """Parse an ISO 8601 time; without a zone it is UTC.

    Raises:
        ConfigurationError: The text is not a time.
    """
    try:
        return _in_utc(datetime.fromisoformat(text))
    except (ValueError, OverflowError) as error:  # the latter: in UTC it is before the year 1 or after 9999
        message = f"'{text}' is not a time"
        raise ConfigurationError(message, remedy="Write it as 2024-03-05T10:00:00Z, in UTC") from error


def _at(log: ChangeLog, at: date | str, head: int) -> int:
    moment = _in_utc(at) if isinstance(at, datetime) else parse_time(str(at))
    change = log.newest_before(moment, head)
    if not change:
        message = f"{log.layout.name} had no changes yet at {display_utc(moment)}"
        first = display_utc(log.record(1).created_utc)
        raise ConfigurationError(message, remedy=f"Use {first}, when its first change was committed, or a later time")
    return change


def _in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=timezone.utc) if moment.tzinfo is None else moment.astimezone(timezone.utc)
