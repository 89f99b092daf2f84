"""Where another table is: a folder on this machine or in S3, and how each library reaches it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from botocore.exceptions import BotoCoreError, ClientError
from pyarrow import fs

from cdclake.adapters import aws
from cdclake.adapters.filesystem import FileSystemSpec, lake_filesystem, storage_errors
from cdclake.errors import CdclakeError, ConfigurationError, RetryableError

if TYPE_CHECKING:
    from collections.abc import Iterator

_S3 = "s3://"
INSTALL = "pip install 'cdclake-cli[formats]'"
"""The extra with the packages that read other formats."""


@dataclass(frozen=True)
class Place:
    """A folder or a file.

    Attributes:
        text: A path, `file:///path` or `s3://bucket/key`; also as Spark writes it, `s3a://bucket/key`.
    """

    text: str

    @cached_property
    def url(self) -> str:
        """The place as a URL or an absolute path, without a slash at the end."""
        text = self.text.rstrip("/")
        for scheme in ("s3a://", "s3n://"):
            if text.startswith(scheme):
                return f"{_S3}{text.removeprefix(scheme)}"
        if text.startswith("file:"):
            return unquote(text.removeprefix("file:").removeprefix("//").removeprefix("localhost"))
        if text.startswith(_S3):
            return text
        try:
            return str(Path(text).expanduser().absolute())
        except RuntimeError as error:
            raise ConfigurationError("The user has no home folder", remedy="Check the path", location=text) from error

    @property
    def is_s3(self) -> bool:
        """Whether it is in S3."""
        return self.url.startswith(_S3)

    @cached_property
    def files(self) -> fs.FileSystem:
        """A file system whose paths are relative to the bucket, or absolute on this machine."""
        return self._spec.open() if self.is_s3 else fs.LocalFileSystem()

    @property
    def path(self) -> str:
        """The place in `files`."""
        return self.url.removeprefix(_S3).partition("/")[2] if self.is_s3 else self.url

    @cached_property
    def _spec(self) -> FileSystemSpec:
        return lake_filesystem(self.url.removeprefix(_S3).partition("/")[0])

    def exists(self, name: str = "") -> bool:
        """Whether there is a file or folder of this name in the folder; without a name, the place itself."""
        path = f"{self.path}/{name}" if name else self.path
        with storage_errors(self.files, path):
            return bool(self.files.get_file_info(path).type != fs.FileType.NotFound)

    def object_store_options(self) -> dict[str, str]:
        """Settings of the libraries that reach S3 by Rust's object_store."""
        if not self.is_s3:
            return {}
        key, secret, token = credentials_of(self._spec)
        endpoint, region = self._spec.endpoint, self._spec.region
        return {
            "aws_access_key_id": key,
            "aws_secret_access_key": secret,
            **({"aws_session_token": token} if token else {}),
            **({"aws_region": region} if region else {}),
            **({"aws_endpoint": endpoint} if endpoint else {}),
            **({"aws_allow_http": "true"} if endpoint.startswith("http://") else {}),
        }

    def iceberg_properties(self) -> dict[str, str]:
        """Settings of pyiceberg."""
        return iceberg_properties(self._spec) if self.is_s3 else {}


def credentials_of(spec: FileSystemSpec) -> tuple[str, str, str]:
    """The current AWS credentials: key, secret and token.

    Raises:
        ConfigurationError: There are none.
    """
    credentials = aws.session().get_credentials()
    if credentials is None:
        remedy = "Set a profile, a role or access keys"
        raise ConfigurationError("No AWS credentials were found", remedy=remedy, bucket=spec.root)
    frozen = credentials.get_frozen_credentials()
    return frozen.access_key or "", frozen.secret_key or "", frozen.token or ""


def iceberg_properties(spec: FileSystemSpec) -> dict[str, str]:
    """Settings with which pyiceberg reaches S3."""
    key, secret, token = credentials_of(spec)
    given = {
        "s3.access-key-id": key,
        "s3.secret-access-key": secret,
        "s3.session-token": token,
        "s3.region": spec.region,
        "s3.endpoint": spec.endpoint,
    }
    return {name: value for name, value in given.items() if value}


@contextmanager
def reading(kind: str, place: str, *errors: type[Exception]) -> Iterator[None]:
    """Translate errors of a format's package in the block.

    Args:
        kind: Name of the format.
        errors: What the package raises.

    Raises:
        ConfigurationError: The package is missing, or cannot read the table.
        RetryableError: A file of the table is not there.
    """
    try:
        yield
    except (CdclakeError, BotoCoreError, ClientError):
        raise
    except ModuleNotFoundError as error:
        message = f"The package that reads {kind} is missing"
        raise ConfigurationError(message, remedy=f"Run {INSTALL}") from error
    except FileNotFoundError as error:
        message = f"A file of the {kind} table is not there: {_first_line(error)}"
        remedy = "If its job deleted the file meanwhile, compare again; else check the location"
        raise RetryableError(message, remedy=remedy, location=place) from error
    except errors as error:
        message = f"The {kind} table cannot be read: {_first_line(error)}"
        raise ConfigurationError(message, remedy="Check the location, and its permissions", location=place) from error


def _first_line(error: Any) -> str:  # noqa: ANN401 - any error
    return str(error).strip().partition("\n")[0][:300] or type(error).__name__
