"""Suspended versioning keeps versions, and deleted objects leave no folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from tests.cdclake_devkit.strict_aws.conftest import BUCKET

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


def set_versioning(client: S3Client, status: str) -> None:
    client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": status})  # type: ignore[typeddict-item]


def folders(client: S3Client) -> list[str]:
    """The folders below `raw/` after one of two objects, each in a folder of its own, was deleted."""
    set_versioning(client, "Enabled")
    for key in ("raw/gone/1", "raw/kept/1", "raw/kept/2"):
        client.put_object(Bucket=BUCKET, Key=key, Body=b"1")
    client.delete_object(Bucket=BUCKET, Key="raw/gone/1")
    client.delete_object(Bucket=BUCKET, Key="raw/kept/1")
    listed = client.list_objects_v2(Bucket=BUCKET, Prefix="raw/", Delimiter="/")
    return [folder["Prefix"] for folder in listed.get("CommonPrefixes", ())]


def test_a_folder_is_gone_with_its_last_object(s3: S3Client):
    assert folders(s3) == ["raw/kept/"]


def test_moto_alone_lists_it(kind_s3: S3Client):
    assert folders(kind_s3) == ["raw/gone/", "raw/kept/"]


def newest(client: S3Client) -> tuple[list[bool], list[bool]]:
    """Whether versions and delete markers are the newest, of an object that was deleted within its millisecond."""
    set_versioning(client, "Enabled")
    client.put_object(Bucket=BUCKET, Key="k", Body=b"1")
    client.delete_object(Bucket=BUCKET, Key="k")
    written, marker = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].get_bucket(BUCKET).keys.getlist("k")
    marker.last_modified = written.last_modified
    listed = client.list_object_versions(Bucket=BUCKET)
    return [one["IsLatest"] for one in listed["Versions"]], [one["IsLatest"] for one in listed["DeleteMarkers"]]


def test_the_newest_version_is_the_one_written_last(s3: S3Client):
    assert newest(s3) == ([False], [True])


def test_moto_alone_compares_the_times(kind_s3: S3Client):
    assert newest(kind_s3) == ([True], [False])


def contents(client: S3Client) -> list[tuple[str, bytes]]:
    """All versions of an object written while versioning is on, twice while it is suspended, and then deleted."""
    set_versioning(client, "Enabled")
    client.put_object(Bucket=BUCKET, Key="k", Body=b"on")
    set_versioning(client, "Suspended")
    for body in (b"suspended", b"suspended again"):
        client.put_object(Bucket=BUCKET, Key="k", Body=body)
    versions = client.list_object_versions(Bucket=BUCKET)["Versions"]
    return sorted(
        (
            "null" if version["VersionId"] == "null" else "id",
            client.get_object(Bucket=BUCKET, Key="k", VersionId=version["VersionId"])["Body"].read(),
        )
        for version in versions
    )


def test_a_write_during_suspended_versioning_replaces_only_the_version_null(s3: S3Client):
    assert contents(s3) == [("id", b"on"), ("null", b"suspended again")]
    s3.delete_object(Bucket=BUCKET, Key="k")
    listed = s3.list_object_versions(Bucket=BUCKET)
    assert [version["VersionId"] == "null" for version in listed["Versions"]] == [False]
    assert [marker["VersionId"] for marker in listed["DeleteMarkers"]] == ["null"]


def test_moto_alone_discards_all_versions(kind_s3: S3Client):
    assert contents(kind_s3) == [("null", b"suspended again")]


def test_a_listing_succeeds_while_another_request_deletes_a_version(s3: S3Client):
    for key in ("a", "b"):
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"1")
    # moto removes a version from its list first, and then the list.
    versions = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[BUCKET].keys.getlist("a")
    version = versions.pop()
    assert [listed["Key"] for listed in s3.list_objects_v2(Bucket=BUCKET)["Contents"]] == ["b"]
    versions.append(version)


def after_marker(client: S3Client, marker: str) -> list[str]:
    """The keys of a listing of versions, three of a key, after a key marker."""
    set_versioning(client, "Enabled")
    for key in ("a", "c", "e"):
        for _ in range(3):
            client.put_object(Bucket=BUCKET, Key=key, Body=b"1")
    return [version["Key"] for version in client.list_object_versions(Bucket=BUCKET, KeyMarker=marker)["Versions"]]


@pytest.mark.parametrize(
    ("marker", "keys"), [("0", "aaaccceee"), ("a", "ccceee"), ("b", "ccceee"), ("d", "eee"), ("e", ""), ("f", "")]
)
def test_a_listing_of_versions_begins_after_the_key_marker(s3: S3Client, marker: str, keys: str):
    if keys:
        assert "".join(after_marker(s3, marker)) == keys
    else:
        with pytest.raises(KeyError, match="Versions"):
            after_marker(s3, marker)


def test_moto_alone_leaves_out_a_version(kind_s3: S3Client):
    assert "".join(after_marker(kind_s3, "b")) == "cceee"
