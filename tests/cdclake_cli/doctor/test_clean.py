"""A feed with recommended settings has no findings, in every format, and its settings are inferred."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cdclake_cli.doctor.feed import GOOD, RawFolder

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = [
    {},
    {"CompressionType": "gzip"},
    {"ParquetVersion": "parquet-2-0", "EncodingType": "plain", "EnableStatistics": "false"},
    {"DataFormat": "csv"},
    {"DataFormat": "csv", "AddColumnName": "true"},
    {"DataFormat": "csv", "CompressionType": "gzip", "CsvDelimiter": "|"},
    {"DataFormat": "csv", "CsvDelimiter": "\\t", "CsvNullValue": "\\N", "AddColumnName": "true"},
    {"IncludeOpForFullLoad": "true"},
    {"DatePartitionEnabled": "true"},
    {"DatePartitionEnabled": "true", "DatePartitionSequence": "YYYYMMDDHH", "DatePartitionDelimiter": "DASH"},
    {"DatePartitionEnabled": "true", "DatePartitionSequence": "DDMMYYYY", "DatePartitionDelimiter": "NONE"},
    {"ParallelLoad": "segments"},
    {"ParallelLoad": "folders"},
]


@pytest.mark.parametrize("names", SETTINGS, ids=lambda names: " ".join(f"{k}={v}" for k, v in names.items()) or "good")
def test_a_clean_feed_has_no_findings_and_its_settings_are_inferred(tmp_path: Path, names: dict[str, object]) -> None:
    report = RawFolder(tmp_path, {**GOOD, **names}).filled().diagnose()
    assert [(finding.code.value, finding.seen) for finding in report.findings] == []
    inferred = {setting.name: setting.value for setting in report.inferred}
    for name, value in {**GOOD, **names}.items():
        if name != "CsvNullValue":
            assert inferred[name] == value, name
