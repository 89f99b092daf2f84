"""Opens the data files of any retained change, wherever they are stored now.

A file may be published, retired, or (if the newest change added it) still staged. A run may retire or restore it at any
moment, even during a read. That is safe because a file name is never reused for other content. A retired file is read
from a copy in the control area; a clean-up deletes the copy after a day, and the next read copies the file again.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdclake.adapters.filesystem import repeated, storage_errors
from cdclake.errors import IntegrityError, LakeFilesError, PastRetentionError, RetryableError, naming_full_disk
from cdclake.lake.storage.reader import damage_reported, parquet_file
from cdclake.lake.storage.shape import is_deleted
from cdclake.lake.storage.writer import COMPRESSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from cdclake.lake.read.as_of import RetainedFile, TableLocation
    from cdclake.model.snapshot import DataFile
    from cdclake.ports import ObjectStore

_ATTEMPTS = 2
_CHUNK_BYTES = 8 << 20


class RetainedFileReader:
    """Reads the data files of one lake table. Safe to share between threads."""

    def __init__(self, location: TableLocation) -> None:
        self._location = location
        self._fs = location.fs.open()
        self._store: ObjectStore | None = None
        self._lock = Lock()

    def row_groups(self, file: RetainedFile) -> Iterator[pa.Table]:
        """A file's rows with all its columns, one row group at a time.

        Raises:
            PastRetentionError: The file is no longer retained.
            LakeFilesError: The file vanished from the table's folder, was overwritten or is damaged.
            CdclakeError: As `storage_errors`.
        """
        done = 0
        for attempts_left in reversed(range(_ATTEMPTS)):
            with self._retry_if(attempts_left > 0, file), self._open(file) as source:
                parquet = parquet_file(source)
                if parquet.metadata.num_rows != file.file.rows:
                    raise self._overwritten(file.file)
                while done < parquet.num_row_groups:
                    rows = parquet.read_row_group(done, use_threads=False)
                    done += 1
                    yield rows
                return

    def fetch_live(self, file: RetainedFile, path: Path) -> None:
        """Copy a file to a new local file, without its soft-deleted rows.

        Raises:
            As `row_groups`.
        """
        with ExitStack() as stack:
            stack.enter_context(naming_full_disk(path.parent, file.file.bytes))
            writer: pq.ParquetWriter | None = None
            for rows in self.row_groups(file):
                if writer is None:
                    writer = pq.ParquetWriter(path, rows.schema, compression=COMPRESSION, store_schema=False)
                    stack.callback(writer.close)
                writer.write_table(rows.filter(pc.invert(is_deleted(rows))))

    def fetch(self, file: RetainedFile, path: Path) -> None:
        """Copy a file to a new local file, byte for byte.

        Raises:
            As `row_groups`, and `RetryableError` if only a part of the file arrived, twice.
        """
        for attempts_left in reversed(range(_ATTEMPTS)):
            with self._retry_if(attempts_left > 0, file), self._open(file) as source:
                with naming_full_disk(path.parent, file.file.bytes), path.open("wb") as target:
                    while chunk := repeated(partial(source.read, _CHUNK_BYTES)):
                        target.write(chunk)
                    written = target.tell()
                if written == file.file.bytes:
                    return
        message = f"Two attempts to copy a data file of {self._location.layout.name} failed: only a part of it arrived"
        raise RetryableError(message, remedy="Run again", file=file.file.path)

    @contextmanager
    def open(self, retained: RetainedFile) -> Iterator[pa.NativeFile]:
        """Open a file whose size is still as written. While it is read, no run may work on the table.

        Raises:
            PastRetentionError: The file is no longer retained.
            LakeFilesError: The file vanished from the table's folder, was overwritten or is damaged; also in the block
                that reads.
            CdclakeError: As `storage_errors`, likewise.
        """
        path = retained.file.path
        with damage_reported(path), storage_errors(self._fs, path), self._open(retained) as source:
            yield source

    def _open(self, retained: RetainedFile) -> pa.NativeFile:
        layout, file = self._location.layout, retained.file
        published = self._open_key(layout.data_key(file.path))
        if published is not None:
            if published.size() != file.bytes:
                raise self._overwritten(file)
            return published
        copy_key = layout.as_of_key(file.path)
        copy = self._open_key(copy_key)
        if copy is not None and copy.size() == file.bytes:
            return copy
        try:
            self._lake().copy_retained(layout.data_key(file.path), layout.retired_key(file.path), copy_key)
        except IntegrityError as error:
            staged = self._open_key(retained.staged_key) if retained.staged_key else None
            if staged is None:
                raise self._missing(file) from error
            return staged
        copy = self._open_key(copy_key)
        if copy is None:  # an erasure deleted it in this moment
            raise self._missing(file)
        return copy

    def _open_key(self, key: str) -> pa.NativeFile | None:
        try:
            with storage_errors(self._fs, key):
                return self._fs.open_input_file(key)
        except FileNotFoundError:
            return None

    def _lake(self) -> ObjectStore:
        with self._lock:  # boto3 cannot create clients concurrently
            if self._store is None:
                self._store = self._location.store()
            return self._store

    @contextmanager
    def _retry_if(self, may_retry: bool, file: RetainedFile) -> Iterator[None]:
        """Suppress a failed read if another attempt follows: a run may just have retired the file."""
        try:
            with damage_reported(file.file.path), storage_errors(self._fs, file.file.path):
                yield
        except LakeFilesError:
            if not may_retry:
                raise

    def _missing(self, file: DataFile) -> LakeFilesError | PastRetentionError:
        log = self._location.log()
        name, first = self._location.layout.name, log.retained().through + 1
        if any(live.path == file.path for live in log.snapshot(log.head()).all_files):
            message = f"A data file of {name} vanished from its lake folder"
            remedy = f"Run cdclake repair {name.typed}, which restores it if a copy is kept; otherwise reload the table"
            return LakeFilesError(message, remedy=remedy, file=file.path)
        message = f"A retired data file of {name} no longer exists"
        return PastRetentionError(message, remedy=f"Use change {first} or a later one", file=file.path)

    def _overwritten(self, file: DataFile) -> LakeFilesError:
        message = f"A data file of {self._location.layout.name} was overwritten"
        remedy = "Restore its earlier version, or reload the table"
        return LakeFilesError(message, remedy=remedy, file=file.path)
