"""Ordering values of two kinds do not compare, and a missing one decides nothing: such changes are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.errors import BadRowError, ConfigurationError, OrderingError
from cdclake.model.snapshot import Snapshot
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

PERSONS = pa.schema([("id", pa.int64()), ("name", pa.string())])
FIRST, SECOND, THIRD = (f"20240305-1{hour}1500000.parquet" for hour in range(3))
Value = dict[str, Any]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path, PERSONS, {"PrimaryKey": "id"})


def row(op: str, name: str | None, **more: Any) -> Value:
    return {"Op": op, "id": 1, "name": name, **more}


def names(table: Table) -> list[Any]:
    return [one.row["name"] for one in table.rows()]


SEQUENCED = [row("U", "new", AR_H_CHANGE_SEQ="20240305101459000000000000000000001")]
PLAIN = [row("U", "old")]


@pytest.mark.parametrize(("before", "after"), [(PLAIN, SEQUENCED), (SEQUENCED, PLAIN)])
@pytest.mark.parametrize("in_one_change", [True, False])
def test_change_sequences_switched_on_or_off_midway_are_refused(
    table: Table, before: list[Value], after: list[Value], in_one_change: bool
) -> None:
    table.put_rows(FIRST, before)
    if not in_one_change:
        table.load_incremental()
    with pytest.raises(OrderingError, match="do not compare") as caught:
        table.apply_rows(SECOND, after)
    assert caught.value.details == {"file": SECOND, "row": 1}
    assert "full load" in caught.value.remedy
    assert names(table) == ([] if in_one_change else [before[0]["name"]])


def test_a_reload_lets_the_order_begin_anew(table: Table) -> None:
    table.apply_rows(FIRST, PLAIN)
    table.put_rows(SECOND, SEQUENCED)
    table.write_load([{"id": 1, "name": "loaded"}])
    for hour, relative in enumerate((FIRST, "LOAD00000001.parquet", SECOND)):
        table.set_modified(relative, table.now.replace(hour=11 + hour))
    table.load_initial()
    table.load_incremental()
    assert names(table) == ["new"]


def test_a_snapshot_of_an_earlier_version_accepts_any_order(table: Table) -> None:
    assert Snapshot().ordering == ""
    table.apply_rows(FIRST, SEQUENCED)
    assert table.log.snapshot(1).ordering == "AR_H_CHANGE_SEQ"


def test_an_empty_change_sequence_makes_the_row_bad(table: Table) -> None:
    with pytest.raises(BadRowError, match="AR_H_CHANGE_SEQ is empty") as caught:
        table.apply_rows(FIRST, [*SEQUENCED, row("U", "other", AR_H_CHANGE_SEQ=" ")])
    assert caught.value.details == {"file": FIRST, "row": 2}


def test_an_ordering_column_that_the_lake_does_not_store_keeps_its_kind(table: Table) -> None:
    table.item["OrderColumn"] = "AR_H_SCN"
    table.put_rows(FIRST, [row("U", "a", AR_H_SCN=10)], AR_H_SCN=pa.int64())
    table.apply_rows(SECOND, [row("U", "b", AR_H_SCN=11)], AR_H_SCN=pa.int32())
    with pytest.raises(OrderingError, match="AR_H_SCN"):
        table.apply_rows(THIRD, [row("U", "c", AR_H_SCN="x12")], AR_H_SCN=pa.string())


def test_an_ordering_column_set_on_a_loaded_table_is_refused(table: Table) -> None:
    table.apply_rows(FIRST, PLAIN)
    table.item["OrderColumn"] = "name"
    with pytest.raises(ConfigurationError, match="OrderColumn"):
        table.apply_rows(SECOND, PLAIN)


@pytest.mark.parametrize("op", ["I", "U"])
@pytest.mark.parametrize(("kind", "value"), [(pa.int64(), None), (pa.float64(), float("nan"))])
def test_a_row_without_an_ordering_value_is_bad(table: Table, op: str, kind: pa.DataType, value: Any) -> None:
    table.item["OrderColumn"] = "version"
    with pytest.raises(BadRowError, match="version is null") as caught:
        table.apply_rows(FIRST, [row("U", "a", version=7), row(op, "b", version=value)], version=kind)
    assert caught.value.details == {"file": FIRST, "row": 2}


def test_a_delete_without_an_ordering_value_that_is_no_time_is_bad(table: Table) -> None:
    table.item["OrderColumn"] = "version"
    with pytest.raises(BadRowError, match="delete"):
        table.apply_rows(FIRST, [row("U", "a", version=7), row("D", None, version=None)], version=pa.int64())


AT = pa.timestamp("us", tz="UTC")


def at(hour: int, minute: int) -> str:
    return f"2024-03-05T{hour}:{minute:02}:00Z"


def timed(op: str, name: str | None, when: str | None) -> Value:
    value = pa.scalar(when, pa.string()).cast(AT).as_py() if when else None
    return row(op, name, changed=value)


@pytest.mark.parametrize("mode", ["hard", "soft"])
def test_a_delete_with_only_the_key_is_placed_by_the_time_of_its_file(table: Table, mode: str) -> None:
    table.item.update(OrderColumn="changed", DeleteMode=mode)
    table.apply_rows(FIRST, [timed("U", "a", at(10, 10)), timed("D", None, None)], changed=AT)
    assert table.log.snapshot(1).rows == 0
    table.apply_rows(SECOND, [timed("I", "b", at(11, 10))], changed=AT)
    assert names(table) == ["b"]
    table.apply_rows("20240305-103000000.parquet", [timed("D", None, None)], changed=AT)
    assert names(table) == ["b"]


@pytest.mark.parametrize("in_one_change", [True, False])
def test_a_delete_with_only_the_key_that_its_place_contradicts_is_refused(table: Table, in_one_change: bool) -> None:
    """The key was inserted again before the file of the delete was written, or the clock of the column is ahead."""
    table.item["OrderColumn"] = "changed"
    table.put_rows(FIRST, [timed("D", None, None)], changed=AT)
    if not in_one_change:
        table.load_incremental()
    with pytest.raises(OrderingError, match="only the key") as caught:
        table.apply_rows(SECOND, [timed("I", "b", at(10, 14))], changed=AT)
    assert caught.value.details == {"file": SECOND if in_one_change is False else FIRST, "row": 1}


def test_a_delete_with_only_the_key_that_is_older_than_the_row_is_refused(table: Table) -> None:
    table.item["OrderColumn"] = "changed"
    table.apply_rows(FIRST, [timed("I", "a", at(12, 0))], changed=AT)
    with pytest.raises(OrderingError, match="only the key"):
        table.apply_rows(SECOND, [timed("D", None, None)], changed=AT)


@pytest.mark.parametrize("value", ["9", "-1", "10.5", "0"])
def test_text_that_looks_like_numbers_must_be_declared_as_numbers(table: Table, value: str) -> None:
    table.item.update(OrderColumn="version", Schema="version string")
    table.put("20240305-101500000.csv", f"Op,id,name,version\nU,1,a,x\nU,1,b,{value}\n".encode())
    with pytest.raises(OrderingError, match="looks like a number") as caught:
        table.load_incremental()
    assert caught.value.details == {"file": "20240305-101500000.csv", "row": 2, "column": "version"}


UNSORTABLE = [
    "9",
    "",
    "v9",
    "9:00",
    "05-MAR-24",
    "2024-3-9",
    "3/5/2024 9:00:00",
    "2024-03-05",
    "2024-03-05T10:00:00",
    "2024-03-05 10:00:00+02",
    "2024-03-05 10:00:00.1234567 Z",
]


@pytest.mark.parametrize("value", UNSORTABLE)
@pytest.mark.parametrize("name", ["version", "AR_H_VERSION"])
def test_text_that_may_not_sort_like_its_values_must_be_declared(table: Table, value: str, name: str) -> None:
    table.item["OrderColumn"] = name
    rows = [row("D", None, **{name: None}), row("U", "a", **{name: value})]
    with pytest.raises(OrderingError, match="may not sort") as caught:
        table.apply_rows(FIRST, rows, **{name: pa.string()})
    assert caught.value.details == {"file": FIRST, "row": 2, "column": name}
    assert f"{name} string" in caught.value.remedy


def test_times_of_different_length_in_a_file_must_be_declared(table: Table) -> None:
    table.item["OrderColumn"] = "at"
    times = ["2024-03-05 10:00:00.1", "2024-03-05 10:00:00.10"]
    with pytest.raises(OrderingError, match="another length") as caught:
        table.apply_rows(FIRST, [row("U", "a", at=time) for time in times], at=pa.string())
    assert caught.value.details["row"] == 2


@pytest.mark.parametrize("fraction", ["", ".123456"])
def test_times_as_dms_writes_them_order_as_text(table: Table, fraction: str) -> None:
    table.item["OrderColumn"] = "at"
    times = {"later": f"2024-03-05 10:00:00{fraction}", "earlier": f"2024-03-05 09:59:59{fraction}"}
    table.apply_rows(FIRST, [row("U", name, at=time) for name, time in times.items()], at=pa.string())
    assert names(table) == ["later"]


def test_other_text_orders_by_bytes_if_declared(table: Table) -> None:
    table.item.update(OrderColumn="version", Schema="version string")
    table.apply_rows(FIRST, [row("U", "b", version="v09"), row("U", "a", version="v08")], version=pa.string())
    assert names(table) == ["b"]


@pytest.mark.parametrize("name", ["version", "AR_H_VERSION"])
def test_numbers_in_text_order_by_value_if_declared(table: Table, name: str) -> None:
    table.item.update(OrderColumn=name, Schema=f"id bigint, {name} bigint")
    table.apply_file("20240305-101500000.csv", f"Op,id,name,{name}\nU,1,ten,10\nU,1,nine,9\n".encode())
    assert names(table) == ["ten"]


def test_change_sequences_in_a_column_of_another_name_order_as_text(table: Table) -> None:
    table.item["OrderColumn"] = "AR_H_SEQ"
    table.apply_file("20240305-101500000.csv", f"Op,id,name,AR_H_SEQ\nU,1,b,{2:035}\nU,1,a,{1:035}\n".encode())
    assert names(table) == ["b"]
