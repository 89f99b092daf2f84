"""The lake as a pyarrow file system, described on the driver and opened in the worker.

It needs pyarrow, so only the Spark side imports this module. boto3 looks up the credentials in the process that opens
the file system. So tasks contain no credentials, and a task that starts late gets fresh ones.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyarrow import fs

from cdclake.adapters import aws
from cdclake.adapters.stores import FILE, parse_location
from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow as pa

_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""The AWS SDKs' variables for an endpoint other than AWS; the first one set wins."""
_ATTEMPTS = 8


@dataclass(frozen=True)
class FileSystemSpec:
    """Where a bucket or folder is and how to reach it. Small, without secrets, and picklable.

    Attributes:
        scheme: `s3` or `file`.
        root: Bucket name, or the absolute path of a folder.
        endpoint: URL of the S3 endpoint; empty for AWS.
        region: AWS region; empty lets pyarrow find it.
    """

    scheme: str
    root: str
    endpoint: str = ""
    region: str = ""

    def open(self) -> fs.FileSystem:
        """Open a file system whose paths are the keys of the bucket or folder.

        Raises:
            ConfigurationError: There are no AWS credentials.
        """
        base = fs.LocalFileSystem() if self.scheme == FILE else self._s3()
        return fs.SubTreeFileSystem(self.root, base)

    def _s3(self) -> fs.S3FileSystem:
        credentials = aws.session().get_credentials()
        if credentials is None:
            raise ConfigurationError(
                "No AWS credentials were found", remedy="Set a profile, a role or access keys", bucket=self.root
            )
        frozen = credentials.get_frozen_credentials()
        scheme, _, host = self.endpoint.rstrip("/").rpartition("://")
        return fs.S3FileSystem(
            access_key=frozen.access_key,
            secret_key=frozen.secret_key,
            session_token=frozen.token,
            region=self.region or None,
            scheme=scheme or "https",
            endpoint_override=host or None,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
        )


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


def open_output(filesystem: fs.FileSystem, path: str) -> pa.NativeFile:
    """Open a new file for writing. On disk, creates the folders above it.

    On S3, pyarrow would create folders as empty objects, which readers of the lake would list.
    """
    base = filesystem.base_fs if isinstance(filesystem, fs.SubTreeFileSystem) else filesystem
    folder = path.rpartition("/")[0]
    if folder and isinstance(base, fs.LocalFileSystem):
        filesystem.create_dir(folder, recursive=True)
    return filesystem.open_output_stream(path)
