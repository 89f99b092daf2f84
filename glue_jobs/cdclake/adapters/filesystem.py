"""A bucket as a pyarrow file system, described on the driver and opened in the worker, with errors that name the cause.

It needs pyarrow, so only the Spark side imports this module. boto3 looks up the credentials in the process that opens
the file system. So tasks contain no credentials, and a task that starts late gets fresh ones.

pyarrow repeats a request that S3 cannot serve (500, 503, throttling, lost connections, incomplete bodies), with growing
pauses. What still fails becomes an `OSError` whose text has a code, an operation and no file, like errors about the
content of a file (https://github.com/apache/arrow/blob/main/cpp/src/arrow/filesystem/s3_internal.h, `ErrorToStatus`).
Here such an error becomes an error of `cdclake.errors`. All files are opened here, so that none escapes.

pyarrow reads a range into a buffer of the range's size. An error of S3 that is longer does not fit: the client then
neither repeats the request nor tells the error, only that it "failed to flush" its stream. Such a read is `repeated`.
"""

from __future__ import annotations

import errno
import os
import random
import re
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from botocore.exceptions import ClientError
from pyarrow import fs

from cdclake.adapters import aws
from cdclake.adapters.s3 import bucket_remedies
from cdclake.adapters.stores import FILE, open_store, parse_location
from cdclake.concurrency import CALLS_AT_ONCE, executor
from cdclake.errors import CdclakeError, ConfigurationError, RetryableError, disk_full

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from botocore.credentials import Credentials, ReadOnlyCredentials
    from mypy_boto3_s3 import S3Client

    from cdclake.ports import ObjectStore

_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""The AWS SDKs' variables for an endpoint other than AWS; the first one set wins."""
_ATTEMPTS = 8
_LONGEST_PAUSE_SECONDS = 20.0
"""As in the AWS SDKs: https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html"""
_UNREAD_ERROR = "Failed to flush response stream"
_S3_ERROR = re.compile(
    r"AWS Error (?P<code>\w+)(?: \(HTTP status (?P<status>\d+)\))? during (?P<operation>\w+) operation: ?(?P<text>.*)",
    re.DOTALL,
)
_UNPARSED_CODE = re.compile(r"ExceptionName: (\w+)")
_TRANSIENT = frozenset(
    {
        "EXPIRED_TOKEN",
        "INTERNAL_FAILURE",
        "NETWORK_CONNECTION",
        "NO_SUCH_UPLOAD",  # an upload that another response, which was lost, has completed
        "REQUEST_EXPIRED",
        "REQUEST_TIMEOUT",
        "SERVICE_UNAVAILABLE",
        "SLOW_DOWN",
        "THROTTLING",
        "ExpiredToken",
        "RequestTimeout",
    }
)
_ABSENT = frozenset({"NO_SUCH_KEY", "RESOURCE_NOT_FOUND"})
_DENIED = frozenset({"ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "UNRECOGNIZED_CLIENT"})
_TOO_MANY_REQUESTS, _SERVER_ERROR = 429, 500
_client_lock = Lock()  # boto3 cannot create clients concurrently
_T = TypeVar("_T")


@dataclass(frozen=True)
class FileSystemSpec:
    """Where a bucket or folder is and how to reach it. Small, without secrets, and picklable.

    Attributes:
        scheme: `s3` or `file`.
        root: Bucket name, or the absolute path of a folder.
        endpoint: URL of the S3 endpoint; empty for AWS.
        region: AWS region; empty lets pyarrow find it.
        fetches_whole: Whether boto3 fetches files that are read whole. pyarrow asks for a file's size first; creating
            boto3's client takes longer than some such requests, so that pays only where a client is needed anyway.
    """

    scheme: str
    root: str
    endpoint: str = ""
    region: str = ""
    fetches_whole: bool = False

    def open(self) -> fs.FileSystem:
        """Open a file system whose paths are the keys of the bucket or folder.

        Raises:
            ConfigurationError: There are no AWS credentials.
        """
        base = fs.LocalFileSystem() if self.scheme == FILE else self._s3()
        return fs.SubTreeFileSystem(self.root, base)

    def _s3(self) -> fs.FileSystem:
        credentials = aws.session().get_credentials()
        if credentials is None:
            raise ConfigurationError(
                "No AWS credentials were found", remedy="Set a profile, a role or access keys", bucket=self.root
            )
        store = open_store(self.root) if self.fetches_whole else None
        return fs.PyFileSystem(_RenewingS3(credentials, self._connect, store))

    def _connect(self, credentials: ReadOnlyCredentials) -> fs.S3FileSystem:
        scheme, _, host = self.endpoint.rstrip("/").rpartition("://")
        return fs.S3FileSystem(
            access_key=credentials.access_key,
            secret_key=credentials.secret_key,
            session_token=credentials.token,
            region=self.region or None,
            scheme=scheme or "https",
            endpoint_override=host or None,
            allow_delayed_open=True,  # a small file is one request instead of three
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
        )


def calls_at_once(filesystem: fs.FileSystem) -> int:
    """As `ObjectReader.calls_at_once`."""
    is_folder = isinstance(filesystem, fs.SubTreeFileSystem) and isinstance(filesystem.base_fs, fs.LocalFileSystem)
    return 1 if is_folder else CALLS_AT_ONCE


class _RenewingS3(fs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
    """S3 with temporary credentials that are renewed while a task runs.

    pyarrow takes credentials once, and a role's credentials may have ten minutes left. botocore renews them in time, so
    each operation asks botocore for the current ones. A file keeps the credentials with which it was opened.

    Args:
        credentials: botocore's credentials.
        connect: Opens the file system with fixed credentials.
        store: Fetches whole files; None: the file system does.
    """

    def __init__(
        self,
        credentials: Credentials,
        connect: Callable[[ReadOnlyCredentials], fs.FileSystem],
        store: ObjectStore | None,
    ) -> None:
        self._credentials, self._connect, self.store = credentials, connect, store
        self._lock = Lock()
        self._used: ReadOnlyCredentials | None = None
        self._opened: fs.FileSystem | None = None

    def _current(self) -> fs.FileSystem:
        current = self._credentials.get_frozen_credentials()
        with self._lock:
            if self._opened is None or current != self._used:
                self._used, self._opened = current, self._connect(current)
            return self._opened

    def open_input_file(self, path: str) -> pa.NativeFile:
        return self._current().open_input_file(path)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self._current().open_input_stream(path, compression=None)

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:  # noqa: ANN401 - pyarrow's own type
        return self._current().open_output_stream(path, compression=None, metadata=metadata)

    def open_append_stream(self, path: str, metadata: Any) -> pa.NativeFile:  # noqa: ANN401 - likewise
        return self._current().open_append_stream(path, compression=None, metadata=metadata)

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        found: list[fs.FileInfo] = self._current().get_file_info(paths)
        return found

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        found: list[fs.FileInfo] = self._current().get_file_info(selector)
        return found

    def create_dir(self, path: str, recursive: bool) -> None:
        self._current().create_dir(path, recursive=recursive)

    def delete_dir(self, path: str) -> None:
        self._current().delete_dir(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        self._current().delete_dir_contents(path, missing_dir_ok=missing_dir_ok)

    def delete_root_dir_contents(self) -> None:
        self._current().delete_dir_contents("/", accept_root_dir=True)

    def delete_file(self, path: str) -> None:
        self._current().delete_file(path)

    def move(self, source: str, target: str) -> None:
        self._current().move(source, target)

    def copy_file(self, source: str, target: str) -> None:
        self._current().copy_file(source, target)

    def normalize_path(self, path: str) -> str:
        normalized: str = self._current().normalize_path(path)
        return normalized

    def get_type_name(self) -> str:
        return "s3"

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    __hash__ = fs.FileSystemHandler.__hash__


class Stream:
    """A file that is read from start to end, whose reads are `repeated`; what `pa.PythonFile` needs, and no more."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream

    def read(self, size_bytes: int | None = None) -> bytes:
        """The next bytes, all by default; fewer only at the end of the file."""
        data: bytes = repeated(partial(self._stream.read, size_bytes))
        return data

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return bool(self._stream.closed)


class ParquetFile(pq.ParquetFile):  # type: ignore[misc]  # pyarrow has no types
    """pyarrow's reader of an open Parquet file, whose reads are `repeated`.

    C++ reads the columns, several at a time. A Python file around the open file would read them one after the other.
    """

    def __init__(self, source: pa.NativeFile, **options: Any) -> None:  # noqa: ANN401 - pyarrow's own options
        repeated(partial(super().__init__, source, **options))

    def read_row_group(self, i: int, columns: Sequence[str] | None = None, *, use_threads: bool = True) -> pa.Table:
        """Read a row group, with all columns or some."""
        return repeated(partial(super().read_row_group, i, columns, use_threads=use_threads))

    def read(self, columns: Sequence[str] | None = None, *, use_threads: bool = True) -> pa.Table:
        """Read all rows, with all columns or some."""
        return repeated(partial(super().read, columns, use_threads=use_threads))

    def iter_batches(self, batch_size: int, **options: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401 - likewise
        """Read rows in batches. What fails begins anew, without the batches that it has yielded."""
        start = partial(super().iter_batches, batch_size, **options)
        batches, done = start(), 0

        def following() -> pa.RecordBatch | None:
            nonlocal batches
            try:
                return next(batches, None)
            except OSError:
                batches = islice(start(), done, None)
                raise

        while (batch := repeated(following)) is not None:
            done += 1
            yield batch


def repeated(read: Callable[[], _T]) -> _T:
    """Read from an open file, again with growing pauses while S3's client could not take the error that it got."""
    for attempt in range(1, _ATTEMPTS):
        try:
            return read()
        except OSError as error:
            if _UNREAD_ERROR not in str(error):
                raise
            time.sleep(random.random() * min(2**attempt, _LONGEST_PAUSE_SECONDS))
    return read()


def lake_filesystem(location: str) -> FileSystemSpec:
    """Describe the file system at `bucket`, `s3://bucket` or `file:///folder`, as this process reaches it.

    Raises:
        ConfigurationError: The location is invalid.
    """
    scheme, root = parse_location(location)
    if scheme == FILE:
        return FileSystemSpec(scheme, root)
    endpoint = next((os.environ[name] for name in _ENDPOINT_VARIABLES if os.environ.get(name)), "")
    return FileSystemSpec(scheme, root, endpoint, aws.session().region_name or "")


class FetchedFile:
    """A file system of which one file is in memory. Files are opened in it as in another.

    Args:
        filesystem: Where the file is from.
        content: All its bytes.
    """

    def __init__(self, filesystem: fs.FileSystem, content: bytes | pa.Buffer) -> None:
        self._filesystem, self._content = filesystem, content

    @classmethod
    def of(cls, filesystem: fs.FileSystem, path: str) -> FetchedFile:
        """Fetch a file.

        Raises:
            As `storage_errors`.
        """
        store = _store_of(filesystem)
        if store is None:
            with open_input(filesystem, path) as source:
                return cls(filesystem, repeated(source.read_buffer))
        content = store.get(path)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return cls(filesystem, content)

    def open_input_file(self, _path: str) -> pa.NativeFile:
        """Open the file for reading at any offset."""
        return pa.BufferReader(self._content)

    def open_input_stream(self, _path: str, compression: None) -> pa.NativeFile:  # noqa: ARG002 - its name
        """Open the file for reading from start to end."""
        return pa.BufferReader(self._content)

    def get_file_info(self, path: str) -> fs.FileInfo:
        """What is at a path of the other file system.

        Raises:
            As `storage_errors`.
        """
        with storage_errors(self._filesystem, path):
            return self._filesystem.get_file_info(path)


def _store_of(filesystem: fs.FileSystem) -> ObjectStore | None:
    """What fetches whole files, see `FileSystemSpec.fetches_whole`."""
    base = filesystem.base_fs if isinstance(filesystem, fs.SubTreeFileSystem) else filesystem
    handler = base.handler if isinstance(base, fs.PyFileSystem) else None
    return handler.store if isinstance(handler, _RenewingS3) else None


class FetchedFiles:
    """A file system of files in memory, several of which are fetched at once.

    Opening a file raises the error that occurred when it was fetched.
    """

    def __init__(self, filesystem: fs.FileSystem, paths: Sequence[str]) -> None:
        with executor(calls_at_once(filesystem)) as pool:
            self._files = {path: pool.submit(FetchedFile.of, filesystem, path) for path in paths}

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open the file for reading at any offset.

        Raises:
            As `storage_errors`.
        """
        return self._files[path].result().open_input_file(path)


@contextmanager
def open_input(filesystem: fs.FileSystem, path: str) -> Iterator[pa.NativeFile]:
    """Open a file for reading at any offset.

    Raises:
        As `storage_errors`, also in the block that reads.
    """
    with storage_errors(filesystem, path), filesystem.open_input_file(path) as source:
        yield source


@contextmanager
def open_stream(filesystem: fs.FileSystem, path: str) -> Iterator[Stream | pa.NativeFile]:
    """Open a file for reading from start to end; decompresses a `.gz` file.

    Raises:
        As `storage_errors`, also in the block that reads.
    """
    with storage_errors(filesystem, path), filesystem.open_input_stream(path, compression=None) as source:
        stream = Stream(source)
        yield pa.CompressedInputStream(pa.PythonFile(stream, "r"), "gzip") if path.endswith(".gz") else stream


@contextmanager
def open_output(filesystem: fs.FileSystem, path: str) -> Iterator[pa.NativeFile]:
    """Open a new file for writing. On disk, creates the folders above it.

    Raises:
        As `storage_errors`, also in the block that writes and at its end, when pyarrow completes the upload.
    """
    with storage_errors(filesystem, path), new_file(filesystem, path) as sink:
        yield sink


def folder_exists(filesystem: fs.FileSystem, path: str) -> bool:
    """Whether there is a folder; on S3, whether keys begin with its path and a slash.

    Raises:
        As `storage_errors`.
    """
    with storage_errors(filesystem, path):
        return bool(filesystem.get_file_info(path).type == fs.FileType.Directory)


def is_on_disk(filesystem: fs.FileSystem) -> bool:
    """Whether the files are in a folder, where a read costs little more than its bytes."""
    base = filesystem.base_fs if isinstance(filesystem, fs.SubTreeFileSystem) else filesystem
    return isinstance(base, fs.LocalFileSystem)


def new_file(filesystem: fs.FileSystem, path: str) -> pa.NativeFile:
    """Open a new file for writing, within `storage_errors`.

    On S3, pyarrow would create folders as empty objects, which readers of the lake would list.
    """
    folder = path.rpartition("/")[0]
    if folder and is_on_disk(filesystem):
        filesystem.create_dir(folder, recursive=True)
    return filesystem.open_output_stream(path)


@contextmanager
def storage_errors(filesystem: fs.FileSystem, path: str) -> Iterator[None]:
    """Translate pyarrow's errors about reaching a file. Errors about its content pass: an `OSError` without `errno`.

    Raises:
        FileNotFoundError: The file does not exist, or vanished.
        ConfigurationError: Access is denied, or the bucket does not exist.
        RetryableError: S3 fails, even after pyarrow's retries, or the credentials have expired.
        CdclakeError: S3 refuses for another reason, which the error contains.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        translated = _translated(error, filesystem, path)
        if translated is None:
            raise
        raise translated from error


def _translated(error: OSError, filesystem: fs.FileSystem, path: str) -> Exception | None:
    """The error to raise instead; None if the error is about the content of a file."""
    if error.errno is not None:
        return _from_system(error, filesystem, path)
    match = _S3_ERROR.search(str(error))
    if match is None:
        return None
    unparsed = _UNPARSED_CODE.search(match["text"])
    code, status = unparsed[1] if unparsed else match["code"], int(match["status"] or 0)
    bucket = filesystem.base_path.strip("/") if isinstance(filesystem, fs.SubTreeFileSystem) else ""
    if code in _ABSENT:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    reason = f"HTTP status {status}" if code == "UNKNOWN" else code
    message = f"S3 answered {reason} to {match['operation']}"
    is_read = match["operation"] in ("GetObject", "HeadObject")
    if is_read and _UNREAD_ERROR in match["text"]:
        return _asked_again(message, bucket, path)
    if code in _TRANSIENT or status == _TOO_MANY_REQUESTS or status >= _SERVER_ERROR:
        details = match["text"].strip() or None
        return RetryableError(message, remedy="Run again", bucket=bucket, file=path, reason=details)
    if is_read:
        return _asked_again(message, bucket, path)
    remedies = bucket_remedies(bucket)
    message = f"{message}: {match['text'].strip()}".removesuffix(": ")
    if code == "NO_SUCH_BUCKET":
        return ConfigurationError(message, remedy=remedies.missing, bucket=bucket, file=path)
    if code in _DENIED:
        return ConfigurationError(message, remedy=remedies.denied, bucket=bucket, file=path)
    remedy = "Look the code up in the S3 API reference"
    return CdclakeError(message, remedy=remedy, bucket=bucket, file=path)


def _asked_again(message: str, bucket: str, path: str) -> Exception:
    """The true cause of a failed read: pyarrow drops S3's answer, so boto3 asks for a byte of the same file."""
    try:
        with aws.translated_errors(bucket_remedies(bucket), bucket=bucket, file=path):
            try:
                with _client_lock:
                    client = aws.client("s3")
                client.get_object(Bucket=bucket, Key=path, Range="bytes=0-0")["Body"].close()
            except ClientError as error:
                code = aws.error_code(error)
                if code == "NoSuchKey" or (code == "AccessDenied" and _is_unlisted(client, bucket, path)):
                    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
                if code != "InvalidRange":  # of an empty file
                    raise
    except CdclakeError as error:
        return error
    remedy = "Run again: S3 accepts the request now. It was busy, credentials had expired, or access was just granted"
    return RetryableError(message, remedy=remedy, bucket=bucket, file=path)


def _is_unlisted(client: S3Client, bucket: str, path: str) -> bool:
    """Whether a list lacks a file. S3 denies access to a missing object if the caller may list a prefix alone.

    https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
    """
    try:
        listed = client.list_objects_v2(Bucket=bucket, Prefix=path, MaxKeys=1)
    except ClientError:
        return False
    return path not in {entry["Key"] for entry in listed.get("Contents", ())}


def _from_system(error: OSError, filesystem: fs.FileSystem, path: str) -> CdclakeError:
    folder = filesystem.base_path if isinstance(filesystem, fs.SubTreeFileSystem) else None
    full = disk_full(error, folder, path)
    if full:
        return full
    message = f"The operating system cannot access a file: {error.strerror or error}"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG):
        remedy = "Let this user read and write the folder, and shorten names that are too long for its file system"
        return ConfigurationError(message, remedy=remedy, file=path)
    return RetryableError(message, remedy="Check the disk, then run again", file=path)
