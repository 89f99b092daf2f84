"""The embedded AWS as a server: access, concurrency, and use by clients."""

from __future__ import annotations

import hashlib
import http.client
import io
import os
import socket
import subprocess
import sys
import threading
from contextlib import closing, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError
from pyarrow import fs

from cdclake.errors import ConfigurationError
from cdclake_cli.loopback import listen
from cdclake_devkit.local import EmbeddedAws
from cdclake_devkit.local.web import RequestGuard, http_server
from tests.cdclake_devkit.local.workbench import BUCKET, WAIT_SECONDS, Workbench, at_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from wsgiref.types import StartResponse, WSGIEnvironment

pytestmark = pytest.mark.aws

MEGABYTE = 1 << 20


def port_of(bench: Workbench) -> int:
    return urlsplit(bench.aws.endpoint).port or 0


def request(bench: Workbench, method: str, path: str, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(bench), timeout=WAIT_SECONDS)
    try:
        connection.request(method, path, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.fixture
def impatient_threads() -> Iterator[None]:
    """Threads switch a thousand times as often, so that race conditions occur."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


def test_only_the_loopback_address_is_bound(bench: Workbench) -> None:
    with pytest.raises(ConnectionRefusedError), socket.socket() as other:
        other.connect(("127.0.0.2", port_of(bench)))


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 200), ({"Origin": "https://evil.example"}, 403), ({"Origin": "null"}, 403), ({"Host": "evil.example"}, 403)],
)
def test_web_pages_cannot_reach_it(bench: Workbench, headers: dict[str, str], status: int) -> None:
    assert request(bench, "GET", "/", headers) == status


def test_the_moto_api_is_not_available(bench: Workbench) -> None:
    bench.put("still here")
    assert request(bench, "POST", "/moto-api/reset", {}) == 404
    assert bench.has("still here")


def test_a_port_in_use_is_a_clear_error() -> None:
    with closing(listen(0, "a test")) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"embedded AWS cannot listen on port {port}"), http_server(port):
            pass


def test_a_second_embedded_aws_in_a_process_is_refused(bench: Workbench) -> None:
    with pytest.raises(ConfigurationError, match="already has an embedded AWS"), EmbeddedAws():
        pass
    assert bench.s3.list_buckets()["Buckets"]


@pytest.mark.parametrize(
    ("condition", "max_concurrent"),
    [
        ({"HTTP_IF_NONE_MATCH": "*"}, 1),
        ({"HTTP_IF_MATCH": "etag"}, 1),
        ({"HTTP_X_AMZ_TARGET": "DynamoDB_20120810.PutItem"}, 1),
        ({}, 4),
    ],
)
def test_conditional_requests_run_one_at_a_time(condition: dict[str, str], max_concurrent: int) -> None:
    all_in = threading.Barrier(4)
    inside = [0]
    seen = []

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        inside[0] += 1
        seen.append(inside[0])
        with suppress(threading.BrokenBarrierError):
            all_in.wait(0.2)  # long enough for the others to arrive, if they may
        inside[0] -= 1
        return [environ["wsgi.input"].read()]

    def no_response(*_: object) -> Callable[[bytes], object]:
        raise AssertionError("the app must answer itself")

    guard = RequestGuard(app)

    def ask(number: int) -> None:
        body = str(number).encode()
        environ = {"REQUEST_METHOD": "PUT", "HTTP_HOST": "localhost", "CONTENT_LENGTH": "1", **condition}
        assert guard({**environ, "wsgi.input": io.BytesIO(body)}, no_response) == [body]

    at_once(4, ask)
    assert max(seen) == max_concurrent


@pytest.mark.usefixtures("impatient_threads")
def test_exactly_one_of_many_conditional_puts_of_an_object_wins(bench: Workbench) -> None:
    for turn in range(15):
        winners: list[int] = []

        def put(number: int, key: str = f"once-{turn}", winners: list[int] = winners) -> None:
            try:
                bench.s3.put_object(Bucket=BUCKET, Key=key, Body=f"{number:<300000}", IfNoneMatch="*")
                winners.append(number)
            except ClientError as error:
                assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 412

        at_once(12, put)
        assert winners == [int(bench.get(f"once-{turn}"))]


@pytest.mark.usefixtures("impatient_threads")
def test_exactly_one_of_many_conditional_writes_of_an_item_wins(bench: Workbench) -> None:
    dynamodb = bench.aws.client("dynamodb")
    dynamodb.create_table(
        TableName="leases",
        KeySchema=[{"AttributeName": "path", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "path", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    # botocore creates a client's exceptions at first use, and twice if two threads are first.
    refused = dynamodb.exceptions.ConditionalCheckFailedException
    for turn in range(15):
        winners: list[int] = []

        def take(number: int, path: str = str(turn), winners: list[int] = winners) -> None:
            try:
                dynamodb.update_item(
                    TableName="leases",
                    Key={"path": {"S": path}},
                    UpdateExpression="SET holder = :me",
                    ConditionExpression="attribute_not_exists(holder)",
                    ExpressionAttributeValues={":me": {"S": str(number)}},
                )
                winners.append(number)
            except refused:
                pass

        at_once(12, take)
        item = dynamodb.get_item(TableName="leases", Key={"path": {"S": str(turn)}})["Item"]
        assert [str(number) for number in winners] == [item["holder"]["S"]]


@pytest.mark.usefixtures("impatient_threads")
def test_a_listing_during_uploads_has_the_correct_hashes(bench: Workbench) -> None:
    body = os.urandom(6 * MEGABYTE)  # large enough to be stored in a file
    expected = f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'

    def put_or_list(number: int) -> None:
        if number == 0:
            for turn in range(12):
                bench.s3.put_object(Bucket=BUCKET, Key=f"hashed/{turn}", Body=body)
        else:
            for _ in range(40):
                listed = bench.s3.list_objects_v2(Bucket=BUCKET, Prefix="hashed/").get("Contents", [])
                assert {item["ETag"] for item in listed} <= {expected}

    at_once(5, put_or_list)


@pytest.mark.parametrize("size", [0, 1000, 6 * MEGABYTE, 25 * MEGABYTE + 1], ids=["none", "small", "one part", "parts"])
def test_arrow_writes_and_reads_objects_of_any_size(bench: Workbench, size: int) -> None:
    files = fs.S3FileSystem(
        endpoint_override=f"127.0.0.1:{port_of(bench)}",
        scheme="http",
        access_key="local",
        secret_key="local",
        region=bench.aws.region,
    )
    path = f"{BUCKET}/arrow/a b+c/{size}.parquet"
    body = os.urandom(size)
    with files.open_output_stream(path) as stream:
        for start in range(0, size, 4 * MEGABYTE):
            stream.write(body[start : start + 4 * MEGABYTE])
    assert files.get_file_info(path).size == size
    with files.open_input_file(path) as file:
        assert file.read() == body
        assert file.read_at(100, size // 2) == body[size // 2 : size // 2 + 100]
    head = bench.s3.head_object(Bucket=BUCKET, Key=f"arrow/a b+c/{size}.parquet")
    assert head["ContentLength"] == size


def test_nothing_is_left_after_the_end(tmp_path: Path) -> None:
    # In a separate process, because this one already has an embedded AWS.
    code = """
import sys, threading
from pathlib import Path
from cdclake_devkit.local import EmbeddedAws
from cdclake_devkit.local.web import RequestGuard
for turn in range(2):
    with EmbeddedAws() as aws:
        assert not aws.client("s3").list_buckets()["Buckets"], "state of the previous one"
        aws.client("s3").create_bucket(Bucket="bucket")
        logs = aws.logs_dir
        assert logs.is_dir()
    assert not logs.exists()
with EmbeddedAws(data_dir=Path(sys.argv[1]) / "data") as aws:
    pass
assert (Path(sys.argv[1]) / "data" / "logs").is_dir()
print([thread.name for thread in threading.enumerate()])
"""
    command = [sys.executable, "-W", "error", "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "['MainThread']\n", "")
