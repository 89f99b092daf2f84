"""What is specific to S3: lost responses, refusals, large objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

import pytest

from cdclake.adapters import aws as aws_clients
from cdclake.adapters.s3 import COPYING, S3Store
from cdclake.errors import CdclakeError, CommitStateUnknownError, ConfigurationError, RetryableError
from tests.cdclake.adapters.conftest import SMALL_PARTS
from tests.cdclake.adapters.network_faults import Faults

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

BUCKET = "lake-of-tests"
KEY = "changes/000000000001.json"


@pytest.fixture
def puts(without_retries: S3Client) -> Faults:
    return Faults(without_retries, "PutObject")


@pytest.fixture
def store(without_retries: S3Client) -> S3Store:
    return S3Store(without_retries, BUCKET, sleep=lambda seconds: None)


def content(client: S3Client, key: str = KEY) -> bytes:
    return client.get_object(Bucket=BUCKET, Key=key)["Body"].read()


def test_a_lost_response_of_a_successful_write_is_a_success(store: S3Store, puts: Faults, s3: S3Client) -> None:
    puts.lose_response()
    assert store.put_if_absent(KEY, b"mine")
    assert puts.sent == 1
    assert content(s3) == b"mine"


def test_botocores_retry_recognizes_its_own_first_write(s3: S3Client) -> None:
    puts = Faults(s3, "PutObject")
    puts.lose_response()
    assert S3Store(s3, BUCKET).put_if_absent(KEY, b"mine")
    assert puts.sent == 2
    assert content(s3) == b"mine"


def test_a_server_error_after_the_write_is_a_success(store: S3Store, puts: Faults, s3: S3Client) -> None:
    puts.replace_response(500, "InternalError")
    assert store.put_if_absent(KEY, b"mine")
    assert content(s3) == b"mine"


def test_a_lost_request_is_retried(store: S3Store, puts: Faults, s3: S3Client) -> None:
    puts.lose_request()
    assert store.put_if_absent(KEY, b"mine")
    assert puts.sent == 2
    assert content(s3) == b"mine"


def test_a_lost_response_of_a_write_that_came_second_is_a_refusal(store: S3Store, puts: Faults, s3: S3Client) -> None:
    other = S3Store(s3, BUCKET)
    puts.lose_response_after(lambda: other.put_if_absent(KEY, b"theirs"))
    assert not store.put_if_absent(KEY, b"mine")
    assert content(s3) == b"theirs"


def test_equal_content_of_another_writer_is_a_refusal(store: S3Store, puts: Faults, s3: S3Client) -> None:
    puts.lose_response_after(lambda: s3.put_object(Bucket=BUCKET, Key=KEY, Body=b"same"))
    assert not store.put_if_absent(KEY, b"same")


def test_a_conflict_with_a_concurrent_write_is_retried(store: S3Store, puts: Faults, s3: S3Client) -> None:
    puts.refuse(409, "ConditionalRequestConflict", times=2)
    assert store.put_if_absent(KEY, b"mine")
    assert puts.sent == 3
    assert content(s3) == b"mine"


def test_a_conflict_with_a_finished_write_is_a_refusal(store: S3Store, puts: Faults, s3: S3Client) -> None:
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=b"theirs")
    puts.refuse(409, "ConditionalRequestConflict")
    assert not store.put_if_absent(KEY, b"mine")
    assert puts.sent == 1


def test_a_conflict_with_another_operation_does_not_change_the_object(
    store: S3Store, puts: Faults, s3: S3Client
) -> None:
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=b"old")
    puts.refuse(409, "ConditionalRequestConflict", times=2)
    assert store.put_if_unchanged(KEY, b"new", b"old")
    assert puts.sent == 3
    assert content(s3) == b"new"


def test_conflicts_without_end_are_retryable(store: S3Store, puts: Faults, s3: S3Client) -> None:
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=b"old")
    puts.refuse(409, "ConditionalRequestConflict", times=9)
    with pytest.raises(RetryableError, match="in progress"):
        store.put_if_unchanged(KEY, b"new", b"old")
    assert content(s3) == b"old"


def test_an_error_after_a_lost_response_does_not_hide_the_write(store: S3Store, puts: Faults, s3: S3Client) -> None:
    """For example, the credentials expire between two attempts."""
    heads = Faults(store._client, "HeadObject")
    heads.refuse(404, "NoSuchKey")  # not visible yet at the first check
    puts.lose_response()
    puts.refuse(403, "ExpiredToken")
    assert store.put_if_absent(KEY, b"mine")


def test_a_permanently_lost_response_is_an_unknown_outcome(store: S3Store, puts: Faults, s3: S3Client) -> None:
    puts.lose_response()
    Faults(store._client, "HeadObject").lose_request()
    with pytest.raises(CommitStateUnknownError, match=KEY) as raised:
        store.put_if_absent(KEY, b"mine")
    assert "Run again" in raised.value.remedy
    assert content(s3) == b"mine"


def test_requests_that_never_arrive_end_as_an_unknown_outcome(store: S3Store, puts: Faults) -> None:
    puts.lose_request(times=100)
    with pytest.raises(CommitStateUnknownError):
        store.put_if_absent(KEY, b"mine")
    assert 1 < puts.sent < 10


def test_a_plain_refusal_is_no_unknown_outcome(store: S3Store, puts: Faults) -> None:
    puts.refuse(403, "AccessDenied", times=100)
    with pytest.raises(ConfigurationError, match="s3:PutObject"):
        store.put_if_absent(KEY, b"mine")
    assert puts.sent == 1


@pytest.mark.parametrize(
    "use",
    [
        lambda store: list(store.list("")),
        lambda store: list(store.list_level("")),
        lambda store: store.get("a"),
        lambda store: store.put("a", b""),
        lambda store: store.put_if_absent("a", b""),
        lambda store: store.delete(["a"]),
        lambda store: store.retire("a", "b"),
        lambda store: store.restore("a", "b"),
        lambda store: store.is_retained("a", "b"),
        lambda store: store.copy_retained("a", "b", "c"),
        lambda store: store.discard("a", "b"),
    ],
)
def test_a_missing_bucket_is_an_error_that_says_what_to_do(aws: None, use: Callable[[S3Store], object]) -> None:
    with pytest.raises(ConfigurationError, match="Create the bucket no-such-bucket"):
        use(S3Store(aws_clients.client("s3"), "no-such-bucket"))


def test_a_forbidden_read_names_the_permissions(store: S3Store) -> None:
    Faults(store._client, "GetObject").refuse(403, "AccessDenied")
    with pytest.raises(ConfigurationError, match="s3:GetObject") as raised:
        store.get("table/1")
    assert raised.value.details == {"bucket": BUCKET, "file": "table/1"}


def test_errors_of_the_service_and_the_network_are_retryable(store: S3Store) -> None:
    reads = Faults(store._client, "GetObject")
    reads.refuse(503, "SlowDown")
    reads.lose_request()
    for _ in range(2):
        with pytest.raises(RetryableError):
            store.get("table/1")


def test_other_errors_contain_the_services_error_code(store: S3Store) -> None:
    Faults(store._client, "GetObject").refuse(400, "InvalidObjectState")
    with pytest.raises(CdclakeError, match="InvalidObjectState") as raised:
        store.get("table/1")
    assert type(raised.value) is CdclakeError


@pytest.mark.parametrize(("code", "kind"), [("AccessDenied", ConfigurationError), ("InternalError", RetryableError)])
def test_a_key_that_was_not_deleted_is_an_error(store: S3Store, code: str, kind: type[CdclakeError]) -> None:
    body = f"<DeleteResult><Error><Key>a</Key><Code>{code}</Code><Message>no</Message></Error></DeleteResult>".encode()
    Faults(store._client, "DeleteObjects").respond(200, body, times=5)
    with pytest.raises(kind, match=f"{code}.*file a"):
        store.delete(["a", "b"])


def test_listings_and_deletes_go_through_all_pages(s3: S3Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "10")
    store = S3Store(s3, BUCKET, delete_batch_keys=10)
    folders = [f"raw/{number:05d}/" for number in range(25)]
    names = [f"{folder}x" for folder in folders]
    for name in (*names, "kept"):
        store.put(name, b"")
    listings, deletes = Faults(s3, "ListObjectsV2"), Faults(s3, "DeleteObjects")
    assert [found.key for found in store.list("raw/")] == names
    assert [found.key for found in store.list("raw/", start_after=names[2])] == names[3:]
    assert list(store.list_level("raw/")) == folders
    assert listings.sent == 9
    store.delete([*names, "absent", "absent/too"])
    assert deletes.sent == 3
    assert [found.key for found in store.list("")] == ["kept"]


def test_a_large_object_is_copied_in_parts(s3: S3Client) -> None:
    parts = Faults(s3, "UploadPartCopy")
    store = S3Store(s3, BUCKET, copying=SMALL_PARTS)
    data = bytes(range(256)) * (11 * 1024**2 // 256)
    store.put("staging/1", data)
    store.copy("staging/1", "table/1")
    assert store.get("table/1") == data
    assert parts.sent == 3


def test_objects_up_to_the_limit_of_one_copy_are_copied_at_once(s3: S3Client) -> None:
    five_gb = 5 * 1024**3
    assert COPYING.multipart_threshold <= five_gb
    assert COPYING.multipart_chunksize <= five_gb
    copies = Faults(s3, "CopyObject")
    store = S3Store(s3, BUCKET)
    store.put("staging/1", b"x" * 9 * 1024**2)  # more than boto3's own threshold
    store.copy("staging/1", "table/1")
    assert copies.sent == 1
