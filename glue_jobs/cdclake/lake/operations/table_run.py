"""What a run of one table works with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdclake.commit.publish import roll_forward
from cdclake.commit.table_files import check_files

if TYPE_CHECKING:
    from cdclake.adapters.filesystem import FileSystemSpec
    from cdclake.commit.log import ChangeLog
    from cdclake.model.layout import LakeLayout
    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table import TableSettings
    from cdclake.ports import Clock, ObjectReader


@dataclass(frozen=True)
class TableRun:
    """One table and everything a run needs to work on it.

    Attributes:
        raw: Listing of the raw bucket; `raw_fs` reads its files inside tasks.
        log: The lake table's change log.
        lake_fs: The lake bucket inside tasks.
        raw_prefix: The table's folder in the raw bucket.
        run_id: The job run's id; names its staging folder.
        fencing_token: Number of the lease the run works under; 0 for a run by hand, which has none.
    """

    raw: ObjectReader
    raw_fs: FileSystemSpec
    raw_prefix: str
    log: ChangeLog
    lake_fs: FileSystemSpec
    settings: TableSettings
    run_id: str
    fencing_token: int
    clock: Clock

    @property
    def layout(self) -> LakeLayout:
        """Where the lake table lies."""
        return self.log.layout

    def current(self, *, reloads: bool = False) -> Snapshot:
        """The table as it is now, with what a dead run left finished, and its files found to be as they should.

        Args:
            reloads: The run replaces all of the table's files.

        Raises:
            LeaseLostError: Another run took the table over.
            LakeFilesError: Somebody else added, removed or replaced files.
        """
        change = roll_forward(self.log)
        if self.fencing_token:
            self.log.check_fence(change, self.fencing_token)
        snapshot = self.log.snapshot(change)
        check_files(self.log, snapshot, reloads=reloads)
        return snapshot
