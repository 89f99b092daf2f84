"""How `LakeTable` finds its table and its user. Tests of its effects on rows are in tests/cdclake/lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import boto3
import pytest

from cdclake.adapters import caller
from cdclake.adapters.caller import USER_VARIABLE
from cdclake.adapters.dynamodb import DynamoState, create_state_table
from cdclake.adapters.s3 import S3Store
from cdclake.commit.log import ChangeLog
from cdclake.control.admin.installation import Installation
from cdclake.errors import ConfigurationError
from cdclake.lake_table import LakeTable, UndoResult
from cdclake.model.names import STATE_TABLE
from cdclake.model.table.name import TableName
from tests.builders import LakeBuilder
from tests.cdclake.adapters.conftest import no_credentials  # noqa: F401 - a fixture
from tests.conftest import REGION

if TYPE_CHECKING:
    from pathlib import Path

NAME = TableName("shop", "store")


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAW_BUCKET", "RAW_PREFIX", "LAKE_BUCKET", "LAKE_PREFIX", "STATE_TABLE", "USER"):
        monkeypatch.delenv(f"CDCLAKE_{name}", raising=False)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)


def two_changes(installation: Installation) -> LakeBuilder:
    """A lake table in an otherwise empty AWS account."""
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket=installation.lake_bucket, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    create_state_table(boto3.client("dynamodb"), installation.state_table)
    table = LakeBuilder(ChangeLog(S3Store(s3, installation.lake_bucket), installation.layout(NAME)))
    table.change(rows=100)
    table.change(rows=50)
    return table


def test_the_defaults_are_those_of_the_command(aws: None) -> None:
    table = two_changes(Installation())
    store = LakeTable("shop.store")
    assert store.register(["id"], ["day"])
    item = DynamoState(boto3.client("dynamodb"), STATE_TABLE).get("cdclake-raw/shop/store/")
    assert item
    assert (item.settings.primary_key, item.settings.partition_key, item.active) == (("id",), ("day",), False)
    assert store.rollback(reason="wrong") == UndoResult(3, 1)
    assert (table.log.record(3).reason, table.log.record(3).made_by[:12]) == ("wrong", "arn:aws:sts:")
    assert store.reapply() == UndoResult(4, 2)


def test_environment_and_arguments_override_the_defaults(aws: None, monkeypatch: pytest.MonkeyPatch) -> None:
    two_changes(Installation("their-raw", "dms", "our-lake", "lake", "states"))
    monkeypatch.setenv("CDCLAKE_RAW_BUCKET", "their-raw")
    monkeypatch.setenv("CDCLAKE_LAKE_BUCKET", "no-lake-of-ours")
    monkeypatch.setenv("CDCLAKE_LAKE_PREFIX", "lake")
    store = LakeTable("shop.store", lake="s3://our-lake", raw_prefix="/dms/", state_table="states", user="ann")
    store.register(["id"])
    assert store.rollback().change == 3
    assert DynamoState(boto3.client("dynamodb"), "states").get("their-raw/dms/shop/store/")


@pytest.mark.parametrize(
    ("given", "variable", "expected"), [("ann", "ben", "ann"), (None, "ben", "ben"), (None, None, "machine")]
)
def test_the_user_comes_from_argument_environment_or_aws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | None, variable: str | None, expected: str
) -> None:
    if variable:
        monkeypatch.setenv(USER_VARIABLE, variable)
    monkeypatch.setattr("getpass.getuser", lambda: "machine")
    assert LakeTable("shop.store", lake=tmp_path.as_uri(), user=given).user == expected


def test_without_aws_identity_the_user_is_the_machines_user(
    no_credentials: None,  # noqa: F811 - the fixture
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "machine")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    assert caller.aws_caller_arn() == "machine"


def test_the_user_of_a_machine_without_users_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError

    monkeypatch.setattr("getpass.getuser", nobody)
    assert caller.os_user() == caller.UNKNOWN


@pytest.mark.parametrize(("name", "lake"), [("store", "lake"), ("shop.store", "https://lake")])
def test_invalid_table_or_lake_names_are_refused_by_the_constructor(name: str, lake: str) -> None:
    with pytest.raises(ConfigurationError):
        LakeTable(name, lake=lake)


def test_a_key_with_a_repeated_column_is_not_registered(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="names a column twice"):
        LakeTable("shop.store", lake=tmp_path.as_uri()).register(["id", "ID"])
