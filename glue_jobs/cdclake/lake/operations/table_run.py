"""Everything that a run needs to work on one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdclake.commit.roll_forward import roll_forward
from cdclake.commit.table_files import begin_listing, check_files, check_next_files
from cdclake.concurrency import executor
from cdclake.lake.limits import DEFAULT_LIMITS, EngineLimits
from cdclake.model.change.place import NO_PLACE, Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from cdclake.adapters.filesystem import FileSystemSpec
    from cdclake.commit.log import ChangeLog
    from cdclake.model.layout import LakeLayout
    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table.settings import TableSettings
    from cdclake.ports import Clock, ObjectStore


@dataclass(frozen=True)
class TableRun:
    """One run's access to its table.

    Attributes:
        raw: The raw bucket, for listings and small files; only read.
        raw_fs: The raw bucket, for reading files in tasks.
        raw_prefix: The table's folder in the raw bucket.
        log: The lake table's change log.
        lake_fs: The lake bucket, for reading and writing files in tasks.
        run_id: Id of the job run; part of its staging folder's name.
        fencing_token: Number of the run's lease; 0 if it was started by hand without one.
        note_file: Called with each raw file before the run reads it alone, and with "" afterwards; None: it reads
            several at a time.
        limits: Up to which sizes it reads, holds, sends and writes at once.
        place: Where it works.
    """

    raw: ObjectStore
    raw_fs: FileSystemSpec
    raw_prefix: str
    log: ChangeLog
    lake_fs: FileSystemSpec
    settings: TableSettings
    run_id: str
    fencing_token: int
    clock: Clock
    note_file: Callable[[str], None] | None = None
    limits: EngineLimits = DEFAULT_LIMITS
    place: Place = NO_PLACE

    @property
    def layout(self) -> LakeLayout:
        """Keys of the lake table's objects."""
        return self.log.layout

    def current(self, *, reloads: bool = False) -> Snapshot:
        """Complete a change that a crashed run left behind, and return the newest snapshot, checked; see `check`."""
        change = roll_forward(self.log)
        snapshot = self.log.snapshot(change)
        self.check(snapshot, reloads=reloads)
        return snapshot

    def check(self, snapshot: Snapshot, *, reloads: bool = False) -> None:
        """Check that this run may write the table and that its files are as they should be.

        Args:
            snapshot: The newest one; its change is complete.
            reloads: Whether the run replaces all of the table's files.

        Raises:
            LeaseLostError: Another run took over the table.
            LakeFilesError: Another program added, removed or replaced files.
        """
        with executor(self.log.store.calls_at_once) as pool:  # requests that do not need each other's responses
            listing = pool.submit(begin_listing, self.log)
            if self.fencing_token:
                self.log.check_fence(snapshot.change, self.fencing_token)
            if reloads:
                check_files(self.log, snapshot, listing.result(), reloads=True)
            else:
                check_next_files(self.log, snapshot, self.limits.checked_files, listing.result())
