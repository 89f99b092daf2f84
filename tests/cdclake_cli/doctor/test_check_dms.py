"""The doctor compares the DMS task of a table, and its endpoints, with the recommended settings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from cdclake.adapters.dms import DmsEndpoint, DmsTask
from cdclake_cli.doctor.dms.recommended import RawLocation, s3_settings, task_settings
from cdclake_cli.doctor.dms.setting import Source, by_name, by_section
from cdclake_cli.doctor.dms.sources import SOURCES
from tests.cdclake_cli.doctor.feed import RawFolder

if TYPE_CHECKING:
    from pathlib import Path

SOURCE_ARN, TARGET_ARN = "source", "target"
LOCATION = RawLocation("raw", "arn:aws:iam::123456789012:role/dms", "123456789012")


def endpoint(engine: str, settings: dict[str, Any]) -> DmsEndpoint:
    return DmsEndpoint(engine, {name.lower(): value for name, value in settings.items()})


def task(
    source: Source = Source.MYSQL,
    *,
    settings: dict[str, dict[str, Any]] | None = None,
    target: dict[str, Any] | None = None,
    endpoint_settings: dict[str, Any] | None = None,
) -> DmsTask:
    """A task as recommended, with some values replaced; None as a value removes the setting."""
    sections = by_section(task_settings(source))
    for section, values in (settings or {}).items():
        sections[section] = present({**sections[section], **values})
    advice = SOURCES[source]
    endpoints = {
        TARGET_ARN: endpoint("s3", present({**by_name(s3_settings(LOCATION)), **(target or {})})),
        SOURCE_ARN: endpoint(advice.engines[0], present({**by_name(advice.endpoint), **(endpoint_settings or {})})),
    }
    return DmsTask(sections, SOURCE_ARN, TARGET_ARN, endpoints)


def present(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


@pytest.fixture
def raw(tmp_path: Path) -> RawFolder:
    return RawFolder(tmp_path).filled()


@pytest.mark.parametrize("source", Source)
def test_the_recommended_settings_have_no_findings(raw: RawFolder, source: Source) -> None:
    assert raw.findings(task=task(source)) == {}


@pytest.mark.parametrize(
    ("changed", "code", "seen", "paste"),
    [
        (
            {"target": {"CdcInsertsAndUpdates": True}},
            "dms-setting-loses-changes",
            "CdcInsertsAndUpdates of the S3 endpoint is true, recommended: false",
            {"S3Settings": {"CdcInsertsAndUpdates": False}},
        ),
        (
            {"settings": {"TargetMetadata": {"BatchApplyEnabled": True}}},
            "dms-setting-unsafe",
            "TargetMetadata.BatchApplyEnabled of the task is true, recommended: false",
            {"TargetMetadata": {"BatchApplyEnabled": False}},
        ),
        (
            {"settings": {"ErrorBehavior": {"DataTruncationErrorPolicy": None}}},
            "dms-setting-unsafe",
            "ErrorBehavior.DataTruncationErrorPolicy of the task is not set, recommended: SUSPEND_TABLE",
            {"ErrorBehavior": {"DataTruncationErrorPolicy": "SUSPEND_TABLE"}},
        ),
        (
            {"target": {"TimestampColumnName": None}},
            "dms-setting-differs",
            "TimestampColumnName of the S3 endpoint is not set, recommended: dms_timestamp",
            {"S3Settings": {"TimestampColumnName": "dms_timestamp"}},
        ),
        (
            {"source": Source.POSTGRES, "endpoint_settings": {"PluginName": "PGLOGICAL"}},
            "dms-setting-unsafe",
            "PluginName of the source endpoint (PostgreSQLSettings) is PGLOGICAL, recommended: test-decoding",
            {"PostgreSQLSettings": {"PluginName": "test-decoding"}},
        ),
        (
            {"source": Source.ORACLE, "endpoint_settings": {"NumberDatatypeScale": None}},
            "dms-setting-unsafe",
            "NumberDatatypeScale of the source endpoint (OracleSettings) is not set, recommended: -2",
            {"OracleSettings": {"NumberDatatypeScale": -2}},
        ),
        (
            {"source": Source.ORACLE, "settings": {"ErrorBehavior": {"FailOnTransactionConsistencyBreached": False}}},
            "dms-setting-unsafe",
            "ErrorBehavior.FailOnTransactionConsistencyBreached of the task is false, recommended: true",
            {"ErrorBehavior": {"FailOnTransactionConsistencyBreached": True}},
        ),
        (
            {"target": {"DatePartitionEnabled": True, "DatePartitionTimezone": "Asia/Seoul"}},
            "dms-setting-unsafe",
            "DatePartitionTimezone of the S3 endpoint is Asia/Seoul, recommended: UTC",
            {"S3Settings": {"DatePartitionTimezone": "UTC"}},
        ),
    ],
)
def test_a_difference_is_found_with_both_values_and_what_to_paste(
    raw: RawFolder, changed: dict[str, Any], code: str, seen: str, paste: dict[str, Any]
) -> None:
    (finding,) = raw.diagnose(task=task(**changed)).findings
    assert (finding.code.value, finding.seen, json.loads(finding.paste)) == (code, seen, paste)
    assert "aws dms modify-" in finding.fix
    assert "https://docs.aws.amazon.com/dms/" in finding.fix


@pytest.mark.parametrize(
    "same",
    [
        {"target": {"TimestampColumnName": "ts", "CompressionType": "gzip", "RowGroupLength": None}},
        {"target": {"CdcMaxBatchInterval": 300, "DatePartitionEnabled": True, "DatePartitionTimezone": "Etc/UTC"}},
        {"target": {"CdcInsertsOnly": "n", "PreserveTransactions": None}},
        {"settings": {"ErrorBehavior": {"DataErrorPolicy": "STOP_TASK"}, "TargetMetadata": {"LobMaxSize": 32}}},
        {"source": Source.POSTGRES, "endpoint_settings": {"PluginName": None}},
        {"source": Source.ORACLE, "endpoint_settings": {"NumberDatatypeScale": 12}},
    ],
)
def test_other_values_that_are_as_good_are_not_reported(raw: RawFolder, same: dict[str, Any]) -> None:
    assert raw.findings(task=task(**same)) == {}


def test_csv_files_without_column_names_are_unsafe_and_with_names_cost_more(raw: RawFolder) -> None:
    csv = {"DataFormat": None, "ParquetTimestampInMillisecond": True}
    found = raw.findings(task=task(target=csv))
    assert found == {
        "dms-setting-unsafe": "AddColumnName of the S3 endpoint is not set, recommended: true",
        "dms-setting-differs": "DataFormat of the S3 endpoint is not set, recommended: parquet",
    }
    assert raw.findings(task=task(target={**csv, "AddColumnName": True})).keys() == {"dms-setting-differs"}
    transactions = {**csv, "PreserveTransactions": True, "CdcPath": "changes"}
    assert "PreserveTransactions" in raw.findings(task=task(target=transactions))["dms-setting-unsafe"]


def test_without_endpoints_only_the_task_is_compared(raw: RawFolder) -> None:
    sections = by_section(task_settings(Source.MYSQL))
    assert raw.findings(task=DmsTask(sections, SOURCE_ARN, TARGET_ARN)) == {}
    sections["TargetMetadata"]["SupportLobs"] = False
    assert raw.findings(task=DmsTask(sections, SOURCE_ARN, TARGET_ARN)).keys() == {"dms-setting-unsafe"}


def test_settings_of_another_engine_are_not_compared(raw: RawFolder) -> None:
    sections = by_section(task_settings(Source.MYSQL))
    endpoints = {SOURCE_ARN: endpoint("sybase", {}), TARGET_ARN: endpoint("kinesis", {})}
    assert raw.findings(task=DmsTask(sections, SOURCE_ARN, TARGET_ARN, endpoints)) == {}
