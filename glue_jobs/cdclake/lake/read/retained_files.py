"""Opens the data files of any retained change, wherever they are by now.

A file may be in sight, retired, or (the newest change's) staged, and a run may retire or restore it at any moment, also
while it is read. Its name is never given to other bytes, so it does not matter from where they are read. A retired
file is read from a copy in the control area, which a clean-up deletes after a day; if that happens in between, it is
copied again.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdclake.errors import IntegrityError, LakeFilesError, PastRetentionError, RetryableError
from cdclake.lake.storage.reader import parquet_file
from cdclake.lake.storage.shape import is_deleted
from cdclake.lake.storage.writer import COMPRESSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from cdclake.lake.read.as_of import RetainedFile, TableLocation
    from cdclake.model.snapshot import DataFile
    from cdclake.ports import ObjectStore

_TRIES = 2
_CHUNK_BYTES = 8 << 20


class RetainedFileReader:
    """The data files of one lake table. Safe to share between threads.

    Args:
        table: The table.
    """

    def __init__(self, table: TableLocation) -> None:
        self._table = table
        self._fs = table.fs.open()
        self._store: ObjectStore | None = None
        self._lock = Lock()

    def row_groups(self, file: RetainedFile) -> Iterator[pa.Table]:
        """A file's rows with all its columns, a row group at a time.

        Raises:
            PastRetentionError: It is no longer kept.
            LakeFilesError: It vanished from the table's folder or was overwritten.
            RetryableError: It could not be read in two tries.
        """
        done = 0
        for tries_left in reversed(range(_TRIES)):
            with self._read_again_if(tries_left > 0, file), self.open(file) as source:
                parquet = parquet_file(source)
                if parquet.metadata.num_rows != file.file.rows:
                    raise self._overwritten(file.file)
                while done < parquet.num_row_groups:
                    rows = parquet.read_row_group(done, use_threads=False)
                    done += 1
                    yield rows
                return

    def fetch_live(self, file: RetainedFile, path: Path) -> None:
        """Copy a file to a new file on this machine, without the rows that were deleted softly.

        Raises:
            As `row_groups`.
        """
        writer: pq.ParquetWriter | None = None
        try:
            for rows in self.row_groups(file):
                writer = writer or pq.ParquetWriter(path, rows.schema, compression=COMPRESSION, store_schema=False)
                writer.write_table(rows.filter(pc.invert(is_deleted(rows))))
        finally:
            if writer:
                writer.close()

    def fetch(self, file: RetainedFile, path: Path) -> None:
        """Copy a file to a new file on this machine, byte for byte.

        Raises:
            PastRetentionError: It is no longer kept.
            LakeFilesError: It vanished from the table's folder or was overwritten.
            RetryableError: It could not be read in two tries.
        """
        for tries_left in reversed(range(_TRIES)):
            with self._read_again_if(tries_left > 0, file), self.open(file) as source:
                with path.open("wb") as target:
                    shutil.copyfileobj(source, target, _CHUNK_BYTES)
                    written = target.tell()
                if written == file.file.bytes:
                    return
                message = f"{written} of {file.file.bytes} bytes came"
                raise OSError(message)

    def open(self, kept: RetainedFile) -> pa.NativeFile:
        """A file of the size it was written with, to be read while no run works on the table.

        Raises:
            PastRetentionError: It is no longer kept.
            LakeFilesError: It vanished from the table's folder or was overwritten.
        """
        layout, file = self._table.layout, kept.file
        in_sight = self._opened(layout.data_key(file.path))
        if in_sight is not None:
            if in_sight.size() != file.bytes:
                raise self._overwritten(file)
            return in_sight
        copy_key = layout.as_of_key(file.path)
        copy = self._opened(copy_key)
        if copy is not None and copy.size() == file.bytes:
            return copy
        try:
            self._lake().copy_kept(layout.data_key(file.path), layout.retired_key(file.path), copy_key)
        except IntegrityError as error:
            staged = self._opened(kept.staged_key) if kept.staged_key else None
            if staged is None:
                raise self._gone(file) from error
            return staged
        return self._fs.open_input_file(copy_key)

    def _opened(self, key: str) -> pa.NativeFile | None:
        try:
            return self._fs.open_input_file(key)
        except FileNotFoundError:
            return None

    def _lake(self) -> ObjectStore:
        with self._lock:  # boto3 makes clients one at a time
            if self._store is None:
                self._store = self._table.store()
            return self._store

    @contextmanager
    def _read_again_if(self, may_try_again: bool, file: RetainedFile) -> Iterator[None]:
        """Let a failed read pass if there is another try: the file may just have been retired."""
        try:
            yield
        except OSError as error:
            if not may_try_again:
                message = f"A data file of {self._table.layout.name} could not be read"
                raise RetryableError(message, remedy="Run again", file=file.file.path, reason=error) from error

    def _gone(self, file: DataFile) -> LakeFilesError | PastRetentionError:
        log = self._table.log()
        name, first = self._table.layout.name, log.first_retained()
        if any(live.path == file.path for live in log.snapshot(log.head()).all_files):
            message = f"A data file of {name} vanished from its lake folder"
            remedy = f"cdclake repair {name.typed} brings it back if it is still kept; otherwise load the table anew"
            return LakeFilesError(message, remedy=remedy, file=file.path)
        message = f"A retired data file of {name} is no longer kept"
        return PastRetentionError(message, remedy=f"Name change {first} or a later one", file=file.path)

    def _overwritten(self, file: DataFile) -> LakeFilesError:
        message = f"A data file of {self._table.layout.name} is not as it was written"
        remedy = "Bring its earlier version back, or load the table anew"
        return LakeFilesError(message, remedy=remedy, file=file.path)
