"""What the engine computes: a request for a change, and its result."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from cdclake.lake.merge.file_sizes import FileSizes
from cdclake.lake.merge.read_changes import Reading
from cdclake.lake.merge.rewrite_plan import unchanged_files
from cdclake.lake.storage.tombstones import NO_TOMBSTONES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from cdclake.lake.limits import EngineLimits
    from cdclake.lake.merge.read_changes import Locations, ReadStats
    from cdclake.lake.merge.tasks.resolution import Resolution
    from cdclake.lake.merge.tasks.write_file import WriteResult
    from cdclake.lake.raw.quarantine import Quarantine
    from cdclake.lake.raw.rows import Slice
    from cdclake.lake.raw.suppression import Suppression
    from cdclake.lake.scd2.tasks import HistoryPlan
    from cdclake.lake.storage.shape import TableShape
    from cdclake.lake.storage.tombstones import TombstonePlan
    from cdclake.model.snapshot import DataFile, History, TombstoneFile
    from cdclake.model.table.name import TableName
    from cdclake.model.table.settings import TableSettings


@dataclass(frozen=True)
class Request:
    """One change to compute.

    Attributes:
        table: The source table.
        parts: Slices of raw files to read.
        files: Live data files that the change applies to; none for a full load, unless it is a difference.
        tombstones: Files of tombstones; none for a full load.
        oldest: Smallest `file_order` of change files whose deletes must be kept as tombstones.
        forgotten: See `Snapshot.forgotten`.
        overlap_end: The full load contains no change whose sequence is greater.
        shape: Columns and keys after the change.
        locations: Where to read and write.
        stale: Indices of data files to rewrite even if none of their rows changes.
        settled_before: See `FileSizes`.
        loose_before: See `FileSizes`.
        history: How the history changes; None if the table keeps none.
        suppression: Which rows to leave out, because their keys were erased; None for none.
        by_difference: Whether the rows of a full load are compared with the table's, and only what differs is written.
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
    stale: frozenset[int]
    settled_before: int = 0
    loose_before: int = 0
    history: HistoryPlan | None = None
    suppression: Suppression | None = None
    by_difference: bool = False

    @property
    def limits(self) -> EngineLimits:
        """Those of the run."""
        return self.shape.limits

    @property
    def sizes(self) -> FileSizes:
        """How large data files are to be."""
        target_bytes, hot_bytes = self.settings.target_file_bytes, self.limits.hot_file_bytes
        return FileSizes.of(target_bytes, hot_bytes, self.settled_before, self.loose_before)

    @property
    def inserts_all(self) -> bool:
        """Whether its rows replace none: rows of a full load, or changes of a table without a key."""
        return (self.full_load and not self.by_difference) or not self.shape.primary_key

    def require_few_bad_rows(self, quarantine: Quarantine, good_rows: int) -> None:
        """Refuse more bad rows than the table's settings allow, see `Quarantine.require_at_most`."""
        quarantine.require_at_most(self.settings.max_quarantined_rows, self.table, good_rows)

    @property
    def reading(self) -> Reading:
        """What tasks that read raw files need to know."""
        return Reading(self.locations, self.shape, self.settings, self.table, self.suppression)


@dataclass(frozen=True)
class Rewrite:
    """Staged data files, and the data files that they replace.

    Attributes:
        written: New data files; `path` is the staged key.
        rewritten: Indices of the replaced files.
    """

    written: tuple[DataFile, ...]
    rewritten: tuple[int, ...]


def data_files(written: Iterable[WriteResult]) -> tuple[DataFile, ...]:
    """All data files that tasks wrote."""
    return tuple(file for one in written for file in one.files)


@dataclass(frozen=True)
class Result:
    """A change that is computed and staged, but not committed.

    Attributes:
        read: Numbers of rows read, by operation.
        resolution: What happened to them.
        written: New data files; `path` is the staged key.
        unchanged: The data files that it leaves as they were.
        tombstones: Files of all tombstones after the change.
        forgotten: Greatest position of a tombstone that the change dropped; empty if it dropped none.
        repeated: Number of rows of a full load that were quarantined because they repeat a key.
        quarantine_keys: Keys of the files of quarantined rows.
        versions: Files of the history's open versions and of its closed versions; empty if the table keeps no history.
        history: The history after the change; None if the table never had one.
        seconds: Duration of each phase.
        by_difference: See `Request.by_difference`.
    """

    read: ReadStats
    resolution: Resolution
    written: tuple[DataFile, ...]
    unchanged: tuple[DataFile, ...]
    tombstones: tuple[TombstoneFile, ...]
    repeated: int
    quarantine_keys: tuple[str, ...]
    forgotten: str = ""
    versions: tuple[Rewrite, ...] = ()
    history: History | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    by_difference: bool = False

    @classmethod
    def of(
        cls,
        request: Request,
        read: ReadStats,
        resolution: Resolution,
        written: Sequence[WriteResult],
        rewritten: Collection[int],
        seconds: dict[str, float],
        tombstone_plan: TombstonePlan = NO_TOMBSTONES,
        versions: tuple[Rewrite, ...] = (),
    ) -> Result:
        """The result of what tasks wrote.

        Raises:
            BadRowError: More rows are bad than the operator allows.
        """
        quarantine = reduce(add, (one.quarantine for one in written), read.quarantine)
        request.require_few_bad_rows(quarantine, read.rows + read.quarantine.rows - quarantine.rows)
        return cls(
            read=read,
            resolution=resolution,
            written=data_files(written),
            unchanged=unchanged_files(request.files, rewritten),
            tombstones=(*tombstone_plan.kept, *(file for one in written for file in one.tombstones)),
            repeated=quarantine.rows - read.quarantine.rows,
            quarantine_keys=quarantine.keys,
            forgotten=max([tombstone_plan.forgotten, *(one.forgotten for one in written)]),
            versions=versions,
            seconds=seconds,
            by_difference=request.by_difference,
        )

    @property
    def all_written(self) -> tuple[DataFile, ...]:
        """New data files of the table and of its history."""
        return (*self.written, *(file for rewrite in self.versions for file in rewrite.written))
