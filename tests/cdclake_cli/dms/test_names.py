"""Names and folders are as in the DMS user guide, and cdclake's reader accepts all of them."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from cdclake.errors import ConfigurationError
from cdclake.model.raw.files import file_order, is_transactions_key, split_raw_key
from cdclake.model.table.name import TableName
from cdclake_cli.dms.names import (
    ChangeFileTimes,
    can_be_folder,
    change_path,
    full_load_path,
    table_folder,
    transactions_key,
)
from cdclake_cli.dms.settings import DmsSettings, settings_from
from cdclake_devkit.memory import ManualClock

WHEN = datetime(2024, 3, 5, 10, 15, 0, 123_999, tzinfo=timezone.utc)
NAME = TableName("shop", "orders")


@pytest.mark.parametrize(
    ("number", "name"), [(1, "LOAD00000001"), (9, "LOAD00000009"), (10, "LOAD0000000A"), (16, "LOAD00000010")]
)
def test_full_load_files_are_counted_in_upper_case_hexadecimal(number: int, name: str) -> None:
    assert full_load_path(DmsSettings(), number) == f"{name}.csv"


@pytest.mark.parametrize(
    ("parallel", "path"),
    [("none", "LOAD00000002.csv"), ("folders", "p3/LOAD00000002.csv"), ("segments", "SEGMENT3_LOAD00000002.csv")],
)
def test_a_parallel_load_uses_folders_or_segments(parallel: str, path: str) -> None:
    assert full_load_path(settings_from({"ParallelLoad": parallel}), 2, 3) == path
    assert split_raw_key(f"shop/orders/{path}", "") is not None


@pytest.mark.parametrize(
    ("format_", "compression", "ending"),
    [("csv", "none", "csv"), ("csv", "gzip", "csv.gz"), ("parquet", "none", "parquet"), ("parquet", "gzip", "parquet")],
)
def test_a_name_ends_with_the_format(format_: str, compression: str, ending: str) -> None:
    settings = settings_from({"DataFormat": format_, "CompressionType": compression})
    assert change_path(settings, WHEN) == f"20240305-101500123.{ending}"


@pytest.mark.parametrize(
    ("sequence", "delimiter", "folder"),
    [
        ("YYYYMMDD", "SLASH", "2024/03/05/"),
        ("YYYYMMDDHH", "SLASH", "2024/03/05/10/"),
        ("YYYYMM", "DASH", "2024-03/"),
        ("MMYYYYDD", "UNDERSCORE", "03_2024_05/"),
        ("DDMMYYYY", "NONE", "05032024/"),
    ],
)
def test_date_folders_have_the_configured_parts_and_order(sequence: str, delimiter: str, folder: str) -> None:
    names = {
        "DatePartitionEnabled": "true",
        "DatePartitionSequence": sequence,
        "DatePartitionDelimiter": delimiter,
    }
    path = change_path(settings_from(names), WHEN)
    assert path == f"{folder}20240305-101500123.csv"
    assert split_raw_key(f"shop/orders/{path}", "") is not None


def test_the_time_zone_of_date_folders_shifts_names_which_go_back_when_summer_time_ends() -> None:
    settings = settings_from({"DatePartitionEnabled": "true", "DatePartitionTimezone": "Europe/Berlin"})
    before, after = (datetime(2024, 10, 27, hour, 59, tzinfo=timezone.utc) for hour in (0, 1))
    assert change_path(settings, before) == "2024/10/27/20241027-025900000.csv"
    assert change_path(settings, after) == "2024/10/27/20241027-025900000.csv"
    assert change_path(settings, after.replace(minute=0)) < change_path(settings, before)


def test_without_date_folders_the_time_zone_has_no_effect() -> None:
    assert change_path(settings_from({"DatePartitionTimezone": "Europe/Berlin"}), WHEN) == "20240305-101500123.csv"


def test_the_bucket_folder_contains_table_folders_and_the_transaction_folder() -> None:
    settings = settings_from({"BucketFolder": "/dms/", "PreserveTransactions": "true", "CdcPath": "cdc/all"})
    assert table_folder(settings, NAME) == "dms/shop/orders/"
    key = transactions_key(settings, WHEN)
    assert key == "dms/cdc/all/CDC_TXN-20240305101500123.csv"
    assert is_transactions_key(key)
    assert file_order(key.rpartition("/")[2]).startswith("20240305-101500123/")


def test_a_name_with_a_slash_or_of_one_or_two_dots_is_that_of_no_folder() -> None:
    assert [name for name in ("a/b", ".", "..", "a.b", "...") if can_be_folder(name)] == ["a.b", "..."]


def test_change_file_times_increase_even_if_the_clock_goes_back() -> None:
    clock = ManualClock(WHEN)
    times = ChangeFileTimes(clock)
    written_at = [times.next(), times.next()]
    clock.advance(-3_600)
    written_at.append(times.next())
    clock.advance(7_200)
    written_at.append(times.next())
    assert written_at == sorted(set(written_at))
    assert written_at[0] == WHEN.replace(microsecond=123_000)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CsvDelimiter", ""),
        ("CsvDelimiter", "||"),
        ("CsvRowDelimiter", ","),
        ("CdcInsertsOnly", "maybe"),
        ("DatePartitionTimezone", "Mars/Crater"),
        ("DatePartitionTimezone", "../etc/passwd"),
        ("DataFormat", "orc"),
        ("MaxFileSize", "0"),
        ("MaxFileSize", "-1"),
        ("PreserveTransactions", "true"),
        ("UseCsvNoSupValue", "true"),
        ("CsvNoSupValue", "NULL"),
        ("CsvNullValue", "a,b"),
        ("HeaderColumns", "SEQUENCE"),
        ("CsvDelimter", ";"),
    ],
)
def test_an_invalid_setting_is_refused_with_its_name(name: str, value: str) -> None:
    needed = {"DatePartitionEnabled": "true"} if name == "DatePartitionTimezone" else {}
    with pytest.raises(ConfigurationError) as refused:
        settings_from({**needed, name: value})
    assert {"PreserveTransactions": "CdcPath", "UseCsvNoSupValue": "CsvNoSupValue"}.get(name, name) in str(
        refused.value
    )


@pytest.mark.parametrize("other", ["DatePartitionEnabled", "AddColumnName"])
def test_settings_that_exclude_transaction_files_are_refused(other: str) -> None:
    with pytest.raises(ConfigurationError, match=other):
        settings_from({"PreserveTransactions": "true", "CdcPath": "cdc", other: "y"})


def test_settings_accept_json_values_and_backslash_escapes() -> None:
    settings = settings_from(
        {"Rfc4180": False, "MaxFileSize": 5, "CsvDelimiter": "\\t", "HeaderColumns": ["AR_H_CHANGE_SEQ"]}
    )
    assert settings == DmsSettings(
        rfc4180=False, max_file_size=5, csv_delimiter="\t", header_columns=("AR_H_CHANGE_SEQ",)
    )
