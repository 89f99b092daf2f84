"""A feed with good settings is well, however it is written, and its settings are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.doctor.feed import GOOD, RawFolder

if TYPE_CHECKING:
    from pathlib import Path

WRITTEN = [
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


@pytest.mark.parametrize("names", WRITTEN, ids=lambda names: " ".join(f"{k}={v}" for k, v in names.items()) or "good")
def test_a_clean_feed_is_well_and_its_settings_are_told(tmp_path: Path, names: dict[str, object]) -> None:
    made = RawFolder(tmp_path, {**GOOD, **names})
    made.fill()
    report = made.examine()
    assert [(one.code.value, one.seen) for one in report.findings] == []
    told = {one.name: one.value for one in report.inferred}
    for name, value in {**GOOD, **names}.items():
        if name != "CsvNullValue":
            assert told[name] == value, name
