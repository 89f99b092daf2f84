"""UpdateTable honors the version that the caller has read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3
import pytest

from tests.cdclake_devkit.strict_aws.answers import answer
from tests.cdclake_devkit.strict_aws.conftest import ONCE

if TYPE_CHECKING:
    from mypy_boto3_glue import GlueClient

TABLE: Any = {"DatabaseName": "lake", "TableInput": {"Name": "t", "Description": "before"}}
CHANGED: Any = {"DatabaseName": "lake", "TableInput": {"Name": "t", "Description": "after"}}


def with_table() -> GlueClient:
    client = boto3.client("glue", config=ONCE)
    client.create_database(DatabaseInput={"Name": "lake"})
    client.create_table(**TABLE)
    return client


@pytest.fixture
def glue(aws: None) -> GlueClient:
    return with_table()


def version(client: GlueClient) -> str:
    return client.get_table(DatabaseName="lake", Name="t")["Table"]["VersionId"]


def test_only_the_current_version_can_be_updated(glue: GlueClient):
    read = version(glue)
    assert answer(glue, "update_table", **CHANGED, VersionId=read) == (200, "")
    assert version(glue) != read
    assert answer(glue, "update_table", **TABLE, VersionId=read) == (400, "ConcurrentModificationException")
    assert glue.get_table(DatabaseName="lake", Name="t")["Table"]["Description"] == "after"


def test_without_a_version_the_last_update_wins(glue: GlueClient):
    assert answer(glue, "update_table", **CHANGED) == (200, "")
    assert answer(glue, "update_table", **TABLE) == (200, "")


def test_a_missing_table_is_not_updated(glue: GlueClient):
    other: Any = {"DatabaseName": "lake", "TableInput": {"Name": "other"}}
    assert answer(glue, "update_table", **other, VersionId="1") == (400, "EntityNotFoundException")


def test_the_version_before_is_kept_unless_the_archive_is_skipped(glue: GlueClient):
    glue.update_table(**CHANGED)
    assert len(glue.get_table_versions(DatabaseName="lake", TableName="t")["TableVersions"]) == 2
    glue.update_table(**CHANGED, SkipArchive=True)
    assert len(glue.get_table_versions(DatabaseName="lake", TableName="t")["TableVersions"]) == 2


def test_moto_alone_updates_any_version(moto: None):
    kind_glue = with_table()
    read = version(kind_glue)
    kind_glue.update_table(**CHANGED, SkipArchive=True)
    assert answer(kind_glue, "update_table", **TABLE, VersionId=read) == (200, "")
    assert len(kind_glue.get_table_versions(DatabaseName="lake", TableName="t")["TableVersions"]) == 3
