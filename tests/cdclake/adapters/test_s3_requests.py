"""How many requests retiring and restoring many files takes in a bucket with versions."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Callable, cast

import pytest

from cdclake.adapters.s3 import LISTED_FILES, S3Store
from cdclake.adapters.s3_versions import LEAST_FILES, MOST_FILES, versions_of
from cdclake.commit.clean_up import clean_up, plan_clean_up
from cdclake.concurrency import CALLS_AT_ONCE
from cdclake.model.layout import FileKeys
from cdclake_devkit.versioned_bucket import VersionedBucket
from tests.builders import FIRST_CHANGE_UTC, LakeBuilder

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

BUCKET = "lake-of-tests"
LISTING = "list_object_versions"


class CountedBucket:
    """A bucket in memory with versions.

    Attributes:
        requests: How many requests there were of each kind.
    """

    def __init__(self) -> None:
        self._bucket = VersionedBucket()
        self.requests = Counter[str]()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        self.requests[name] += 1
        method: Callable[..., Any] = getattr(self._bucket, name)
        return method


def reload_and_rollback(lake: LakeBuilder, requests: Counter[str], files: int) -> None:
    """Count the requests for replacing all files of a table, and for undoing that."""
    lake.change(files=files)
    first = lake.snapshot
    requests.clear()
    lake.change(files=files, retired=[file.path for file in first.files])
    reload = requests.copy()
    requests.clear()
    lake.rollback()
    assert lake.snapshot.files == first.files
    requests.update({f"reload: {name}": count for name, count in reload.items()})


@pytest.mark.slow
def test_a_rollback_makes_few_requests_for_many_files(versioned_s3: S3Client) -> None:
    files, requests = 20, Counter[str]()

    def count(event_name: str, **_: object) -> None:
        requests[event_name.rpartition(".")[2]] += 1

    versioned_s3.meta.events.register("before-send.s3", count)
    lake = LakeBuilder(S3Store(versioned_s3, BUCKET))
    reload_and_rollback(lake, requests, files)
    batches = -(-files // LEAST_FILES)
    assert requests["ListObjectVersions"] <= 4 * batches + 1  # before the commit, two to restore, one to check; staging
    assert requests["DeleteObjects"] <= 2 * batches + 1
    assert requests["HeadObject"] <= files  # those to retire
    assert requests["DeleteObject"] == 0
    assert requests["reload: DeleteObjects"] <= batches + 1
    keys = [lake.layout.data_key(file.path) for file in lake.snapshot.files]
    assert [entry.key for entry in lake.store.list(lake.layout.table_prefix)] == keys


@pytest.mark.parametrize("files", [LISTED_FILES, 2_000])
def test_the_requests_of_a_rollback_grow_by_batches(files: int) -> None:
    bucket = CountedBucket()
    lake = LakeBuilder(S3Store(cast("Any", bucket), BUCKET))
    reload_and_rollback(lake, bucket.requests, files)
    batches = max(CALLS_AT_ONCE, -(-files // MOST_FILES))
    assert bucket.requests[LISTING] <= 5 * batches
    assert bucket.requests["delete_objects"] <= 2 * batches + 1
    assert bucket.requests["head_object"] == bucket.requests["delete_object"] == 0
    assert bucket.requests["reload: head_object"] == 0


def test_a_clean_up_makes_few_requests_for_many_files() -> None:
    files, bucket = 2_000, CountedBucket()
    lake = LakeBuilder(S3Store(cast("Any", bucket), BUCKET))
    lake.change(files=files)
    lake.change(files=1, retired=[file.path for file in lake.snapshot.files])
    bucket.requests.clear()
    plan = plan_clean_up(lake.log, timedelta(days=1), FIRST_CHANGE_UTC + timedelta(days=99))
    assert len(plan.data_files) == files
    clean_up(lake.log, plan)
    batches = files / MOST_FILES
    assert bucket.requests[LISTING] <= 2 * batches + 2
    assert bucket.requests["delete_objects"] <= 2 * batches + 5
    assert len(lake.store.not_retained(lake.layout.file_keys(plan.data_files))) == files


@pytest.mark.parametrize("distance", [1, 7, 400, 900])
def test_distant_objects_take_one_request_each_and_neighbors_fewer(distance: int) -> None:
    bucket = CountedBucket()
    store = S3Store(cast("Any", bucket), BUCKET)
    everything = [f"table/{number:05d}.parquet" for number in range(9_000)]
    for key in everything:
        store.put(key, b"")
    wanted = everything[::distance][:20]
    store.delete(wanted)
    bucket.requests.clear()
    found = versions_of(cast("S3Client", bucket), BUCKET, wanted)
    assert all(len(one.data) == len(one.markers) == 1 and not one.live for one in found.values())
    assert list(found) == wanted
    entries = 20 * distance + 20
    assert bucket.requests[LISTING] <= min(len(wanted), -(-entries // 1_000) + 1)


@pytest.mark.parametrize("page_entries", [1, 2, 3, 1_000])
def test_versions_of_several_objects_are_listed_whatever_lies_between(
    versioned_s3: S3Client, monkeypatch: pytest.MonkeyPatch, page_entries: int
) -> None:
    store = S3Store(versioned_s3, BUCKET)
    names = ["a", "a ", "a+b", "a/", "ab", "ab.parque", "ab.parquet", "ab.parquett", "ac", "b%20", "ö", "日本"]
    for number, name in enumerate(names):
        for _ in range(number % 3 + 1):
            store.put(name, b"1" * number)
        if number % 2:
            store.delete([name])
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", str(page_entries))
    for wanted in (names, names[::3], ["a", "ab.parquet", "absent", "日本"], ["ab.parquet", "ab.parquett"], []):
        found = versions_of(versioned_s3, BUCKET, wanted)
        assert set(found) == set(wanted)
        assert "absent" not in found or not found["absent"].exists
        for name in set(wanted) - {"absent"}:
            number = names.index(name)
            one = found[name]
            assert len(set(one.data)) == len(one.data) == number % 3 + 1, name
            assert len(one.markers) == number % 2, name
            assert one.live == (not number % 2), name
            assert set(one.sizes_bytes) == {number}, name


def test_files_of_different_folders_and_kinds_are_moved_together(versioned_s3: S3Client) -> None:
    """Of a listing, each prefix is within one folder, as policies may require."""
    store, prefixes = S3Store(versioned_s3, BUCKET), list[str]()
    files = [
        FileKeys(f"{folder}{n:03d}", f"c/retired/{folder}{n:03d}", folder)
        for folder in ("t/", "t_h/")
        for n in range(20)
    ]
    for file in files:
        store.put(file.key, file.key.encode())

    def note(params: dict[str, Any], **_: object) -> None:
        prefixes.append(params["Prefix"])

    for move in store.begin_retiring(files):
        move()
    assert store.not_retained([*files, FileKeys("t/999", "c/retired/t/999", "t/")]) == [
        FileKeys("t/999", "c/retired/t/999", "t/")
    ]
    versioned_s3.meta.events.register("provide-client-params.s3.ListObjectVersions", note)
    for move in store.begin_restoring(files):
        move()
    assert {prefix.partition("/")[0] for prefix in prefixes} == {"t", "t_h", "c"}
    assert [entry.key for entry in store.list("t")] == sorted(file.key for file in files)
    live, others = files[7], [file for file in files if file != files[7]]
    for file in others:
        store.retire(file.key, file.retired_key)
    prefixes.clear()
    for discard in store.begin_discarding(files):
        discard()
    assert store.not_retained(files) == others
    assert [entry.key for entry in store.list("")] == [live.key]
    listed = versioned_s3.list_object_versions(Bucket=BUCKET, Prefix="")
    assert [version["Key"] for version in listed["Versions"]] == [live.key]
    assert "DeleteMarkers" not in listed
