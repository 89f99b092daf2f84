"""Builds tables beside the old lake, on this machine: one from the raw files, and one from the old lake's files."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from cdclake.adapters.filesystem import lake_filesystem, open_input
from cdclake.adapters.stores import open_store
from cdclake.commit.adopt import adopt
from cdclake.commit.log import ChangeLog
from cdclake.lake.operations.adopt.adopt import AdoptionSource, plan_adoption
from cdclake.lake.operations.load import load_incremental, load_initial
from cdclake.lake.operations.table_run import TableRun
from cdclake.lake.read.as_of import TableLocation, table_as_of
from cdclake.lake.spark.in_process import InProcessBackend
from cdclake.model.layout import LakeLayout
from cdclake_cli.shadow.compare import compare
from cdclake_cli.shadow.formats.parquet_folder import ParquetFolder
from cdclake_cli.shadow.formats.place import Place

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyarrow.fs import FileSystem

    from cdclake.adapters.filesystem import FileSystemSpec
    from cdclake.model.table.state import TableState
    from cdclake.ports import Clock, ObjectStore
    from cdclake_cli.shadow.compare import TableComparison


@dataclass(frozen=True)
class RawBucket:
    """The raw bucket.

    Attributes:
        store: For listings and small files.
        spec: For reading files.
    """

    store: ObjectStore
    spec: FileSystemSpec


@dataclass(frozen=True)
class LakeBeside:
    """A lake in a temporary folder with one table, which is kept from the real raw files.

    Attributes:
        folder: An empty folder.
        state: The table's item.
    """

    folder: Path
    state: TableState
    raw: RawBucket
    clock: Clock
    _runs: Any = field(default_factory=lambda: count(1))

    @property
    def location(self) -> TableLocation:
        """Where the table is."""
        return TableLocation(self.folder.as_uri(), self._layout, lake_filesystem(self.folder.as_uri()))

    @property
    def files(self) -> Path:
        """The table's folder."""
        return self.folder / self._layout.table_prefix

    def load(self, last: str) -> None:
        """Build the table from its full load and the change files up to one.

        Args:
            last: The last change file, relative; empty for none.

        Raises:
            CdclakeError: The raw files are not whole, or cannot be read.
        """
        load_initial(self._run(), InProcessBackend())
        if last:
            self.apply(last)

    def apply(self, last: str = "") -> int:
        """Apply the change files that are due. Returns their number.

        Args:
            last: The last one to apply, relative; empty for all.

        Raises:
            CdclakeError: One cannot be read, or says what allows two readings.
        """
        files = 0
        while load_incremental(self._run(), InProcessBackend(), new_file=last)["change"] is not None:
            files += len(self._log.record(self._log.head()).raw_files)
        return files

    def adopt(self, fs: FileSystem, prefix: str, paths: Iterable[str]) -> None:
        """Copy files of the old lake, and adopt them.

        Args:
            fs: The old lake.
            prefix: The table's folder in it.

        Raises:
            CdclakeError: They cannot be adopted.
        """
        self.copy(fs, prefix, paths)
        here = lake_filesystem(self.folder.as_uri()).open()
        source = AdoptionSource(self.state, self._log, here, self.raw.store, self.raw.spec.open())
        adopt(self._log, plan_adoption(source).table, "beside", 0, self.clock)

    def copy(self, fs: FileSystem, prefix: str, paths: Iterable[str]) -> None:
        """Copy files of the old lake."""
        for path in paths:
            to = self.files / path
            to.parent.mkdir(parents=True, exist_ok=True)
            with open_input(fs, prefix + path) as source, to.open("wb") as sink:
                shutil.copyfileobj(source, sink)

    def compare(self, other: LakeBeside) -> TableComparison:
        """Compare the table with the files in another lake's folder."""
        where = str(other.files)
        return compare(self.location, table_as_of(self._log), ParquetFolder(Place(where), ""), where)

    @property
    def _layout(self) -> LakeLayout:
        return LakeLayout(str(self.folder), "", self.state.name)

    @property
    def _log(self) -> ChangeLog:
        return ChangeLog(open_store(self.folder.as_uri()), self._layout)

    def _run(self) -> TableRun:
        return TableRun(
            raw=self.raw.store,
            raw_fs=self.raw.spec,
            raw_prefix=self.state.raw_prefix,
            log=self._log,
            lake_fs=lake_filesystem(self.folder.as_uri()),
            settings=self.state.settings,
            run_id=f"beside-{next(self._runs)}",
            fencing_token=0,
            clock=self.clock,
        )
