"""What the engine computes: a request for a change, and its result."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdclake.lake.merge.read_changes import Locations, ReadStats
    from cdclake.lake.merge.tasks import Resolution
    from cdclake.lake.raw.reader import Slice
    from cdclake.lake.scd2.tasks import HistoryPlan
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.snapshot import DataFile, History, TombstoneFile
    from cdclake.model.table import TableName, TableSettings


@dataclass(frozen=True)
class Request:
    """One change to compute.

    Attributes:
        table: The source table.
        parts: Slices of raw files to read.
        files: Live data files that the change applies to; none for a full load.
        tombstones: Files of tombstones; none for a full load.
        oldest: Smallest `file_order` of change files whose deletes must be kept as tombstones.
        forgotten: See `Snapshot.forgotten`.
        overlap_end: The full load contains no change whose sequence is greater.
        shape: Columns and keys after the change.
        locations: Where to read and write.
        outdated: Indices of data files to rewrite even if none of their rows changes.
        history: How the history changes; None if the table keeps none.
    """

    table: TableName
    parts: tuple[Slice, ...]
    files: tuple[DataFile, ...]
    tombstones: tuple[TombstoneFile, ...]
    oldest: str
    forgotten: str
    overlap_end: str
    shape: TableShape
    settings: TableSettings
    locations: Locations
    full_load: bool
    outdated: frozenset[int]
    history: HistoryPlan | None = None


@dataclass(frozen=True)
class Rewrite:
    """Staged data files, and the data files that they replace.

    Attributes:
        written: New data files; `path` is the staged key.
        rewritten: Indices of the replaced files.
    """

    written: tuple[DataFile, ...]
    rewritten: tuple[int, ...]


@dataclass(frozen=True)
class Result:
    """A change that is computed and staged, but not committed.

    Attributes:
        read: Numbers of rows read, by operation.
        resolution: What happened to them.
        written: New data files; `path` is the staged key.
        rewritten: Indices, in the request's files, of the files that the new ones replace.
        tombstones: Files of all tombstones after the change.
        forgotten: Greatest position of a tombstone that the change dropped; empty if it dropped none.
        repeated: Number of rows of a full load that were quarantined because they repeat a key.
        quarantine_keys: Keys of the files of quarantined rows.
        versions: Files of the history's open versions and of its closed versions; None if the table keeps no history.
        history: The history after the change; None if the table never had one.
        seconds: Duration of each phase.
    """

    read: ReadStats
    resolution: Resolution
    written: tuple[DataFile, ...]
    rewritten: tuple[int, ...]
    tombstones: tuple[TombstoneFile, ...]
    repeated: int
    quarantine_keys: tuple[str, ...]
    forgotten: str = ""
    versions: tuple[Rewrite, Rewrite] | None = None
    history: History | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def all_written(self) -> tuple[DataFile, ...]:
        """New data files of the table and of its history."""
        return (*self.written, *(file for rewrite in self.versions or () for file in rewrite.written))

    def after_listing(self, seconds: float) -> Result:
        """The same result, with the time spent on finding the raw files as its first phase."""
        return replace(self, seconds={"list": round(seconds, 3), **self.seconds})
