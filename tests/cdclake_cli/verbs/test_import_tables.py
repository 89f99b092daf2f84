"""`cdclake import` writes a file to review, and nothing else."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from cdclake.errors import ConfigurationError
from cdclake.model.table.name import TableName
from cdclake_cli.config.read import read_config
from cdclake_cli.doctor.diagnose import examine
from tests.cdclake_cli.doctor.feed import GOOD, RawFolder, row
from tests.cdclake_cli.importing.test_definitions import EMPLOYEE

if TYPE_CHECKING:
    from pathlib import Path

    Cdclake = Any


@pytest.fixture
def raw(tmp_path: Path) -> RawFolder:
    raw = RawFolder(tmp_path / "raw", {**GOOD, "DataFormat": "csv", "AddColumnName": True})
    raw.load([row(number) for number in range(3)])
    return raw


def test_a_file_is_written_and_not_replaced_without_force(cdclake: Cdclake, raw: RawFolder, tmp_path: Path) -> None:
    file = tmp_path / "cdclake.yml"
    command = ("import", "shop.*", "--raw-bucket", raw.root.as_uri(), "--to", str(file))
    record = cdclake.record(*command)
    assert (record["table"], record["primary_key"], record["unsure"]) == ("shop.orders", None, 2)
    assert read_config(file, {}).settings_of(TableName("shop", "orders")) == {}
    file.write_text("mine")
    assert "The file exists" in cdclake.refused(*command)
    assert file.read_text() == "mine"
    assert "shop.orders" in cdclake.ok(*command, "--force").stdout
    assert "# PrimaryKey: id" in file.read_text()


def test_an_asterisk_means_all_tables_as_in_other_verbs(cdclake: Cdclake, raw: RawFolder, tmp_path: Path) -> None:
    command = ("import", "*", "--raw-bucket", raw.root.as_uri(), "--to", str(tmp_path / "cdclake.yml"))
    assert cdclake.record(*command)["table"] == "shop.orders"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("hr.*",), "There is no such table"),
        (("--no-files",), "nothing to read"),
        (("--source", "mysql://reader:secret@db/shop"), "CDCLAKE_SOURCE_PASSWORD"),
        (("--set", "DataFormats=csv"), "DataFormats"),
        (("shop",), "not a table name"),
    ],
)
def test_what_cannot_be_proposed_is_refused(
    cdclake: Cdclake, raw: RawFolder, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    file = tmp_path / "cdclake.yml"
    message = cdclake.refused("import", *arguments, "--raw-bucket", raw.root.as_uri(), "--to", str(file))
    assert words in message
    assert "secret" not in message
    assert not file.exists()


def sqlite(folder: Path, *tables: str) -> str:
    """The URL of a database with tables whose key is `id`, in the schema `main`."""
    sqlalchemy = pytest.importorskip("sqlalchemy")
    url = f"sqlite:///{folder / 'shop.db'}"
    with sqlalchemy.create_engine(url).begin() as connection:
        for table in tables:
            connection.exec_driver_sql(f"create table {table} (id bigint primary key)")
    return url


def test_raw_files_of_other_sources_are_left_alone(cdclake: Cdclake, raw: RawFolder, tmp_path: Path) -> None:
    place = ("--raw-bucket", raw.root.as_uri(), "--to", str(tmp_path / "cdclake.yml"))
    command = ("import", "--source", sqlite(tmp_path, "orders"), *place)
    assert "No raw files: main.orders" in cdclake.refused(*command)
    record = cdclake.record(*command, "*.orders")
    assert (record["table"], record["remarks"]) == ("shop.orders", ["The source's catalog has no such table"])


@pytest.mark.aws
def test_external_table_definitions_are_a_catalog_in_a_file_or_in_s3(
    cdclake: Cdclake, moto: Any, tmp_path: Path
) -> None:
    file, to = tmp_path / "tables.json", tmp_path / "cdclake.yml"
    file.write_text(json.dumps(EMPLOYEE))
    client: Any = boto3.client("s3")
    client.create_bucket(Bucket="my-bucket", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    client.put_object(Bucket="my-bucket", Key="dms/tables.json", Body=file.read_bytes())
    options = ("--no-files", "--set", "DataFormat=csv", "--to", str(to), "--force")
    for place in (str(file), "s3://my-bucket/dms/tables.json"):
        command = ("import", "--definitions", place, *options)
        assert cdclake.record(*command)["table"] == "hr.employee"
        assert read_config(to, {}).settings_of(TableName("hr", "employee")) == {
            "PrimaryKey": "Id",
            "AddColumnName": "false",
            "Schema": "Id bigint, LastName string, FirstName string, HireDate timestamp, OfficeLocation string",
        }
    assert "no such object" in cdclake.refused("import", "--definitions", "s3://my-bucket/x.json", *options)
    assert "There is no such table" in cdclake.refused(*command, "hr.x")
    assert "Use one of them" in cdclake.refused(*command, "--source", "mysql://reader@db/shop")
    assert "cannot be used" in cdclake.refused("import", "--definitions", str(tmp_path / "x"), *options)


def denied_except(monkeypatch: pytest.MonkeyPatch, *readable: str) -> None:
    """Let the raw files of all other tables be unreadable."""

    def checked(bucket: Any, state: Any, *arguments: Any, **named: Any) -> Any:
        if str(state.name) not in readable:
            raise ConfigurationError("S3 answered AccessDenied to GetObject", remedy="Grant s3:GetObject")
        return examine(bucket, state, *arguments, **named)

    monkeypatch.setattr("cdclake_cli.importing.propose.examine", checked)


def test_without_any_readable_file_nothing_is_written(
    cdclake: Cdclake, raw: RawFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(raw.root / "shop/orders", raw.root / "shop/items")
    file = tmp_path / "cdclake.yml"
    command = ("import", "--raw-bucket", raw.root.as_uri(), "--to", str(file))
    denied_except(monkeypatch)
    error = cdclake.refused(*command)
    assert "The raw files of none of 2 tables could be read: S3 answered AccessDenied" in error
    assert "Grant s3:GetObject. Nothing was written" in error
    assert not file.exists()


def test_what_could_be_read_is_written_and_the_rest_needs_attention(
    cdclake: Cdclake, raw: RawFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(raw.root / "shop/orders", raw.root / "shop/items")
    file = tmp_path / "cdclake.yml"
    place = ("--raw-bucket", raw.root.as_uri(), "--to", str(file), "--force")
    denied_except(monkeypatch, "shop.orders")
    result = cdclake("import", *place)
    assert result.exit_code == 6
    assert "shop.items: ConfigurationError: S3 answered AccessDenied" in result.stderr
    assert "1 place of the raw bucket could not be read" in result.stderr
    assert read_config(file, {}).settings_of(TableName("shop", "items")) == {}
    assert "incomplete: shop.items" in file.read_text()

    denied_except(monkeypatch)  # what the source says is still worth a file
    result = cdclake("import", "--source", sqlite(tmp_path, "orders"), "*.orders", *place)
    assert result.exit_code == 6
    assert "shop.orders" in file.read_text()


def task_with(source: dict[str, Any], *rules: tuple[str, str]) -> str:
    """The ARN of a task from this source endpoint to S3, with an action for each table name."""
    client: Any = boto3.client("dms")
    target = {"EngineName": "s3", "S3Settings": {"CsvDelimiter": ";", "TimestampColumnName": "ts"}}
    arns = [
        client.create_endpoint(EndpointIdentifier=kind, EndpointType=kind, **settings)["Endpoint"]["EndpointArn"]
        for kind, settings in (("source", source), ("target", target))
    ]
    mappings = [
        {"rule-type": "selection", "rule-action": action, "object-locator": {"schema-name": "%", "table-name": name}}
        for action, name in rules
    ]
    created = client.create_replication_task(
        ReplicationTaskIdentifier="shop",
        SourceEndpointArn=arns[0],
        TargetEndpointArn=arns[1],
        ReplicationInstanceArn="arn:aws:dms:eu-central-1:123456789012:rep:INSTANCE",
        MigrationType="full-load-and-cdc",
        TableMappings=json.dumps({"rules": mappings}),
    )
    return str(created["ReplicationTask"]["ReplicationTaskArn"])


@pytest.mark.aws
def test_a_dms_task_tells_its_mappings_and_endpoint(cdclake: Cdclake, moto: Any, tmp_path: Path) -> None:
    task = task_with({"EngineName": "oracle"}, ("include", "%"), ("exclude", "tags"))
    file = tmp_path / "cdclake.yml"
    place = ("--no-files", "--task", task, "--to", str(file))
    assert "The task defines no tables" in cdclake.refused("import", *place)
    records = cdclake.records("import", "--source", sqlite(tmp_path, "orders", "tags"), *place)
    assert [record["table"] for record in records] == ["main.orders"]
    settings = read_config(file, {}).settings_of(TableName("main", "orders"))
    assert settings == {
        "PrimaryKey": "id",
        "CsvDelimiter": ";",
        "AddColumnName": "false",
        "Schema": "ts string, id bigint",
    }
    assert f"DmsTask: {task}" in file.read_text()


@pytest.mark.aws
def test_a_dms_task_whose_source_is_s3_defines_its_tables(cdclake: Cdclake, moto: Any, tmp_path: Path) -> None:
    source = {"EngineName": "s3", "S3Settings": {"ExternalTableDefinition": json.dumps(EMPLOYEE)}}
    task, file = task_with(source, ("include", "%")), tmp_path / "cdclake.yml"
    assert cdclake.record("import", "--no-files", "--task", task, "--to", str(file))["table"] == "hr.employee"
    settings = read_config(file, {}).settings_of(TableName("hr", "employee"))
    assert settings is not None
    assert settings["Schema"].startswith("ts string, Id bigint, LastName string")
    assert settings["PrimaryKey"] == "Id"
