"""Locations and the stores that they open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cdclake.adapters.folder import FolderStore
from cdclake.adapters.s3 import S3Store
from cdclake.adapters.stores import Location, open_store, parse_location
from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("my-lake.eu", Location("s3", "my-lake.eu")),
        ("s3://my-lake", Location("s3", "my-lake")),
        ("s3://my-lake/", Location("s3", "my-lake")),
        ("file:///tmp/my lake", Location("file", "/tmp/my lake")),
        ("file:///tmp/my%20lake", Location("file", "/tmp/my lake")),
        ("file://localhost/tmp", Location("file", "/tmp")),
    ],
)
def test_locations_are_parsed(text: str, expected: Location) -> None:
    assert parse_location(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "/tmp/lake", "lake/prefix", "s3://lake/prefix", "s3://", "file://host/tmp", "file:tmp", "gs://lake", "a b"],
)
def test_invalid_locations_are_errors_that_say_what_to_write(text: str) -> None:
    with pytest.raises(ConfigurationError, match="Write bucket, s3://bucket or file:///path"):
        parse_location(text)


def test_a_file_url_opens_that_folder(tmp_path: Path) -> None:
    folder = tmp_path / "a folder with 100% ä"
    folder.mkdir()
    opened = open_store(folder.as_uri())
    assert isinstance(opened, FolderStore)
    assert opened.root == folder


def test_a_bucket_name_opens_that_bucket(aws: None) -> None:
    opened = open_store("s3://my-lake")
    assert isinstance(opened, S3Store)
    assert opened.bucket == "my-lake"
