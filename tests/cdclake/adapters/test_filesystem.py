"""pyarrow sees the same keys and content as the object store."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from moto.server import ThreadedMotoServer

from cdclake.adapters import aws as aws_clients
from cdclake.adapters.filesystem import FetchedFile, FileSystemSpec, folder_exists, lake_filesystem, open_output
from cdclake.adapters.stores import open_store
from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BUCKET = "lake-of-tests"


@pytest.fixture
def s3_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An S3 endpoint with one bucket, set in the AWS SDKs' environment variables."""
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_SESSION_TOKEN": "token",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    aws_clients.client("s3").create_bucket(Bucket=BUCKET)
    yield endpoint
    server.stop()


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.aws)])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Each kind of location that pyarrow opens."""
    if request.param == "folder":
        return tmp_path.as_uri()
    request.getfixturevalue("s3_server")
    return BUCKET


def test_the_object_store_lists_what_pyarrow_writes(location: str) -> None:
    filesystem = lake_filesystem(location).open()
    table = pa.table({"id": [1, 2, 3], "name": ["a", "b", None]})
    path = "_cdclake/shop/product/staging/day=2024-03-05 10%3A00/1.parquet"
    with open_output(filesystem, path) as output:
        pq.write_table(table, output)

    objects = open_store(location)
    (found,) = objects.list("")  # and no empty object for a folder
    assert found.key == path
    assert found.size_bytes > 0
    objects.copy(path, "shop/product/1.parquet")
    assert pq.read_table("shop/product/1.parquet", filesystem=filesystem) == table


def test_a_folder_exists_if_it_holds_a_file(location: str) -> None:
    open_store(location).put("shop/orders/LOAD00000001.csv", b"1,a\n")
    filesystem = lake_filesystem(location).open()
    paths = ("shop/orders", "shop", "shop/order", "SHOP/ORDERS", "shop/orders/LOAD00000001.csv")
    assert [folder_exists(filesystem, path) for path in paths] == [True, True, False, False, False]


def test_a_pickled_spec_works(location: str) -> None:
    open_store(location).put("a/b", b"content")
    spec = pickle.loads(pickle.dumps(lake_filesystem(location)))
    with spec.open().open_input_stream("a/b") as stream:
        assert stream.read() == b"content"


@pytest.mark.parametrize("fetches_whole", [False, True])
def test_a_file_fetched_whole_takes_one_request_of_the_object_store(s3_server: str, fetches_whole: bool) -> None:
    open_store(BUCKET).put("a/b", b"content")
    without_pyarrow = FileSystemSpec("s3", BUCKET, "http://127.0.0.1:1", "us-east-1")  # where nobody answers
    spec = replace(without_pyarrow if fetches_whole else lake_filesystem(BUCKET), fetches_whole=fetches_whole)
    filesystem = spec.open()
    assert FetchedFile.of(filesystem, "a/b").open_input_file("a/b").read() == b"content"
    with pytest.raises(FileNotFoundError):
        FetchedFile.of(filesystem, "a/c")


def test_a_spec_contains_endpoint_and_region_but_no_secret(s3_server: str) -> None:
    spec = lake_filesystem(f"s3://{BUCKET}")
    assert spec == FileSystemSpec("s3", BUCKET, s3_server, "us-east-1")
    assert b"secret" not in pickle.dumps(spec)


def test_the_endpoint_of_s3_wins_over_the_general_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://general:1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://s3:1")
    assert lake_filesystem(BUCKET).endpoint == "http://s3:1"


def test_missing_credentials_are_an_error_that_says_so(s3_server: str, no_credentials: None) -> None:
    with pytest.raises(ConfigurationError, match="No AWS credentials"):
        lake_filesystem(BUCKET).open()
