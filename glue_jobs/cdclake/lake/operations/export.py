"""Copies a lake table as of a change: its Parquet files in their partition folders. No Spark.

Files are copied byte for byte, except that soft-deleted rows are left out by default.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Callable
from urllib.parse import urlsplit

from pyarrow.fs import FileSelector, FileType

from cdclake.adapters.filesystem import lake_filesystem, open_output, storage_errors
from cdclake.adapters.stores import FILE, S3, open_store, parse_location
from cdclake.concurrency import CALLS_AT_ONCE, in_parallel
from cdclake.control.jobs.arguments import folder_prefix
from cdclake.errors import ConfigurationError, IntegrityError, naming_full_disk
from cdclake.lake.read.as_of import TableLocation, table_as_of
from cdclake.lake.read.retained_files import RetainedFileReader
from cdclake.model.layout import CONTROL_FOLDER, ICEBERG
from cdclake.model.partition_folder import partition_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from pyarrow.fs import FileSystem

    from cdclake.lake.read.as_of import RetainedFile

OnProgress = Callable[[int, int], None]
"""Called with the number of files copied so far, and their total number."""
_CHUNK_BYTES = 8 << 20


@dataclass(frozen=True)
class ExportResult:
    """A completed export.

    Attributes:
        change: Number of the change whose state was exported.
        committed_utc: Its commit time, ISO 8601.
        to: Where the files are.
        rows: Number of rows in them.
        bytes: Total size of the files.
    """

    table: str
    change: int
    committed_utc: str
    to: str
    files: int
    rows: int
    bytes: int


def export_table(
    lake: str,
    table: str,
    to: str,
    prefix: str = "",
    *,
    change: int | None = None,
    at: datetime | str | None = None,
    with_deleted: bool = False,
    progress: OnProgress = lambda done, count: None,  # noqa: ARG005 - names document the arguments
) -> ExportResult:
    """Copy the files of a lake table as of a change or a time; as it is now if neither is given.

    A target folder appears complete or not at all. In a bucket, a failed export deletes the objects that it wrote. The
    other arguments are as for `cdclake.lake.read.dataframe.read_table`.

    Args:
        to: A local folder, or `s3://bucket/folder`. It must not exist, or be empty.
        with_deleted: Whether to copy soft-deleted rows too; their `Op` is `D`.
        progress: Called after each file.

    Raises:
        ConfigurationError: There is no such table or change, or the target cannot be used.
        PastRetentionError: The state after that change is no longer retained.
        LakeFilesError: A file of the table vanished from its folder or was overwritten.
        RetryableError: A file could not be read.
    """
    source = TableLocation.at(lake, table, prefix)
    as_of = table_as_of(source.log(), change, at)
    target = _Bucket.at(to) if to.startswith(f"{S3}://") else _Folder.at(to)
    target.check_apart_from(source)
    target.check_empty()
    files = [retained for retained in as_of.files if with_deleted or retained.file.live_rows]
    reader, sizes = RetainedFileReader(source), dict[str, int]()

    with target.filling() as put:

        def copy(retained: RetainedFile) -> None:
            whole = with_deleted or not retained.file.deleted
            path = _exported_path(retained.file.path, as_of.snapshot.partition_key, retained.file.partition)
            sizes[path] = put(reader.fetch if whole else reader.fetch_live, retained, path)

        done = iter(range(1, len(files) + 1))
        in_parallel(copy, files, CALLS_AT_ONCE, lambda: progress(next(done), len(files)))
    return ExportResult(
        table=str(source.layout.name),
        change=as_of.change,
        committed_utc=as_of.committed_utc,
        to=to,
        files=len(files),
        rows=as_of.snapshot.rows + (as_of.snapshot.deleted_rows if with_deleted else 0),
        bytes=sum(sizes.values()),
    )


Fetch = Callable[["RetainedFile", Path], None]
"""Copies a retained file to a new local file."""
Put = Callable[[Fetch, "RetainedFile", str], int]
"""Stores a file at a path in the target, using the fetch function, and returns its size in bytes."""


def _exported_path(path: str, partition_key: tuple[str, ...], partition: tuple[str | None, ...]) -> str:
    """The path in the target of a data file; a file of an Iceberg table gets one in the folder of its partition."""
    if not path.startswith(ICEBERG):
        return path
    return partition_folder(partition_key, partition) + "-".join(path.split("/")[2:])


@dataclass(frozen=True)
class _Folder:
    """A local folder as the target of an export."""

    path: Path

    @classmethod
    def at(cls, text: str) -> _Folder:
        path = Path(parse_location(text).root) if urlsplit(text).scheme == FILE else Path(text).expanduser()
        return cls(path.resolve())

    def check_apart_from(self, source: TableLocation) -> None:
        if source.fs.scheme == FILE:
            root = Path(source.fs.root).resolve()
            _check_apart(source, self.path.relative_to(root).as_posix() if self.path.is_relative_to(root) else None)

    def check_empty(self) -> None:
        if self.path.is_dir() and not any(self.path.iterdir()):
            return
        if self.path.exists():
            raise _not_empty(str(self.path))

    @contextmanager
    def filling(self) -> Iterator[Put]:
        """Collect the files in a temporary sibling folder, and rename it to the target when it is complete."""
        partial = self.path.with_name(f".{self.path.name}-{uuid.uuid4().hex}")
        with naming_full_disk(self.path.parent):
            partial.mkdir(parents=True)

        def put(fetch: Fetch, file: RetainedFile, path: str) -> int:
            target = partial / path
            with naming_full_disk(self.path.parent, file.file.bytes):
                target.parent.mkdir(parents=True, exist_ok=True)
            fetch(file, target)
            return target.stat().st_size

        try:
            yield put
            try:
                partial.rename(self.path)
            except OSError as error:
                message = f"The exported files cannot be moved to {self.path}: {error.strerror}"
                raise ConfigurationError(message, remedy="Name a folder that does not exist yet") from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)  # gone already unless something failed


@dataclass(frozen=True)
class _Bucket:
    """A folder in a bucket as the target of an export.

    Attributes:
        location: `s3://bucket`.
        prefix: Key prefix, empty or with a trailing slash.
    """

    location: str
    prefix: str

    @classmethod
    def at(cls, text: str) -> _Bucket:
        bucket, _, folder = text.removeprefix(f"{S3}://").partition("/")
        return cls(f"{S3}://{bucket}", folder_prefix(folder))

    def check_apart_from(self, source: TableLocation) -> None:
        if source.fs.scheme == S3 and parse_location(self.location).root == source.fs.root:
            _check_apart(source, self.prefix.rstrip("/"))

    def check_empty(self) -> None:
        if next(open_store(self.location).list(self.prefix), None) is not None:
            raise _not_empty("/".join((self.location, self.prefix)))

    @contextmanager
    def filling(self) -> Iterator[Put]:
        """Fetch each file completely, then upload it as one object. If anything fails, delete all uploaded objects."""
        filesystem = lake_filesystem(self.location).open()
        sizes: dict[str, int] = {}

        with tempfile.TemporaryDirectory(prefix="cdclake-export-") as folder:

            def put(fetch: Fetch, file: RetainedFile, path: str) -> int:
                key, fetched = self.prefix + path, Path(folder, uuid.uuid4().hex)
                fetch(file, fetched)
                sizes[key] = fetched.stat().st_size
                with fetched.open("rb") as source, open_output(filesystem, key) as target:
                    shutil.copyfileobj(source, target, _CHUNK_BYTES)
                fetched.unlink()
                return sizes[key]

            try:
                yield put
                self._check_sizes(filesystem, sizes)
            except BaseException:
                open_store(self.location).delete(list(sizes))
                raise

    def _check_sizes(self, filesystem: FileSystem, sizes: dict[str, int]) -> None:
        with storage_errors(filesystem, self.prefix):
            infos = filesystem.get_file_info(FileSelector(self.prefix, allow_not_found=True, recursive=True))
        stored = {info.path: info.size for info in infos if info.type == FileType.File}
        wrong = sorted(key for key, size_bytes in sizes.items() if stored.get(key) != size_bytes)
        if wrong:
            message = f"{len(wrong)} exported objects do not have the size that was uploaded"
            raise IntegrityError(message, remedy="Export to another folder", bucket=self.location, file=wrong[0])


def _check_apart(source: TableLocation, target: str | None) -> None:
    """Refuse a target in the table's folder, where its readers would see the files, or in the control area.

    Args:
        target: Key of the target in the lake, without a trailing slash; None if it is not in the lake.
    """
    layout = source.layout
    if target is None:
        return
    for folder in (layout.table_prefix, f"{layout.prefix}{CONTROL_FOLDER}/", layout.prefix + ICEBERG):
        if f"{target}/".startswith(folder):
            message = f"The target is in the lake's own folder {folder}"
            raise ConfigurationError(message, remedy="Export to a separate folder")


def _not_empty(target: str) -> ConfigurationError:
    message = f"{target} is not empty"
    return ConfigurationError(message, remedy="Export to a new folder, or empty this one")
