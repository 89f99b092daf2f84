"""An older row in a new change file does not revive a row whose delete is behind the late window."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.errors import BadRowError, InputError
from cdclake.lake.limits import EngineLimits
from cdclake.lake.operations.release import release
from cdclake.lake.storage.tombstones import plan_tombstones
from cdclake.model.snapshot import TombstoneFile
from tests.cdclake.lake.over_time import TableOverTime
from tests.cdclake.lake.scd2.versions import check_newest_are_the_table

if TYPE_CHECKING:
    from pathlib import Path

    from cdclake.lake.operations.direct.apply import DirectResult

MARCH = datetime(2024, 3, 1, tzinfo=timezone.utc)
SETTINGS = pytest.mark.parametrize("settings", [{}, {"DeleteMode": "soft"}, {"History": "true"}], ids=str)


class Versioned(TableOverTime):
    """A table whose change files have a column with a version, which orders their rows."""

    def apply_on(self, day: int, *changes: tuple[str, int, Any]) -> dict[str, Any]:
        """Apply a file of a day in March 2024: operation, id and version of its rows."""
        name = self.item.get("OrderColumn", "AR_H_CHANGE_SEQ")
        rows = [{"Op": op, "id": number, name: version, "name": f"{op} {version}"} for op, number, version in changes]
        return self.apply_rows(f"202403{day:02}-10{self.log.head():02}00000.parquet", rows)

    def forget(self, first: Any, second: Any) -> None:
        """Apply changes that move the late window past everything before."""
        for day in (20, 21):
            self.apply_on(day, ("I", day, first if day == 20 else second))

    def remembered(self) -> int:
        return sum(file.rows for file in self.log.snapshot(self.log.head()).tombstones)

    def names(self) -> dict[int, str]:
        if self.item.get("History"):
            check_newest_are_the_table(self, ("id",))
        return self.live("name")


def ordered_by(folder: Path, kind: pa.DataType, settings: dict[str, str]) -> Versioned:
    columns = pa.schema([("id", pa.int64()), ("v", kind), ("name", pa.string())])
    return Versioned(folder, columns, {"PrimaryKey": "id", "OrderColumn": "v", **settings})


@pytest.mark.sampled(quick=3)
@SETTINGS
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int32(), [1, 5, 10]),
        (pa.timestamp("us", "UTC"), [MARCH + timedelta(days=days) for days in (1, 5, 10)]),
        (pa.date32(), [date(2024, 3, day) for day in (1, 5, 10)]),
        (pa.string(), [f"2024-03-{day:02} 10:00:00.000000" for day in (1, 5, 10)]),
    ],
    ids=str,
)
def test_a_table_ordered_by_a_column_remembers_deletes(
    tmp_path: Path, kind: pa.DataType, values: list[Any], settings: dict[str, str]
) -> None:
    lowest, middle, highest = values
    table = ordered_by(tmp_path, kind, settings)
    table.apply_on(1, ("I", 1, lowest), ("D", 1, highest))
    table.forget(highest, highest)
    table.apply_on(21, ("U", 1, middle), ("I", 2, lowest))
    assert sorted(table.names()) == [2, 20, 21]
    table.apply_on(22, ("I", 1, highest))
    assert sorted(table.names()) == [1, 2, 20, 21]


def by_sequence(folder: Path, settings: dict[str, str]) -> Versioned:
    columns = pa.schema([("id", pa.int64()), ("name", pa.string())])
    return Versioned(folder, columns, {"PrimaryKey": "id", **settings})


def sequence(day: int) -> str:
    return f"202403{day:02}10000000{7:019}"


def deleted_and_forgotten(table: Versioned) -> None:
    table.apply_on(1, ("I", 1, sequence(1)), ("I", 3, sequence(1)), ("D", 1, sequence(10)))
    table.forget(sequence(20), sequence(21))
    table.apply_on(21, ("D", 99, sequence(21)))
    assert table.remembered() == 1


@pytest.mark.sampled(quick=3)
@SETTINGS
@pytest.mark.parametrize(("op", "number"), [("U", 1), ("I", 1), ("I", 2)])
def test_a_row_older_than_a_forgotten_delete_stops_the_table(
    tmp_path: Path, op: str, number: int, settings: dict[str, str]
) -> None:
    table = by_sequence(tmp_path, settings)
    deleted_and_forgotten(table)
    before = table.names()
    with pytest.raises(BadRowError, match=r"delete.*forgotten.*20240321-10.*row 2\)") as refused:
        table.apply_on(21, ("U", 3, sequence(22)), (op, number, sequence(5)))
    assert "Nothing was applied" in refused.value.remedy
    assert (table.names(), table.log.head()) == (before, 4)


@SETTINGS
def test_older_rows_that_a_later_one_decides_are_superseded(tmp_path: Path, settings: dict[str, str]) -> None:
    table = by_sequence(tmp_path, settings)
    deleted_and_forgotten(table)
    summary = table.apply_on(
        22,
        ("U", 20, sequence(5)),  # a live row
        ("D", 1, sequence(5)),  # gone either way
        ("I", 2, sequence(5)),
        ("U", 2, sequence(23)),
        ("I", 4, sequence(22)),
    )
    assert table.names().keys() == {2, 3, 4, 20, 21}
    assert summary["books"]["superseded"] == 2


def test_a_direct_insert_after_forgotten_deletes_is_applied(tmp_path: Path) -> None:
    table = by_sequence(tmp_path, {})
    deleted_and_forgotten(table)
    inserted: DirectResult = table.direct("I", [pa.table({"id": [1], "name": ["direct"]})])
    assert inserted.inserted == 1


def test_a_rollback_remembers_the_delete_again(tmp_path: Path) -> None:
    table = by_sequence(tmp_path, {"LateWindowHours": "1000"})
    table.apply_on(1, ("I", 1, sequence(1)), ("D", 1, sequence(10)))
    table.item["LateWindowHours"] = "1"
    table.forget(sequence(20), sequence(21))
    table.apply_on(21, ("D", 99, sequence(21)))
    assert table.log.snapshot(4).forgotten
    table.roll_back(to=1)
    assert (table.log.snapshot(5).forgotten, table.remembered()) == ("", 1)


def test_a_reload_starts_over(tmp_path: Path) -> None:
    table = by_sequence(tmp_path, {})
    deleted_and_forgotten(table)
    table.write_load([{"id": 1, "name": "loaded"}])
    table.set_modified("LOAD00000001.parquet", MARCH + timedelta(days=60))
    assert table.load_initial()["change"]
    assert table.log.snapshot(5).forgotten == ""


LOAD = "LOAD00000001.csv"


def loaded_with_a_bad_row(folder: Path) -> TableOverTime:
    item = {"PrimaryKey": "id", "Schema": "id bigint, n tinyint", "MaxQuarantinedRows": "5"}
    table = TableOverTime(folder, pa.schema([("id", pa.int64()), ("n", pa.int16())]), item)
    table.load_file(LOAD, b"1,1\n2,2222\n3,3333\n")
    return table


def put_change(table: TableOverTime, day: int, text: str) -> None:
    assert table.apply_file(f"202403{day:02}-100000000.csv", text.encode())["change"]


def release_load(table: TableOverTime) -> dict[str, Any]:
    table.item["Schema"] = "id bigint, n smallint"
    return release(table.run(), [LOAD])


def test_a_released_row_of_the_full_load_stays_deleted_after_the_late_window(tmp_path: Path) -> None:
    table = loaded_with_a_bad_row(tmp_path)
    put_change(table, 1, "D,2,0\n")
    for day in (20, 21, 22):
        put_change(table, day, f"I,{day},0\nD,1,0\n")
    books = release_load(table)["books"]
    assert (books["superseded"], books["inserted"]) == (1, 1)
    assert sorted(one.row["id"] for one in table.rows()) == [3, 20, 21, 22]


def test_deletes_are_forgotten_again_once_the_quarantine_of_the_full_load_is_empty(tmp_path: Path) -> None:
    table = loaded_with_a_bad_row(tmp_path)
    put_change(table, 1, "D,2,0\n")
    release_load(table)
    for day in (20, 21, 22):
        put_change(table, day, "D,1,0\n")
    snapshot = table.log.snapshot(table.log.head())
    assert "20240301" in snapshot.forgotten
    assert sum(file.rows for file in snapshot.tombstones) == 3


def test_rows_of_the_full_load_are_not_released_once_deletes_were_forgotten(tmp_path: Path) -> None:
    """Deletes are remembered while such rows are in quarantine, so this is another check of the same."""
    table = loaded_with_a_bad_row(tmp_path)
    for day in (1, 20, 21):
        put_change(table, day, "D,2,0\n")
    record = table.log.record(table.log.head())
    snapshot = replace(table.log.snapshot(record.change), load_in_quarantine=False, forgotten="a position")
    table.log.store.put(record.snapshot_key, snapshot.to_bytes())
    with pytest.raises(InputError, match="deletes of their keys may be forgotten"):
        release_load(table)
    assert table.log.head() == record.change


def test_files_of_remembered_deletes_stop_growing_at_a_size_that_fits_in_memory() -> None:
    full = TombstoneFile("full", 99, "20240305-000000000.csv", 1, 9, ("int",), "last")
    plan = plan_tombstones([full], 51, "", EngineLimits(tombstone_file_rows=100))
    assert (plan.kept, plan.merged) == ((full,), ())
