"""Opens the object store at a location such as `s3://bucket` or `file:///folder`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from cdclake.adapters import aws
from cdclake.adapters.folder import FolderStore
from cdclake.adapters.s3 import S3Store
from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from cdclake.ports import ObjectStore

S3 = "s3"
FILE = "file"
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")


class Location(NamedTuple):
    """Where objects are stored.

    Attributes:
        scheme: `s3` or `file`.
        root: Bucket name, or the absolute path of a folder.
    """

    scheme: str
    root: str


def parse_location(text: str) -> Location:
    """Read `bucket`, `s3://bucket` or `file:///folder` (percent-encoded, as in every URL).

    Raises:
        ConfigurationError: It is none of these, or has a path below the bucket.
    """
    url = urlsplit(text)
    if url.scheme == FILE and url.netloc in {"", "localhost"} and url.path.startswith("/"):
        return Location(FILE, unquote(url.path))
    bucket = url.netloc if url.scheme == S3 and url.path in {"", "/"} else text
    if not _BUCKET.fullmatch(bucket):
        message = f"'{text}' is neither a bucket nor a folder"
        raise ConfigurationError(message, remedy="Write bucket, s3://bucket or file:///path/to/folder")
    return Location(S3, bucket)


def open_store(location: str) -> ObjectStore:
    """Open the object store at `bucket`, `s3://bucket` or `file:///folder`.

    Raises:
        ConfigurationError: The location is invalid, or the folder does not exist.
    """
    scheme, root = parse_location(location)
    return FolderStore(Path(root)) if scheme == FILE else S3Store(aws.client("s3"), root)
