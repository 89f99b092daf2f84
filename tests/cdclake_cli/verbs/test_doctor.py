"""`cdclake doctor` checks a folder or a bucket, with or without a registered table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from cdclake.adapters import aws as aws_clients
from cdclake.adapters.dms import DmsStatistics
from cdclake.adapters.s3 import S3Store
from cdclake.errors import ConfigurationError
from cdclake.model.table.state import TableState
from cdclake_cli.doctor.dms.setting import Source
from cdclake_cli.doctor.dms.templates import Choices
from tests.cdclake.lake.over_time import versioned_bucket
from tests.cdclake_cli.doctor.feed import GOOD, RawFolder, row

if TYPE_CHECKING:
    from pathlib import Path

    from cdclake.adapters.dms import DmsTask
    from cdclake.adapters.dynamodb import DynamoState
    from tests.builders import LakeBuilder

    Cdclake = Any

TABLE = "shop.orders"


@pytest.fixture
def raw(tmp_path: Path) -> RawFolder:
    return RawFolder(tmp_path / "raw").filled()


def test_a_folder_without_findings_needs_no_aws(cdclake: Cdclake, raw: RawFolder) -> None:
    result = cdclake.ok("doctor", TABLE, "--folder", str(raw.root), "--primary-key", "id")
    assert "TimestampColumnName" in result.stdout
    assert result.stdout.rstrip().endswith("Checked 5 of 5 files, 293 rows. No findings.")


def test_an_error_sets_the_exit_status_and_has_a_line_to_paste(cdclake: Cdclake, raw: RawFolder) -> None:
    raw.names = {name: value for name, value in GOOD.items() if name != "HeaderColumns"}
    path = raw.change(("X", row(1)))
    result = cdclake("doctor", TABLE, "--folder", str(raw.root), "--primary-key", "id", COLUMNS="60")
    assert result.exit_code == 6
    assert "1 of 2 findings is an error" in result.stderr
    assert "ERROR bad-rows" in result.stdout
    assert f"{path}, row 1" in result.stdout
    rules = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    assert [rule["value"] for rule in rules] == ["AR_H_CHANGE_SEQ"]


def test_a_registered_table_is_checked_with_its_settings(cdclake: Cdclake, state: DynamoState, raw: RawFolder) -> None:
    bucket = raw.root.as_uri()
    made = TableState.new(bucket, "shop/", "orders/").with_attributes(PrimaryKey="order_id")
    state.register(made)
    arguments = ("doctor", TABLE, "--raw-bucket", bucket, "--output", "json")
    result = cdclake(*arguments)
    assert result.exit_code == 6
    answer = json.loads(result.stdout)
    assert answer["registered"]
    assert [one["code"] for one in answer["findings"]] == ["key-not-there", "no-before-image"]
    assert cdclake(*arguments, "--set", "PrimaryKey=id").exit_code == 0
    assert state.get(made.path) == made


def test_types_of_the_lake_table_are_proposed_for_csv_columns(
    cdclake: Cdclake, state: DynamoState, store: LakeBuilder, tmp_path: Path
) -> None:
    changes = tmp_path / "shop" / "store" / "20240305-101500000.csv"
    changes.parent.mkdir(parents=True)
    changes.write_text("Op,id,n\nU,3,5\n", encoding="utf-8")
    bucket = tmp_path.as_uri()
    state.register(TableState.new(bucket, "shop/", "store/"))
    arguments = ("doctor", "shop.store", "--raw-bucket", bucket, "--set", "LastIncrementalFile=null")
    assert "id bigint: the value fits" in cdclake(*arguments).stdout
    state.record_run(f"{bucket}/shop/store/", {"LastChangeId": "3"})
    assert "id bigint: as in the lake table" in cdclake(*arguments).stdout
    result = cdclake(*arguments, "--lake-bucket", "no-such-bucket")
    assert "Error: " in result.stderr
    assert "id bigint: the value fits" in result.stdout


def test_a_task_without_settings_does_not_stop_the_other_checks(
    cdclake: Cdclake, state: DynamoState, raw: RawFolder
) -> None:
    result = _doctor(cdclake, raw, "arn:aws:dms:eu-central-1:123456789012:task:SHOP")
    assert "The DMS task does not exist" in result.stderr
    assert json.loads(result.stdout)["findings"] == []


def _task(*, logged: bool = True, **target: object) -> str:
    """Create a task with the printed settings, some of the S3 endpoint's replaced; returns its ARN."""
    client: Any = aws_clients.client("dms")
    files = Choices(Source.MYSQL).cli_files
    source = client.create_endpoint(EndpointIdentifier="shop", EndpointType="source", EngineName="mysql")
    raw = client.create_endpoint(
        EndpointIdentifier="raw",
        EndpointType="target",
        EngineName="s3",
        S3Settings={**files["s3-settings.json"], **target},
    )
    task = client.create_replication_task(
        ReplicationTaskIdentifier="shop",
        SourceEndpointArn=source["Endpoint"]["EndpointArn"],
        TargetEndpointArn=raw["Endpoint"]["EndpointArn"],
        ReplicationInstanceArn="arn:aws:dms:eu-central-1:123456789012:rep:INSTANCE",
        MigrationType="full-load-and-cdc",
        TableMappings=json.dumps(files["table-mappings.json"]),
        ReplicationTaskSettings=json.dumps({**files["task-settings.json"], "Logging": {"EnableLogging": logged}}),
    )
    arn: str = task["ReplicationTask"]["ReplicationTaskArn"]
    return arn


def _doctor(cdclake: Cdclake, raw: RawFolder, task: str) -> Any:
    arguments = ("doctor", TABLE, "--raw-bucket", raw.root.as_uri(), "--primary-key", "id", "-o", "json")
    return cdclake(*arguments, "--set", f"DmsTask={task}")


def _codes(cdclake: Cdclake, raw: RawFolder, task: str) -> list[str]:
    return [one["code"] for one in json.loads(_doctor(cdclake, raw, task).stdout)["findings"]]


def test_a_task_with_the_printed_settings_has_no_findings(cdclake: Cdclake, state: DynamoState, raw: RawFolder) -> None:
    assert _codes(cdclake, raw, _task()) == []


def test_the_settings_of_a_tasks_endpoint_are_compared(cdclake: Cdclake, state: DynamoState, raw: RawFolder) -> None:
    assert _codes(cdclake, raw, _task(CdcInsertsOnly=True)) == ["dms-setting-loses-changes"]


def test_unreadable_endpoints_do_not_hide_the_settings_of_the_task(
    cdclake: Cdclake, state: DynamoState, raw: RawFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(_statistics: DmsStatistics, _task: DmsTask) -> DmsTask:
        raise ConfigurationError("AWS refuses it", remedy="Grant the caller dms:DescribeEndpoints")

    monkeypatch.setattr(DmsStatistics, "with_endpoints", denied)
    result = _doctor(cdclake, raw, _task(logged=False, CdcInsertsOnly=True))
    assert "dms:DescribeEndpoints" in result.stderr
    (finding,) = json.loads(result.stdout)["findings"]
    assert finding["seen"] == "Logging.EnableLogging of the task is false, recommended: true"


def test_a_table_without_files_is_an_error(cdclake: Cdclake, raw: RawFolder) -> None:
    assert "no raw files" in cdclake("doctor", "shop.nothing", "--folder", str(raw.root)).stderr


@pytest.mark.aws
def test_a_bucket_is_read_and_its_versions_are_noted(
    cdclake: Cdclake, raw: RawFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with versioned_bucket(monkeypatch, "raw", "plain"):
        client = aws_clients.client("s3")
        for path in raw.root.rglob("*.parquet"):
            for bucket in ("raw", "plain"):
                client.upload_file(str(path), bucket, path.relative_to(raw.root).as_posix())
        arguments = ("doctor", TABLE, "--unregistered", "--primary-key", "id", "--output", "json", "--raw-bucket")
        noted = json.loads(cdclake(*arguments, "raw").stdout)
        assert [one["code"] for one in noted["findings"]] == ["versioned-bucket"]
        assert json.loads(cdclake(*arguments, "plain").stdout)["findings"] == []
        assert [S3Store(client, bucket).keeps_versions() for bucket in ("raw", "plain")] == [True, False]


def test_a_pattern_checks_each_registered_table(cdclake: Cdclake, state: DynamoState) -> None:
    result = cdclake("doctor", "shop.*")
    assert result.exit_code == 3, result.output  # neither table has raw files
    assert "2 of 2 tables failed: shop.product, shop.store" in result.stderr
