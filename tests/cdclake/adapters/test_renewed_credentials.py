"""A file system outlives the credentials with which it was opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from botocore.credentials import ReadOnlyCredentials
from pyarrow import fs

from cdclake.adapters import aws
from cdclake.adapters.filesystem import FileSystemSpec
from tests.cdclake.adapters.fake_s3 import FakeS3, serve

if TYPE_CHECKING:
    from collections.abc import Iterator


class ExpiringCredentials:
    """Credentials of a role, as botocore renews them.

    Attributes:
        access_key: The current one.
    """

    def __init__(self) -> None:
        self.access_key = "first"

    def get_credentials(self) -> ExpiringCredentials:
        """As of a session."""
        return self

    def get_frozen_credentials(self) -> ReadOnlyCredentials:
        return ReadOnlyCredentials(self.access_key, "secret", "token")


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> ExpiringCredentials:
    expiring = ExpiringCredentials()
    monkeypatch.setattr(aws, "session", lambda: expiring)
    return expiring


@pytest.fixture
def server() -> Iterator[tuple[FakeS3, str]]:
    s3 = FakeS3()
    serving = serve(s3)
    yield s3, next(serving)
    next(serving, None)


def test_each_operation_uses_the_current_credentials(
    server: tuple[FakeS3, str], credentials: ExpiringCredentials
) -> None:
    s3, endpoint = server
    files = FileSystemSpec("s3", "bucket", endpoint, "us-east-1").open()
    with files.open_output_stream("a.txt") as sink:
        sink.write(b"content")
    assert s3.objects == {"bucket/a.txt": b"content"}
    assert set(s3.signers) == {"first"}
    s3.signers.clear()
    credentials.access_key = "second"
    with files.open_input_file("a.txt") as source:
        assert source.read() == b"content"
    with files.open_input_stream("a.txt") as stream:
        assert stream.read() == b"content"
    assert files.get_file_info("a.txt").type == fs.FileType.File
    assert set(s3.signers) == {"second"}


def test_a_file_system_is_only_opened_again_if_the_credentials_change(
    server: tuple[FakeS3, str], credentials: ExpiringCredentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    connect = FileSystemSpec._connect

    def recorded(spec: FileSystemSpec, current: ReadOnlyCredentials) -> fs.FileSystem:
        opened.append(str(current.access_key))
        return connect(spec, current)

    monkeypatch.setattr(FileSystemSpec, "_connect", recorded)
    files = FileSystemSpec("s3", "bucket", server[1], "us-east-1").open()
    for access_key in ("first", "first", "second", "second"):
        credentials.access_key = access_key
        with files.open_output_stream("a.txt") as sink:
            sink.write(b"content")
    assert opened == ["first", "second"]
