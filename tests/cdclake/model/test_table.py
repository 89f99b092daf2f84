"""A table's item in the state table."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from datetime import datetime, timezone
from typing import Any

import pytest

from cdclake.errors import ConfigurationError
from cdclake.model.table.name import TableName
from cdclake.model.table.seen import Seen
from cdclake.model.table.settings import TableSettings
from cdclake.model.table.state import TableState

TRANSACTIONS = "CDC_TXN-20240305101500123.csv"


def table(prefix: str = "dms/", **attributes: str) -> TableState:
    return TableState.new("raw", f"{prefix}shop/", "orders/").with_attributes(**attributes)


@pytest.mark.parametrize("name", ["shop.orders", "my shop.o'rd; rm *", 'a.$(x) "b" é', "my shop/a.b"])
def test_a_name_in_a_command_to_copy_is_one_word_for_a_shell(name: str) -> None:
    assert shlex.split(f"cdclake tables activate {TableName.parse(name).typed}")[3:] == [name]


@pytest.mark.parametrize("table", ["a\u202eb", "a\x1b[1mb'c\\d", "\n", "\x9b1f", "\U000e0041b", "a\u200bb"])
def test_a_name_with_characters_that_a_terminal_hides_is_typed_with_escapes_that_bash_reads(table: str) -> None:
    name = TableName("my shop", table)
    assert name.typed.isprintable()
    bash = ["bash", "-c", f"printf %s {name.typed}"]
    typed = subprocess.run(bash, capture_output=True, check=True, env={"LC_ALL": "C.UTF-8", **os.environ}).stdout
    assert TableName.parse(typed.decode()) == name


NAMES = [
    TableName(*parts) for parts in (("a.b", "c"), ("a", "b.c"), (".a", "b"), ("a.", "b"), ("a", "b"), ("a.b.c", "d"))
]


@pytest.mark.parametrize("name", NAMES, ids=str)
def test_the_text_of_a_name_is_that_of_no_other_table_and_is_read_back(name: TableName) -> None:
    assert TableName.parse(str(name)) == name
    assert [one for one in NAMES if str(one) == str(name)] == [name]


def test_a_name_without_further_dots_may_be_typed_with_a_dot_or_a_slash() -> None:
    assert TableName.parse("shop.orders") == TableName.parse("shop/orders") == TableName("shop", "orders")
    assert TableName.parse(".a.b") == TableName(".a", "b")


def test_a_name_that_can_be_that_of_several_tables_is_refused_with_the_exact_names() -> None:
    with pytest.raises(ConfigurationError, match=r"can be the name of 2 tables.*: a/b\.c or a\.b/c$"):
        TableName.parse("a.b.c")
    with pytest.raises(
        ConfigurationError, match=r"of 4 tables.*: a/b\.c\.d\.e or a\.b/c\.d\.e or a\.b\.c/d\.e or \.\.\.$"
    ):
        TableName.parse("a.b.c.d.e")


@pytest.mark.parametrize("text", ["", "a", ".", "/", "a.", "/b", "a/b/c", "raw/shop/orders/", "a/"])
def test_a_text_that_is_no_table_name_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a table name"):
        TableName.parse(text)


@pytest.mark.parametrize(
    ("relative", "stored"),
    [
        ("", "raw/dms/shop/orders/0.parquet"),
        ("20240305-101500123.csv", "raw/dms/shop/orders/20240305-101500123.csv"),
        ("05032024/20240305-101500123.csv", "raw/dms/shop/orders/05032024/20240305-101500123.csv"),
        (TRANSACTIONS, f"raw/dms/cdc/txn/{TRANSACTIONS}"),
    ],
)
def test_a_watermark_is_stored_with_the_files_key_and_read_back(relative: str, stored: str) -> None:
    state = table(CdcPath="/cdc/txn/")
    assert state.as_watermark(relative) == stored
    assert state.with_attributes(LastIncrementalFile=stored).watermark == relative


def test_a_watermark_is_read_back_after_the_folder_of_transaction_files_was_changed() -> None:
    stored = table(CdcPath="cdc").as_watermark(TRANSACTIONS)
    for cdc_path in ("elsewhere", "null", ""):
        assert table(CdcPath=cdc_path, LastIncrementalFile=stored).watermark == TRANSACTIONS
        assert table(CdcPath=cdc_path, LastIncrementalFile=table(CdcPath=cdc_path).as_watermark(TRANSACTIONS)).watermark


@pytest.mark.parametrize(("prefix", "folder"), [("dms/", "dms/cdc/"), ("", "cdc/"), ("a/b/", "a/b/cdc/")])
def test_transaction_files_lie_below_the_raw_prefix(prefix: str, folder: str) -> None:
    assert table(prefix, CdcPath="cdc").transactions_folder == folder
    assert table(prefix, CdcPath="cdc").transactions_prefix == f"{folder}CDC_TXN-"
    assert table(prefix).transactions_folder == table(prefix).transactions_prefix == ""


LISTED = datetime(2024, 3, 5, 10, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    "seen", [Seen(), Seen(LISTED), Seen(None, LISTED, "20240305-100000"), Seen(LISTED, LISTED, "", "0af3", "77e0")]
)
def test_what_runs_saw_of_the_raw_files_is_read_as_it_is_written(seen: Seen) -> None:
    assert table(LastSeen=str(seen)).seen == seen
    assert len(str(seen)) < 250


WRONG: list[Any] = [
    {"listed_utc": "noon"},
    {"all_listed_utc": 5},
    {"tail_from": "soon"},
    {"tail": ["0af3"]},
    {"seen": "all"},
]


@pytest.mark.parametrize(
    "text", ["", "null", "[1]", "5", "noon", *(json.dumps({"whole": "77e0", **one}) for one in WRONG)]
)
def test_any_other_text_means_that_nothing_is_known_to_be_seen(text: str) -> None:
    assert table(LastSeen=text).seen == Seen()
    assert table().seen == Seen()


@pytest.mark.parametrize(("text", "value"), [("", None), ("null", "null"), ("?", "?")])
def test_only_an_empty_text_means_that_no_text_means_not_sent(text: str, value: str | None):
    assert table(CsvNoSupValue=text, CsvNullValue="").settings.csv.no_sup_value == value


@pytest.mark.parametrize(
    "item",
    [
        {"CsvDelimiter": "||"},
        {"CsvRowDelimiter": ""},
        {"CsvRowDelimiter": ","},
        {"CsvNoSupValue": "NULL"},
        {"CsvNullValue": "?", "CsvNoSupValue": "?"},
        {"Rfc4180": "maybe"},
        {"AddColumnName": "maybe"},
        {"LateWindowHours": "-1"},
        {"LateWindowHours": "9" * 5000},
        {"MaxQuarantinedRows": "many"},
        {"TargetFileBytes": "0"},
        {"RetentionDays": "36501"},
        {"DeleteMode": "maybe"},
        {"PrimaryKey": "id, ID"},
        {"PrimaryKey": "id", "NullMeansUnsent": "note,ID"},
        {"PartitionKey": "day,_p"},
        {"PartitionKey": ".p"},
        {"Schema": "id blob8"},
    ],
)
def test_an_invalid_setting_is_a_clear_error(item: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError):
        TableSettings.from_item(item)


def test_settings_have_the_defaults_of_dms() -> None:
    settings = TableSettings.from_item({"PrimaryKey": "null", "PartitionKey": " day , city "})
    assert settings.primary_key == ()
    assert settings.partition_key == ("day", "city")
    csv = settings.csv
    assert (csv.delimiter, csv.row_delimiter, csv.null_value, csv.no_sup_value, csv.quoting) == (
        ",",
        "\n",
        "NULL",
        None,
        True,
    )
    assert (settings.late_window_hours, settings.max_quarantined_rows) == (72, 0)
    assert settings.retention_days == 30
    assert not settings.soft_delete
    assert TableSettings.from_item({"DeleteMode": " Soft "}).soft_delete
