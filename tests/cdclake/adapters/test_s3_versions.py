"""Retiring and restoring on S3, with any versioning at any time, and with network errors."""

from __future__ import annotations

from hashlib import sha256
from itertools import count, product
from typing import TYPE_CHECKING, Callable

import pytest

from cdclake.adapters.s3 import S3Store
from cdclake.adapters.s3_versions import versions_of
from cdclake.errors import CdclakeError, ConfigurationError, IntegrityError, RetryableError
from cdclake.model.layout import FileKeys
from tests.cdclake.adapters.conftest import SMALL_PARTS
from tests.cdclake.adapters.network_faults import Faults

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_boto3_s3 import S3Client

    from cdclake.ports import OldVersion

BUCKET = "lake-of-tests"
KEY, RETIRED, COPY = "table/1", "retired/1", "copy/1"
CONTENT = bytes(range(256)) * 100

NEVER, ENABLED, SUSPENDED = "never versioned", "Enabled", "Suspended"
HISTORIES = [
    history
    for history in product([NEVER, ENABLED, SUSPENDED], repeat=3)
    if all(
        after != NEVER or before == NEVER for before, after in zip(history, history[1:])
    )  # versioning can never be removed
]
Use = Callable[[S3Store], object]
USES: dict[str, Use] = {
    "retire": lambda store: store.retire(KEY, RETIRED),
    "restore": lambda store: store.restore(KEY, RETIRED),
    "is_retained": lambda store: store.is_retained(KEY, RETIRED),
    "copy_retained": lambda store: store.copy_retained(KEY, RETIRED, COPY),
    "discard": lambda store: store.discard(KEY, RETIRED),
}


@pytest.fixture
def store(s3: S3Client) -> S3Store:
    return S3Store(s3, BUCKET)


def set_versioning(client: S3Client, status: str) -> None:
    if status in {ENABLED, SUSPENDED}:
        client.put_bucket_versioning(
            Bucket=BUCKET,
            VersioningConfiguration={"Status": status},  # type: ignore[typeddict-item]  # the stub wants a literal
        )


def visible(store: S3Store) -> list[str]:
    return [found.key for found in store.list("")]


def all_keys(client: S3Client) -> list[str]:
    """The keys of all versions and delete markers."""
    listing = client.list_object_versions(Bucket=BUCKET)
    return sorted(entry["Key"] for entry in [*listing.get("Versions", []), *listing.get("DeleteMarkers", [])])


def is_intact(store: S3Store) -> bool:
    found = store.get(KEY)
    return found is not None and sha256(found).digest() == sha256(CONTENT).digest()


# With any versioning


@pytest.mark.parametrize("history", HISTORIES, ids=" - ".join)
def test_a_file_can_be_restored_however_versioning_changes(
    s3: S3Client, store: S3Store, history: tuple[str, str, str]
) -> None:
    when_written, when_retired, when_restored = history
    set_versioning(s3, when_written)
    store.put(KEY, CONTENT)
    set_versioning(s3, when_retired)
    store.retire(KEY, RETIRED)
    assert KEY not in visible(store)
    set_versioning(s3, when_restored)
    assert store.is_retained(KEY, RETIRED)
    store.copy_retained(KEY, RETIRED, COPY)
    assert store.get(COPY) == CONTENT
    store.restore(KEY, RETIRED)
    assert is_intact(store)
    assert visible(store) == [COPY, KEY]
    store.retire(KEY, RETIRED)
    assert visible(store) in ([COPY], [COPY, RETIRED])
    store.restore(KEY, RETIRED)
    assert is_intact(store)
    assert RETIRED not in all_keys(s3)


@pytest.mark.parametrize("history", HISTORIES, ids=" - ".join)
def test_nothing_is_left_of_a_discarded_file_however_versioning_changes(
    s3: S3Client, store: S3Store, history: tuple[str, str, str]
) -> None:
    when_written, when_retired, when_discarded = history
    set_versioning(s3, when_written)
    store.put(KEY, CONTENT)
    set_versioning(s3, when_retired)
    store.retire(KEY, RETIRED)
    set_versioning(s3, when_discarded)
    store.discard(KEY, RETIRED)
    assert all_keys(s3) == []
    assert not store.is_retained(KEY, RETIRED)


@pytest.mark.parametrize("now", [ENABLED, SUSPENDED])
def test_a_file_with_a_version_is_restored_as_that_version_and_never_copied(
    s3: S3Client, store: S3Store, now: str
) -> None:
    set_versioning(s3, ENABLED)
    version = s3.put_object(Bucket=BUCKET, Key=KEY, Body=CONTENT)["VersionId"]
    set_versioning(s3, now)
    copies = Faults(s3, "CopyObject")
    store.retire(KEY, RETIRED)
    store.retire(KEY, RETIRED)
    assert all_keys(s3) == [KEY, KEY]  # the version and one marker
    store.restore(KEY, RETIRED)
    assert is_intact(store)
    assert s3.head_object(Bucket=BUCKET, Key=KEY)["VersionId"] == version
    assert all_keys(s3) == [KEY]
    assert copies.sent == 0


@pytest.mark.parametrize("now", [NEVER, SUSPENDED])
def test_a_file_without_a_version_is_retired_as_a_copy(s3: S3Client, store: S3Store, now: str) -> None:
    set_versioning(s3, now)
    store.put(KEY, CONTENT)
    store.retire(KEY, RETIRED)
    assert visible(store) == [RETIRED]
    assert store.get(RETIRED) == CONTENT


def test_a_store_notices_that_versioning_was_suspended(s3: S3Client, store: S3Store) -> None:
    set_versioning(s3, ENABLED)
    store.put("table/0", b"")
    store.retire("table/0", "retired/0")
    set_versioning(s3, SUSPENDED)
    store.put(KEY, CONTENT)
    store.retire(KEY, RETIRED)
    store.restore(KEY, RETIRED)
    assert is_intact(store)


def test_stacked_delete_markers_are_all_removed(s3: S3Client, store: S3Store) -> None:
    set_versioning(s3, ENABLED)
    version = s3.put_object(Bucket=BUCKET, Key=KEY, Body=CONTENT)["VersionId"]
    store.put(f"{KEY}0", b"another")
    for _ in range(3):
        s3.delete_object(Bucket=BUCKET, Key=KEY)
        s3.delete_object(Bucket=BUCKET, Key=f"{KEY}0")
    store.restore(KEY, RETIRED)
    assert s3.head_object(Bucket=BUCKET, Key=KEY)["VersionId"] == version
    assert visible(store) == [KEY]
    assert all_keys(s3) == [KEY] + [f"{KEY}0"] * 4


def test_of_two_versions_the_newest_is_restored(s3: S3Client, store: S3Store) -> None:
    """For example, a run and the run that completed its work copied the same bytes to the key."""
    set_versioning(s3, ENABLED)
    store.put(KEY, CONTENT)
    store.retire(KEY, RETIRED)
    newest = s3.put_object(Bucket=BUCKET, Key=KEY, Body=CONTENT)["VersionId"]
    store.retire(KEY, RETIRED)
    store.copy_retained(KEY, RETIRED, COPY)
    assert store.get(COPY) == CONTENT
    store.restore(KEY, RETIRED)
    assert is_intact(store)
    assert s3.head_object(Bucket=BUCKET, Key=KEY)["VersionId"] == newest
    store.retire(KEY, RETIRED)
    store.discard(KEY, RETIRED)
    assert all_keys(s3) == [COPY]


def test_a_file_whose_versions_have_expired_is_not_retained(s3: S3Client, store: S3Store) -> None:
    set_versioning(s3, ENABLED)
    version = s3.put_object(Bucket=BUCKET, Key=KEY, Body=CONTENT)["VersionId"]
    store.retire(KEY, RETIRED)
    s3.delete_object(Bucket=BUCKET, Key=KEY, VersionId=version)  # like the lifecycle rule
    assert not store.is_retained(KEY, RETIRED)
    for use in (USES["restore"], USES["copy_retained"]):
        with pytest.raises(IntegrityError, match="neither in the table") as raised:
            use(store)
        assert raised.value.details == {"bucket": BUCKET, "file": KEY}
    store.discard(KEY, RETIRED)
    assert all_keys(s3) == []


def test_versions_are_listed_through_all_pages_and_no_further(
    s3: S3Client, store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "3")
    set_versioning(s3, ENABLED)
    version = s3.put_object(Bucket=BUCKET, Key=KEY, Body=CONTENT)["VersionId"]
    for _ in range(7):
        s3.delete_object(Bucket=BUCKET, Key=KEY)
    for number in range(20):
        store.put(f"{KEY}{number:02d}", b"another")
    listings = Faults(s3, "ListObjectVersions")
    found = versions_of(s3, BUCKET, [KEY])[KEY]
    assert listings.sent == 3
    assert (found.live, found.data, len(set(found.markers))) == (False, (version,), 7)
    store.restore(KEY, RETIRED)
    assert is_intact(store)
    assert versions_of(s3, BUCKET, [KEY]) == {KEY: (KEY, True, (version,), (), (len(CONTENT),))}
    store.retire(KEY, RETIRED)
    store.discard(KEY, RETIRED)
    assert KEY not in all_keys(s3)
    assert len(visible(store)) == 20


def test_is_retained_costs_one_head_for_a_live_file(s3: S3Client, store: S3Store) -> None:
    store.put(KEY, CONTENT)
    requests = Faults(s3)
    assert store.is_retained(KEY, RETIRED)
    assert requests.sent == 1


@pytest.mark.parametrize("status", [NEVER, ENABLED])
def test_a_large_retired_file_is_copied_in_parts(s3: S3Client, status: str) -> None:
    store = S3Store(s3, BUCKET, copying=SMALL_PARTS)
    set_versioning(s3, status)
    data = bytes(range(256)) * (11 * 1024**2 // 256)
    store.put(KEY, data)
    store.retire(KEY, RETIRED)
    parts = Faults(s3, "UploadPartCopy")
    store.copy_retained(KEY, RETIRED, COPY)
    assert parts.sent == 3
    assert store.get(COPY) == data
    store.restore(KEY, RETIRED)
    assert store.get(KEY) == data


# With crashes and concurrent callers


@pytest.mark.sampled(test=8)
@pytest.mark.parametrize("lost", ["request", "answer"])
@pytest.mark.parametrize("name", sorted(USES.keys() - {"is_retained"}))
@pytest.mark.parametrize("status", [NEVER, ENABLED, SUSPENDED])
def test_a_crash_at_any_request_loses_nothing_and_the_call_can_be_repeated(
    s3: S3Client, store: S3Store, without_retries: S3Client, status: str, name: str, lost: str
) -> None:
    set_versioning(s3, status)
    network, crashes = Faults(without_retries), 0
    for requests in count():
        store.put(KEY, CONTENT)
        if name != "retire":
            store.retire(KEY, RETIRED)
        network.clear()
        network.let_through(requests)
        network.lose_request() if lost == "request" else network.lose_response()
        try:
            USES[name](S3Store(without_retries, BUCKET))
        except RetryableError:
            crashes += 1
            assert name == "discard" or store.is_retained(KEY, RETIRED)
            assert name != "discard" or KEY not in visible(store)
            USES[name](store)
        _check_outcome(name, s3, store)
        if requests >= network.sent:
            break
        network.sent = 0
        store.discard(KEY, RETIRED)
        store.delete([KEY, COPY])
        assert visible(store) == []
    assert crashes == requests


def _check_outcome(name: str, s3: S3Client, store: S3Store) -> None:
    if name == "restore":
        assert visible(store) == [KEY]
        assert RETIRED not in all_keys(s3)
        assert is_intact(store)
    elif name == "discard":
        assert not {KEY, RETIRED}.intersection(all_keys(s3))
    else:
        assert KEY not in visible(store)
        assert store.is_retained(KEY, RETIRED)
        assert name != "copy_retained" or store.get(COPY) == CONTENT


@pytest.mark.parametrize(
    ("name", "meanwhile"),
    [*((name, name) for name in ("retire", "restore", "discard")), *product(["copy_retained"], ["retire", "restore"])],
)
@pytest.mark.parametrize("status", [NEVER, ENABLED, SUSPENDED])
def test_another_caller_may_move_the_file_before_any_request(
    s3: S3Client, store: S3Store, without_retries: S3Client, status: str, name: str, meanwhile: str
) -> None:
    set_versioning(s3, status)
    network = Faults(without_retries)
    for requests in count():
        store.put(KEY, CONTENT)
        if meanwhile != "retire":
            store.retire(KEY, RETIRED)
        network.clear()
        network.let_through(requests)
        network.before_request(lambda: USES[meanwhile](store))
        USES[name](S3Store(without_retries, BUCKET))
        if name == "copy_retained":
            assert store.get(COPY) == CONTENT
        else:
            _check_outcome(name, s3, store)
        if requests >= network.sent:
            break
        network.sent = 0
        store.delete([KEY, COPY])
        store.discard(KEY, RETIRED)
    assert requests >= (3 if name == "copy_retained" else 2)


def test_a_restore_that_crashed_before_deleting_the_copy_is_completed(s3: S3Client, store: S3Store) -> None:
    store.put(KEY, CONTENT)
    store.retire(KEY, RETIRED)
    store.copy(RETIRED, KEY)
    store.restore(KEY, RETIRED)
    assert visible(store) == [KEY]


def test_a_restored_file_that_is_not_live_is_an_error_and_stays_retained(s3: S3Client, store: S3Store) -> None:
    store.put(KEY, CONTENT)
    set_versioning(s3, ENABLED)
    store.retire(KEY, RETIRED)  # it has no version id, so there is a copy too
    listings = Faults(s3, "ListObjectVersions")
    listings.let_through(2)  # of the object and of its copy
    listings.before_request(lambda: s3.delete_object(Bucket=BUCKET, Key=KEY))
    with pytest.raises(IntegrityError, match="are not in the table's folder"):
        store.restore(KEY, RETIRED)
    assert visible(store) == [RETIRED]
    store.restore(KEY, RETIRED)
    assert is_intact(store)
    assert visible(store) == [KEY]


def test_a_discard_that_fails_halfway_does_not_make_the_file_live(
    s3: S3Client, store: S3Store, without_retries: S3Client
) -> None:
    set_versioning(s3, ENABLED)
    store.put(KEY, CONTENT)
    store.retire(KEY, RETIRED)
    for refused in range(2):
        deletes = Faults(without_retries, "DeleteObjects")
        deletes.let_through(refused)
        deletes.refuse(403, "AccessDenied")
        with pytest.raises(ConfigurationError, match="s3:DeleteObjectVersion"):
            USES["discard"](S3Store(without_retries, BUCKET))
        assert visible(store) == []
        deletes.clear()
    store.discard(KEY, RETIRED)
    assert all_keys(s3) == []


@pytest.mark.parametrize(("code", "kind"), [("AccessDenied", ConfigurationError), ("InternalError", RetryableError)])
def test_a_version_that_was_not_deleted_is_an_error(s3: S3Client, code: str, kind: type[CdclakeError]) -> None:
    store = S3Store(s3, BUCKET, sleep=lambda _: None)
    set_versioning(s3, ENABLED)
    store.put(KEY, CONTENT)
    store.retire(KEY, RETIRED)
    body = f"<DeleteResult><Error><Key>{KEY}</Key><Code>{code}</Code><Message>no</Message></Error></DeleteResult>"
    Faults(s3, "DeleteObjects").respond(200, body.encode(), times=5)
    with pytest.raises(kind, match=f"{code}.*file {KEY}"):
        store.restore(KEY, RETIRED)
    assert store.is_retained(KEY, RETIRED)


def test_versions_that_s3_is_too_busy_to_delete_are_deleted_later(s3: S3Client) -> None:
    waited = list[float]()
    store = S3Store(s3, BUCKET, sleep=waited.append)
    set_versioning(s3, ENABLED)
    store.put(KEY, CONTENT)
    body = f"<DeleteResult><Error><Key>{KEY}</Key><Code>SlowDown</Code><Message>no</Message></Error></DeleteResult>"
    for begin in (store.begin_retiring, store.begin_restoring):
        (move,) = begin([FileKeys(KEY, RETIRED)])
        deletes = Faults(s3, "DeleteObjects")
        deletes.respond(200, body.encode(), times=2)
        move()
        assert deletes.sent == 3
        assert (visible(store) == [KEY]) == (begin == store.begin_restoring)
    assert waited == [0.5, 1.0] * 2


def test_a_forbidden_listing_of_versions_names_the_permission(s3: S3Client, store: S3Store) -> None:
    Faults(s3, "ListObjectVersions").refuse(403, "AccessDenied")
    with pytest.raises(ConfigurationError, match="s3:ListBucketVersions"):
        store.restore(KEY, RETIRED)


def test_purging_deletes_all_noncurrent_versions(store: S3Store, s3: S3Client) -> None:
    set_versioning(s3, ENABLED)
    for content in (b"first", b"second", b"third"):
        store.put("table/1", content)
        store.put("table/2", content)
        store.put("table/3", content)
    store.delete(["table/2", "table/3"])
    assert store.purge("table/", lambda key: key == "table/3") == 2 + 3
    assert all_keys(s3) == ["table/1", *["table/3"] * 4]
    assert visible(store) == ["table/1"]
    assert store.get("table/1") == b"third"


def test_removing_leaves_no_version_and_no_marker(store: S3Store, s3: S3Client) -> None:
    set_versioning(s3, ENABLED)
    for number in range(3):
        store.put("staging/1", f"{number}".encode())
        store.put("staging/2", f"{number}".encode())
    store.delete(["staging/2"])
    store.remove("staging/", lambda _: False)
    assert all_keys(s3) == []


def test_no_old_data_reappears_while_versions_are_purged(s3: S3Client, monkeypatch: pytest.MonkeyPatch) -> None:
    store = S3Store(s3, BUCKET, delete_batch_keys=1)
    set_versioning(s3, ENABLED)
    for number in range(5):
        store.put("table/1", f"{number}".encode())
        store.delete(["table/1"])
    delete, seen = s3.delete_objects, list[list[str]]()

    def watched(**request: object) -> object:
        answer = delete(**request)  # type: ignore[arg-type]  # handed on as it came
        seen.append(visible(store))
        return answer

    monkeypatch.setattr(s3, "delete_objects", watched)
    assert store.purge("table/", lambda _: False) == 5
    assert seen == [[]] * 10
    assert all_keys(s3) == []


def test_an_object_that_is_deleted_while_versions_are_purged_stays_deleted(
    store: S3Store, s3: S3Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_versioning(s3, ENABLED)
    store.put("table/1", b"first")
    store.put("table/1", b"second")
    purge_versions = store.delete_versions

    def meanwhile(versions: Sequence[OldVersion]) -> None:
        purge_versions(versions)
        s3.delete_object(Bucket=BUCKET, Key="table/1")

    monkeypatch.setattr(store, "delete_versions", meanwhile)
    assert store.purge("table/", lambda _: False) == 1
    assert visible(store) == []


def test_retiring_a_file_asks_for_it_once(s3: S3Client, store: S3Store) -> None:
    set_versioning(s3, NEVER)
    store.put(KEY, CONTENT)
    requests = Faults(s3)
    store.retire(KEY, RETIRED)
    assert requests.sent == 3  # HEAD, COPY, DELETE
