"""Table states and settings of DMS tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.stub import Stubber

from cdclake.adapters.dms import PAGE_TABLES, DmsStatistics, DmsTask
from cdclake.errors import ConfigurationError
from cdclake.model.table.name import TableName

if TYPE_CHECKING:
    from collections.abc import Iterator

TASK = "arn:aws:dms:eu-central-1:123456789012:task:SHOP"


@pytest.fixture
def dms() -> Iterator[Stubber]:
    client = boto3.client("dms", "eu-central-1", aws_access_key_id="made-up", aws_secret_access_key="made-up")
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def response(*tables: tuple[str, str, str], marker: str = "") -> dict[str, object]:
    statistics = [{"SchemaName": schema, "TableName": table, "TableState": state} for schema, table, state in tables]
    return {"TableStatistics": statistics, **({"Marker": marker} if marker else {})}


def test_all_pages_of_a_task_are_read_once_and_names_compared_without_case(dms: Stubber):
    request = {"ReplicationTaskArn": TASK, "MaxRecords": PAGE_TABLES}
    dms.add_response("describe_table_statistics", response(("SHOP", "ORDERS", "Full load"), marker="next"), request)
    last = response(("shop", "items", "Table completed"))
    dms.add_response("describe_table_statistics", last, {**request, "Marker": "next"})
    statistics = DmsStatistics(lambda: dms.client)
    assert statistics.table_state(TASK, TableName("shop", "orders")) == "Full load"
    assert statistics.table_state(TASK, TableName("shop", "items")) == "Table completed"
    assert statistics.table_state(TASK, TableName("shop", "other")) is None


@pytest.mark.parametrize(
    ("code", "remedy"), [("ResourceNotFoundFault", "DmsTask"), ("AccessDeniedFault", "DescribeTableStatistics")]
)
def test_a_missing_or_forbidden_task_is_an_error_with_a_remedy(dms: Stubber, code: str, remedy: str):
    dms.add_client_error("describe_table_statistics", code)
    with pytest.raises(ConfigurationError) as raised:
        DmsStatistics(lambda: dms.client).table_state(TASK, TableName("shop", "orders"))
    assert remedy in raised.value.remedy
    assert raised.value.details["task"] == TASK


TASK_REQUEST = {"Filters": [{"Name": "replication-task-arn", "Values": [TASK]}]}


SOURCE, TARGET = (f"arn:aws:dms:eu-central-1:123456789012:endpoint:{name}" for name in ("SOURCE", "TARGET"))
ENDPOINTS_REQUEST = {"Filters": [{"Name": "endpoint-arn", "Values": [SOURCE, TARGET]}]}
SETTINGS = {
    "ReplicationTaskArn": TASK,
    "ReplicationTaskSettings": '{"TargetMetadata": {"LobMaxSize": 32}}',
    "SourceEndpointArn": SOURCE,
    "TargetEndpointArn": TARGET,
}


def test_the_settings_of_a_task_are_read_by_section_and_those_of_its_endpoints_by_name(dms: Stubber):
    statistics = DmsStatistics(lambda: dms.client)
    dms.add_response("describe_replication_tasks", {"ReplicationTasks": [SETTINGS]}, TASK_REQUEST)
    task = statistics.settings(TASK)
    assert (task.sections, task.source, task.target) == ({"TargetMetadata": {"LobMaxSize": 32}}, None, None)
    target = {
        "EndpointArn": TARGET,
        "EngineName": "s3",
        "ExtraConnectionAttributes": "timestampColumnName=ts; dataFormat=csv;",
        "S3Settings": {"DataFormat": "parquet", "CdcInsertsOnly": False},
    }
    source = {
        "EndpointArn": SOURCE,
        "EngineName": "postgres",
        "ServerName": "db",
        "PostgreSQLSettings": {"HeartbeatEnable": True},
    }
    dms.add_response("describe_endpoints", {"Endpoints": [target], "Marker": "next"}, ENDPOINTS_REQUEST)
    dms.add_response("describe_endpoints", {"Endpoints": [source]}, {**ENDPOINTS_REQUEST, "Marker": "next"})
    task = statistics.with_endpoints(task)
    assert task.source is not None
    assert task.target is not None
    assert (task.source.engine, task.source.value("HeartbeatEnable")) == ("postgres", True)
    names = ("TimestampColumnName", "DataFormat", "CdcInsertsOnly", "RowGroupLength")
    assert [task.target.value(name) for name in names] == ["ts", "parquet", False, None]


def test_endpoints_that_may_not_be_read_are_an_error_that_names_the_permission(dms: Stubber):
    dms.add_client_error("describe_endpoints", "AccessDeniedFault")
    with pytest.raises(ConfigurationError, match="dms:DescribeEndpoints"):
        DmsStatistics(lambda: dms.client).with_endpoints(DmsTask({}, SOURCE, TARGET))


def test_a_task_without_endpoints_reads_none(dms: Stubber):
    assert DmsStatistics(lambda: dms.client).with_endpoints(DmsTask({})) == DmsTask({}, endpoints={})


def test_the_settings_of_a_missing_task_are_an_error_with_a_remedy(dms: Stubber):
    statistics = DmsStatistics(lambda: dms.client)
    dms.add_response("describe_replication_tasks", {"ReplicationTasks": []}, TASK_REQUEST)
    with pytest.raises(ConfigurationError, match="The DMS task does not exist"):
        statistics.settings(TASK)
    dms.add_client_error("describe_replication_tasks", "AccessDeniedFault")
    with pytest.raises(ConfigurationError, match="DescribeReplicationTasks"):
        statistics.settings(TASK)
