"""pyarrow's S3FileSystem against a server that fails: each fault is repeated, or reported as what it is."""

from __future__ import annotations

import errno
import gzip
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pyarrow as pa
import pytest

from cdclake.adapters import filesystem
from cdclake.adapters.filesystem import FetchedFile, lake_filesystem, open_output, storage_errors
from cdclake.adapters.stores import open_store
from cdclake.errors import (
    CdclakeError,
    ConfigurationError,
    DiskFullError,
    InputError,
    LakeFilesError,
    RetryableError,
)
from cdclake.lake.raw import parquet as raw_parquet
from cdclake.lake.raw.quarantine import quarantine_rows
from cdclake.lake.raw.reader import inspect_raw_file, read
from cdclake.lake.raw.rows import BadRow, BadRowKind, RawRows
from cdclake.lake.spark.task_errors import SparkTask, TaskError, raising_task_errors
from cdclake.lake.storage.bloom import row_group_filter
from cdclake.lake.storage.keys import KEY, LEADING_KEY
from cdclake.lake.storage.reader import read_batches
from cdclake.lake.storage.shape import TableShape
from cdclake.lake.storage.tombstones import read_tombstone_file, write_tombstone_file
from cdclake.lake.storage.writer import DataFileWriter
from cdclake.model.raw.files import ListedObject, RawFile, parse_raw_file
from cdclake.model.schema import Column, Schema
from cdclake.model.table.name import TableName
from cdclake.model.table.settings import TableSettings
from cdclake_cli.doctor.row_statistics import RowStatistics
from cdclake_cli.doctor.sampling import FileFacts, read_sample
from tests.builders import parquet_bytes
from tests.cdclake.adapters.fake_s3 import HALF_BODY, RESET, FakeS3, serve
from tests.cdclake_devkit.strict_aws.conftest import retry_at_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyarrow.fs import FileSystem

BUCKET, PREFIX = "bucket", "shop/orders/"
PARQUET, CSV = "20240305-101500123.parquet", "20240305-111500123.csv"
SHAPE = TableShape(Schema((Column("id", "bigint"), Column("name", "string"))), ("id",), ())
SETTINGS = TableSettings.from_item({"PrimaryKey": "id", "Schema": "id bigint, name string"})
RETRYABLE = [(500, "InternalError"), (503, "SlowDown"), (503, "ServiceUnavailable"), (429, "SlowDown"), (RESET, "")]


@pytest.fixture(scope="module")
def server() -> Iterator[FakeS3]:
    """A server that the AWS SDKs find. pyarrow sends each request once."""
    s3 = FakeS3()
    serving = serve(s3)
    environment = {"AWS_ENDPOINT_URL": next(serving), "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**environment, "AWS_DEFAULT_REGION": "us-east-1"}.items():
            patch.setenv(name, value)
        patch.delenv("AWS_PROFILE", raising=False)
        patch.setattr(boto3, "DEFAULT_SESSION", None)
        patch.setattr(filesystem, "_ATTEMPTS", 1)
        yield s3
    next(serving, None)


@pytest.fixture(scope="module")
def content() -> dict[str, bytes]:
    """A file of each kind."""
    rows = pa.table({"id": range(20_000), "name": [f"name {i}" * 3 for i in range(20_000)]})
    tombstones = pa.table({"_leading_key": [1], "_key": [1], "_cdc_position": ["p"]})
    stored = rows.append_column("Op", pa.repeat("I", 20_000)).append_column("_cdc_position", pa.repeat("", 20_000))
    return {
        f"{BUCKET}/{PREFIX}{PARQUET}": parquet_bytes(rows, compression="none"),
        f"{BUCKET}/{PREFIX}{CSV}": b"U,1,a\n" * 60_000,
        f"{BUCKET}/data.parquet": parquet_bytes(stored, compression="none"),
        f"{BUCKET}/deletes.parquet": parquet_bytes(tombstones, compression="none"),
    }


@pytest.fixture
def s3(server: FakeS3, content: dict[str, bytes]) -> FakeS3:
    """The server with these files, without faults."""
    server.objects, server.faults = dict(content), []
    return server


def opened() -> FileSystem:
    return lake_filesystem(BUCKET).open()


def raw_file(key: str) -> RawFile:
    file = parse_raw_file(ListedObject(key, 1, datetime(2024, 3, 5, tzinfo=timezone.utc)), PREFIX)
    assert file is not None
    return file


def read_raw_file(name: str) -> int:
    file = raw_file(PREFIX + name)
    parts = inspect_raw_file(opened(), file, SETTINGS).parts
    batches = (batch for part in parts for batch in read(opened(), part, SHAPE, SETTINGS, TableName("shop", "orders")))
    return sum(batch.rows.num_rows for batch in batches)


def write_data_file(rows: int = 10, text_bytes: int = 10) -> None:
    writer = DataFileWriter(opened(), ["staged.parquet"], SHAPE, (), rows)
    names = pa.array([os.urandom(text_bytes).hex() for _ in range(rows)])
    columns = {"id": pa.array(range(rows)), "name": names, "Op": pa.repeat("I", rows)}
    writer.write(pa.table({**columns, "_cdc_position": pa.repeat("", rows)}))
    writer.close()


def write_bad_rows() -> None:
    quarantine_rows(opened(), "bad.jsonl", [BadRow("file", 1, BadRowKind.VALUE, "reason", "content")], 1)


def write_deletes() -> None:
    write_tombstone_file(opened(), "new.parquet", read_tombstone_file(opened(), "deletes.parquet"), "", ("bigint",))


READS: dict[str, Callable[[], Any]] = {
    "raw Parquet": lambda: read_raw_file(PARQUET),
    "raw CSV": lambda: read_raw_file(CSV),
    "data file": lambda: sum(rows.num_rows for rows in read_batches(opened(), "data.parquet", SHAPE)),
    "tombstones": lambda: read_tombstone_file(opened(), "deletes.parquet").num_rows,
}
WRITES: dict[str, Callable[[], Any]] = {
    "data file": write_data_file,
    "tombstones": write_deletes,
    "quarantine": write_bad_rows,
}


def error_of(action: Callable[[], Any]) -> CdclakeError:
    with pytest.raises(CdclakeError) as caught:
        action()
    error = caught.value
    assert str(error.details["file"]).rpartition("/")[2], "names the file"
    assert error.remedy
    assert not isinstance(error, (InputError, LakeFilesError)), "blames the file"
    return error


@pytest.mark.parametrize("action", READS)
def test_reads_work_without_faults(s3: FakeS3, action: str) -> None:
    assert READS[action]()


@pytest.mark.parametrize(("status", "code"), RETRYABLE)
@pytest.mark.parametrize("method", ["HEAD", "GET"])
@pytest.mark.parametrize("action", READS)
def test_a_read_that_s3_fails_is_to_be_run_again(
    s3: FakeS3, action: str, method: str, status: int | str, code: str
) -> None:
    s3.fail(method, status, code)
    error = error_of(READS[action])
    assert isinstance(error, RetryableError)
    assert "S3 answered" in error.message


@pytest.mark.parametrize("status", [503, RESET, HALF_BODY])
@pytest.mark.parametrize("skip", [1, 2])
def test_a_fault_after_the_footer_is_no_damaged_file(s3: FakeS3, status: int | str, skip: int) -> None:
    s3.fail("GET", status, skip=skip)
    assert isinstance(error_of(READS["raw Parquet"]), RetryableError)


@pytest.mark.parametrize("action", READS)
def test_a_body_that_ends_early_is_no_damaged_file(s3: FakeS3, action: str) -> None:
    s3.fail("GET", HALF_BODY)
    assert "NETWORK_CONNECTION" in error_of(READS[action]).message


@pytest.mark.parametrize("method", ["HEAD", "GET"])
@pytest.mark.parametrize("action", READS)
def test_denied_access_names_the_cause_and_the_permission(s3: FakeS3, action: str, method: str) -> None:
    s3.fail(method, 403, "AccessDenied")
    if method == "HEAD":  # the request that asks for the cause
        s3.faults.append(type(s3.faults[0])("GET", 403, "AccessDenied"))
    error = error_of(READS[action])
    assert isinstance(error, ConfigurationError)
    assert "AccessDenied" in error.message
    assert "s3:GetObject" in error.remedy


@pytest.mark.parametrize("status", [400, 403])
@pytest.mark.parametrize("action", READS)
def test_a_task_whose_token_expired_is_to_be_run_again(s3: FakeS3, action: str, status: int) -> None:
    s3.fail("HEAD", status, "ExpiredToken")  # boto3 then asks with fresh credentials
    error = error_of(READS[action])
    assert isinstance(error, RetryableError)
    assert "expired" in error.remedy


def test_another_refusal_names_the_answer_of_s3(s3: FakeS3) -> None:
    s3.fail("GET", 400, "KMS.DisabledException")
    error = error_of(READS["data file"])
    assert "KMS.DisabledException" in error.message
    assert not isinstance(error, RetryableError)


@pytest.mark.parametrize("method", ["HEAD", "GET"])
@pytest.mark.parametrize("name", [PARQUET, CSV])
def test_a_raw_file_that_vanished_is_reported_as_such(s3: FakeS3, name: str, method: str) -> None:
    s3.fail(method, 404, "NoSuchKey")
    with pytest.raises(InputError, match="vanished") as caught:
        read_raw_file(name)
    assert caught.value.details["file"] == name


@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_a_data_file_that_vanished_is_reported_as_such(s3: FakeS3, method: str) -> None:
    s3.fail(method, 404, "NoSuchKey")
    with pytest.raises(LakeFilesError, match="vanished") as caught:
        READS["data file"]()
    assert caught.value.details["file"] == "data.parquet"


def test_a_damaged_file_is_still_called_damaged(s3: FakeS3) -> None:
    s3.objects[f"{BUCKET}/{PREFIX}{PARQUET}"] = b"PAR1 and so on"
    s3.objects[f"{BUCKET}/data.parquet"] = b"PAR1 and so on"
    with pytest.raises(InputError, match="cannot be read as parquet"):
        read_raw_file(PARQUET)
    with pytest.raises(LakeFilesError, match="cannot be read as Parquet"):
        READS["data file"]()


@pytest.mark.slow
@pytest.mark.parametrize(("status", "code"), RETRYABLE)
@pytest.mark.parametrize("action", WRITES)
def test_a_write_that_s3_fails_is_to_be_run_again(s3: FakeS3, action: str, status: int | str, code: str) -> None:
    s3.fail("PUT", status, code)
    assert isinstance(error_of(WRITES[action]), RetryableError)


def write_large_data_file() -> None:
    write_data_file(8000, 1000)


@pytest.mark.sampled(test=4)
@pytest.mark.slow
@pytest.mark.parametrize(("status", "code"), [(503, "SlowDown"), (RESET, "")])
@pytest.mark.parametrize(
    ("method", "skip"),
    [("POST", 0), ("PUT", 0), ("PUT", 1), ("POST", 1)],
    ids=["create", "part", "next part", "complete"],
)
def test_a_large_write_that_s3_fails_is_to_be_run_again(
    s3: FakeS3, method: str, skip: int, status: int | str, code: str
) -> None:
    s3.fail(method, status, code, skip=skip)
    assert isinstance(error_of(write_large_data_file), RetryableError)


@pytest.mark.parametrize("action", WRITES)
def test_a_write_without_permission_names_it(s3: FakeS3, action: str) -> None:
    s3.fail("PUT", 403, "AccessDenied")
    error = error_of(WRITES[action])
    assert isinstance(error, ConfigurationError)
    assert "s3:PutObject" in error.remedy


def test_a_write_with_an_expired_token_is_to_be_run_again(s3: FakeS3) -> None:
    s3.fail("PUT", 400, "ExpiredToken")
    error = error_of(write_data_file)
    assert isinstance(error, RetryableError)
    assert "ExpiredToken" in error.message


def test_a_write_to_a_bucket_that_does_not_exist_names_it(s3: FakeS3) -> None:
    s3.fail("PUT", 404, "NoSuchBucket")
    error = error_of(write_data_file)
    assert isinstance(error, ConfigurationError)
    assert BUCKET in error.remedy


@pytest.mark.slow
@pytest.mark.parametrize(
    ("action", "method", "status"),
    [
        (READS["raw Parquet"], "GET", 503),
        (READS["data file"], "GET", HALF_BODY),
        (lambda: open_store(BUCKET).get("data.parquet"), "GET", HALF_BODY),
        (write_data_file, "PUT", RESET),
    ],
    ids=["throttled", "half a body", "half an object", "reset"],
)
def test_a_fault_that_passes_is_not_noticed(
    s3: FakeS3, monkeypatch: pytest.MonkeyPatch, action: Callable[[], Any], method: str, status: int | str
) -> None:
    monkeypatch.setattr(filesystem, "_ATTEMPTS", 3)
    s3.fail(method, status, "SlowDown", times=1)
    action()
    assert [fault.times for fault in s3.faults] == [0]


def large_file_with_short_columns() -> bytes:
    """A Parquet file of which neither operations nor positions nor the filter fill a range as long as an error."""
    rows = {"id": range(100), "name": [os.urandom(1000).hex() for _ in range(100)]}
    table = pa.table({**rows, "Op": pa.repeat("I", 100), "_cdc_position": pa.repeat("", 100)})
    return parquet_bytes(table, row_group_size=50, compression="none", bloom_filter_options={"name": {"ndv": 8}})


def remembered_deletes() -> bytes:
    keys = [f"{number:01000}" for number in range(100)]
    return parquet_bytes(pa.table({LEADING_KEY: keys, KEY: keys, "_cdc_position": [""] * 100}), compression="none")


def doctor_sample() -> FileFacts:
    file = raw_file(PREFIX + CSV)
    (facts,) = read_sample(opened(), [file], SETTINGS, TableName("shop", "orders"), RowStatistics(("id",)))
    assert facts.error is None
    return facts


KEYED_BY_NAME = TableShape(SHAPE.schema, ("name",), ())
SHORT_READS: dict[str, Callable[[], Any]] = {
    "CSV": lambda: read_raw_file(CSV),
    "compressed CSV": lambda: read_raw_file(CSV + ".gz"),
    "small file at once": lambda: FetchedFile.of(opened(), PREFIX + CSV).open_input_file(CSV).read(),
    "doctor": doctor_sample,
    "columns": lambda: [*read_batches(opened(), "data.parquet", SHAPE, ["Op", "_cdc_position"])],
    "rows": lambda: [*lake_rows(raw_parquet.batches(opened(), "data.parquet", None, 0))],
    "filter": lambda: [
        *read_batches(
            opened(),
            "data.parquet",
            KEYED_BY_NAME,
            ["Op"],
            row_groups=row_group_filter(KEYED_BY_NAME, pa.table({LEADING_KEY: ["no name"]})),
        )
    ],
    "tombstones": lambda: read_tombstone_file(opened(), "deletes.parquet"),
}
"""Reads of which some are shorter than S3's errors."""


def lake_rows(batches: Iterable[RawRows]) -> Iterator[pa.RecordBatch]:
    return (batch.columns for batch in batches)


@pytest.fixture
def short(s3: FakeS3, monkeypatch: pytest.MonkeyPatch) -> FakeS3:
    """The server with files that need short reads, for a client that repeats them without pauses."""
    monkeypatch.setattr(filesystem, "_ATTEMPTS", 3)
    monkeypatch.setattr(filesystem, "_LONGEST_PAUSE_SECONDS", 0)
    retry_at_once(monkeypatch)
    s3.objects = {
        f"{BUCKET}/{PREFIX}{CSV}": b"U,1,a\n",
        f"{BUCKET}/{PREFIX}{CSV}.gz": gzip.compress(b"U,1,a\n"),
        f"{BUCKET}/data.parquet": large_file_with_short_columns(),
        f"{BUCKET}/deletes.parquet": remembered_deletes(),
    }
    return s3


@pytest.mark.slow
@pytest.mark.parametrize("action", SHORT_READS)
def test_a_short_read_that_s3_fails_is_repeated(short: FakeS3, action: str) -> None:
    short.requests.clear()
    expected = SHORT_READS[action]()
    reads = sum(method == "GET" for method, _ in short.requests)
    assert reads
    for skip in range(reads):
        short.fail("GET", 503, "SlowDown", skip=skip, times=1)
        assert SHORT_READS[action]() == expected
        assert [fault.times for fault in short.faults] == [0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "code", "kind"), [(503, "SlowDown", RetryableError), (403, "AccessDenied", ConfigurationError)]
)
def test_a_short_read_that_s3_always_refuses_tells_why(
    short: FakeS3, status: int, code: str, kind: type[CdclakeError]
) -> None:
    short.fail("GET", status, code)
    error = error_of(SHORT_READS["CSV"])
    assert isinstance(error, kind)
    assert code in str(error)


def test_a_short_file_that_vanished_is_reported_as_such(short: FakeS3) -> None:
    short.fail("GET", 404, "NoSuchKey")
    with pytest.raises(InputError, match="vanished"):
        read_raw_file(CSV)


def test_the_error_of_a_task_reaches_the_driver(s3: FakeS3) -> None:
    s3.fail("GET", 503, "SlowDown")
    with pytest.raises(TaskError) as caught:
        SparkTask(READS["data file"])()
    with pytest.raises(RetryableError, match="S3 answered") as on_driver, raising_task_errors():
        raise caught.value
    assert on_driver.value.exit_code == 4


@pytest.mark.parametrize(
    ("number", "kind"),
    [(errno.EACCES, ConfigurationError), (errno.EIO, RetryableError), (errno.ENOSPC, DiskFullError)],
)
def test_an_error_of_the_disk_is_no_damaged_file(tmp_path: Any, number: int, kind: type[CdclakeError]) -> None:
    fs = lake_filesystem(tmp_path.as_uri()).open()
    with pytest.raises(kind, match=r"operating system|A disk is full") as caught, storage_errors(fs, "a/b"):
        raise OSError(number, "says the test")
    folder = {"folder": f"{tmp_path}/"} if kind is DiskFullError else {}
    assert caught.value.details == {"file": "a/b", **folder}


def test_a_file_on_a_full_disk_is_an_error_with_a_remedy() -> None:
    devices = lake_filesystem("file:///dev").open()
    with pytest.raises(DiskFullError, match=r"on the disk of /dev/ \(") as caught, open_output(devices, "full") as sink:
        sink.write(b"x" * 100_000)
    assert caught.value.details == {"folder": "/dev/", "file": "full"}


def write_to_full_disk() -> None:
    with Path("/dev/full").open("wb") as file:
        file.write(b"x")


def test_a_full_disk_of_a_task_reaches_the_driver_as_such() -> None:
    with pytest.raises(TaskError) as caught:
        SparkTask(write_to_full_disk)()
    with pytest.raises(DiskFullError, match="No space left on device"), raising_task_errors():
        raise caught.value


def test_a_full_disk_of_spark_itself_is_reported_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    with pytest.raises(DiskFullError, match="SPARK_LOCAL_DIRS") as caught, raising_task_errors():
        raise RuntimeError("java.io.IOException: No space left on device")
    assert f"{tmp_path} (" in caught.value.remedy
    java = f"java.io.FileNotFoundException: {tmp_path}/blockmgr-1/0a/temp_shuffle_2 (No space left on device)"
    with pytest.raises(DiskFullError) as caught, raising_task_errors():
        raise RuntimeError(java)
    assert caught.value.details["folder"] == f"{tmp_path}/blockmgr-1/0a"


def test_a_folder_that_may_not_be_written_is_named(tmp_path: Any) -> None:
    (tmp_path / "a").write_text("no folder")
    fs = lake_filesystem(tmp_path.as_uri()).open()
    with pytest.raises(CdclakeError, match="operating system"), open_output(fs, "a/b.parquet"):
        pass
