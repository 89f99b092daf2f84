"""`cdclake history` shows the versions of a row, without Spark."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.errors import ConfigurationError
from cdclake.lake.read.as_of import TableLocation
from cdclake.lake.read.key_history import find_versions
from tests.cdclake.lake.operations.erase.erasable_table import COLUMNS, ErasableTable, row
from tests.cdclake.lake.over_time import START, TABLE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def table(tmp_path: Path) -> ErasableTable:
    table = ErasableTable(tmp_path, COLUMNS)
    table.load([row(1), row(2)], START)
    table.apply(("U", row(1, "Bonn", "changed")), ("D", row(2)))
    table.apply(("I", row(2, "Rom", "again")), ("I", row(3)))
    return table


@pytest.fixture
def history(cdclake: Callable[..., Any], table: ErasableTable) -> Callable[..., Any]:
    return lambda *arguments: cdclake("history", TABLE, "--lake-bucket", table.location, *arguments)


def test_versions_are_ordered_by_time_newest_last(history: Callable[..., Any]) -> None:
    versions = [json.loads(line) for line in history("--key", "2", "-o", "json").stdout.splitlines()]
    assert [(one["operation"], one["name"], one["validity_flag"]) for one in versions] == [
        ("insert", "name 2", 0),
        ("delete", "name 2", 0),
        ("insert", "again", 1),
    ]
    assert [one["valid_to"] for one in versions] == [*(one["valid_from"] for one in versions[1:]), None]
    assert [one["change_id"] for one in versions] == [1, 2, 3]


def test_text_is_a_table(history: Callable[..., Any]) -> None:
    shown = history("--key", "1")
    assert shown.exit_code == 0, shown.output
    for text in ("History of shop.orders", "operation", "update", "changed", "Bonn", "null"):
        assert text in shown.stdout
    assert "This key has no versions." in history("--key", "99").output


def test_versions_of_several_keys_are_ordered_by_key(table: ErasableTable) -> None:
    found = find_versions(TableLocation.at(table.location, TABLE), ["3", "1"])
    assert [one["id"] for one in found.rows] == [1, 1, 3]
    assert found.columns[5:] == ("id", "city", "name", "amount")


def test_a_table_without_history_is_an_error_with_a_remedy(tmp_path: Path, cdclake: Callable[..., Any]) -> None:
    table = ErasableTable(tmp_path, COLUMNS, {"PrimaryKey": "id"})
    table.load([row(1)])
    with pytest.raises(ConfigurationError, match=r"keeps no history.*--history"):
        find_versions(TableLocation.at(table.location, TABLE), ["1"])
    result = cdclake("history", TABLE, "--lake-bucket", table.location, "--key", "1")
    assert (result.exit_code, "Traceback" in result.output) == (2, False)


def test_values_have_the_json_forms_of_diff(tmp_path: Path, cdclake: Any) -> None:
    kinds = {"id": pa.binary(), "day": pa.date32(), "at": pa.timestamp("us", "UTC")}
    kinds |= {"price": pa.decimal128(12, 10), "rate": pa.float32(), "most": pa.float64()}
    table = ErasableTable(tmp_path, pa.schema(kinds.items()), {"PrimaryKey": "id", "History": "true"})
    moment = datetime(2024, 3, 5, 10, tzinfo=timezone.utc)
    values = {"day": moment.date(), "at": moment, "price": Decimal(0), "rate": 0.1, "most": float("nan")}
    table.load([{"id": b"\xff\x00", **values}])
    version = cdclake.record("history", TABLE, "--lake-bucket", table.location, "--key", "ff00")
    assert {name: version[name] for name in kinds} == {
        "id": "FF00",
        "day": "2024-03-05",
        "at": "2024-03-05T10:00:00.000000Z",
        "price": "0.0000000000",
        "rate": 0.1,
        "most": "nan",
    }
    assert version["valid_from"].endswith("Z")
