"""Releases apply quarantined rows at their original positions."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.commit.quarantine import quarantined_files
from cdclake.errors import BadRowError, InputError, UnsentValueError
from cdclake.lake.limits import EngineLimits
from cdclake.lake.operations.release import release
from cdclake.model.change.record import ChangeKind, RawFileRows
from tests.cdclake.lake.over_time import START, TableOverTime
from tests.cdclake.lake.scd2.versions import version_rows

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = pa.schema([("id", pa.int64()), ("price", pa.decimal128(10, 2))])
NARROW, WIDE = "id bigint, price decimal(4,2)", "id bigint, price decimal(10,2)"
LOAD, FIRST, SECOND, THIRD = "LOAD00000001.csv", *(f"20240305-1{hour}0000000.csv" for hour in (0, 1, 2))


@pytest.fixture
def table(tmp_path: Path) -> TableOverTime:
    item = {"PrimaryKey": "id", "Schema": NARROW, "MaxQuarantinedRows": "5", "History": "true"}
    table = TableOverTime(tmp_path, COLUMNS, item)
    table.load_file(LOAD, b"1,1.50\n2,2222.50\n3,3.50\n")
    return table


def change(table: TableOverTime, name: str, text: str) -> None:
    assert table.apply_file(name, text.encode())["change"]


def release_files(table: TableOverTime, *names: str) -> dict[str, Any]:
    return release(table.run(), names, "prices are wider", "the operator")


def prices(table: TableOverTime) -> dict[int, str]:
    return {one.row["id"]: str(one.row["price"]) for one in table.rows()}


def quarantined(table: TableOverTime) -> list[tuple[int, str, list[int]]]:
    files = quarantined_files(table.log, table.log.head())
    return [(one.change, one.raw_file, [row["row"] for row in one.rows]) for one in files]


def test_released_rows_get_their_original_positions(table: TableOverTime) -> None:
    change(table, FIRST, "U,1,1111.00\nI,4,4444.00\nU,3,3333.00\nI,5,5.00\n")
    change(table, SECOND, "U,3,3.75\nD,5,5.00\n")
    assert prices(table) == {1: "1.50", 3: "3.75"}
    assert quarantined(table) == [(2, FIRST, [0, 1, 2]), (1, LOAD, [1])]
    table.item["Schema"] = WIDE
    done = release_files(table, LOAD, FIRST)
    assert prices(table) == {1: "1111.00", 2: "2222.50", 3: "3.75", 4: "4444.00"}
    books = done["books"]
    assert (books["inserted"], books["updated"], books["superseded"], books["quarantined"]) == (2, 1, 1, 0)
    record = table.log.record(done["change"])
    assert (record.kind, record.reason, record.made_by) == (ChangeKind.RELEASE, "prices are wider", "the operator")
    assert record.raw_files == (RawFileRows(FIRST, 3), RawFileRows(LOAD, 1))
    assert table.log.record(2).raw_files == (RawFileRows(FIRST, 4, quarantined=3),)
    assert quarantined(table) == []
    assert release_files(table, LOAD, FIRST)["change"] is None
    assert table.load_incremental()["change"] is None  # the release makes no file new or late
    versions = [(one["id"], str(one["price"]), one["validity_flag"]) for one in version_rows(table) if one["id"] == 3]
    assert sorted(versions) == [(3, "3.50", 0), (3, "3.75", 1), (3, "3333.00", 0)]


def test_a_released_row_of_the_full_load_is_older_than_every_change(table: TableOverTime) -> None:
    change(table, FIRST, "U,2,2.00\n")
    table.item["Schema"] = WIDE
    assert release_files(table, LOAD)["books"]["superseded"] == 1
    assert prices(table)[2] == "2.00"


def test_a_released_row_that_was_deleted_since_stays_deleted(table: TableOverTime) -> None:
    change(table, FIRST, "D,2,0.00\n")
    table.item["Schema"] = WIDE
    release_files(table, LOAD)
    assert 2 not in prices(table)


def test_rows_that_are_still_bad_are_quarantined_again(table: TableOverTime) -> None:
    change(table, FIRST, "I,4,44.00\nI,5,many\nI,6,666666.00\n")
    table.item["Schema"] = WIDE
    done = release_files(table, FIRST)
    assert (done["books"]["inserted"], done["books"]["quarantined"]) == (1, 1)
    assert quarantined(table) == [(3, FIRST, [1]), (1, LOAD, [1])]
    table.item["MaxQuarantinedRows"] = "0"
    with pytest.raises(BadRowError, match="Nothing was applied"):
        release_files(table, FIRST)


def test_a_rollback_of_a_release_quarantines_the_rows_again(table: TableOverTime) -> None:
    table.item["Schema"] = WIDE
    before = prices(table)
    done = release_files(table, LOAD)
    table.roll_back(to=done["change"] - 1)
    assert prices(table) == before
    assert quarantined(table) == [(1, LOAD, [1])]
    assert release_files(table, LOAD)["books"]["inserted"] == 1


def test_a_missing_raw_file_is_named_and_nothing_changes(table: TableOverTime) -> None:
    table.raw_path(LOAD).unlink()
    with pytest.raises(InputError, match=r"1 raw files .* no longer in the raw bucket .*LOAD00000001\.csv"):
        release_files(table, LOAD)
    assert table.log.head() == 1


def test_a_file_behind_the_late_window_is_refused(table: TableOverTime) -> None:
    table.item["LateWindowHours"] = "1"
    change(table, FIRST, "I,4,4444.00\n")
    change(table, THIRD, "I,5,5.00\n")
    with pytest.raises(InputError, match="behind the late window"):
        release_files(table, FIRST)


def test_a_reload_replaces_the_quarantine(table: TableOverTime) -> None:
    change(table, FIRST, "I,4,4444.00\n")
    assert len(quarantined(table)) == 2
    table.put(LOAD, b"1,1.50\n")
    table.set_modified(LOAD, datetime.now(timezone.utc) + timedelta(minutes=1))
    assert table.load_initial()["change"]
    assert quarantined(table) == []


EDITED = "20240305-100000000.csv"
QUARANTINED = "U,1,1111.00\nI,4,4444.00\nI,five,5.00\nU,3,3.25,6\n"


def edit(table: TableOverTime, *lines: str) -> None:
    table.put(EDITED, "".join(f"{line}\n" for line in lines).encode())


def test_a_row_is_released_from_an_edited_file_if_only_its_bad_cells_changed(table: TableOverTime) -> None:
    change(table, EDITED, QUARANTINED)
    edit(table, "U,1,11.00", "I,4,44.00", "I,5,5.00", 'U,3,"3.2,56"')
    with pytest.raises(InputError, match=r"row 4"):  # 3.2,56 is not 3.25,6
        release_files(table, EDITED)
    edit(table, "U,1,11.00", "I,4,44.00", "I,5,5.00", 'U,3,"3.25,6"')
    assert release_files(table, EDITED)["books"]["quarantined"] == 1  # 3.25,6 is no number: still bad
    assert prices(table) == {1: "11.00", 3: "3.50", 4: "44.00", 5: "5.00"}
    ledger = table.log.snapshot(table.log.head()).ledger
    assert ledger == table.log.snapshot(2).ledger  # the other rows are not compared, so it stays overwritten


@pytest.mark.parametrize(
    ("lines", "row"),
    [
        (("U,1,11.00", "I,five,5.00", "I,4,44.00", "U,3,3.25,6"), 2),  # another order
        (("U,1,11.00", "I,44,44.00", "I,5,5.00", "U,3,3.25,6"), 2),  # a key that was not bad
        (("D,1,11.00", "I,4,44.00", "I,5,5.00", "U,3,3.25,6"), 1),  # another operation
        (("I,4,44.00", "I,5,5.00", "U,3,3.25,6"), 1),  # a row less
        (("U,1,11.00", "I,4,44.00", "I,5,5.00"), 4),  # the row is gone
        (("U,1,11.00", "I,4,44.00", "I,5,5.00", "U,3,3.26"), 4),  # not the text of the row that did not split
    ],
)
def test_a_row_that_is_not_evidently_the_corrected_one_is_not_released(
    table: TableOverTime, lines: tuple[str, ...], row: int
) -> None:
    change(table, EDITED, QUARANTINED)
    edit(table, *lines)
    with pytest.raises(InputError, match=rf"raw file that changed .* is not evidently .*row {row}\)"):
        release_files(table, EDITED)
    assert table.log.head() == 2


def without_quoting(folder: Path, **settings: str) -> TableOverTime:
    """A table whose change file has two lines of one quoted value, and a bad value behind them."""
    item = {"Schema": "id bigint, note string, price decimal(4,2)", "MaxQuarantinedRows": "5", "Rfc4180": "false"}
    table = TableOverTime(folder, COLUMNS.insert(1, pa.field("note", pa.string())), {**item, **settings})
    table.load_file(LOAD, b"1,z,1.50\n")
    change(table, FIRST, 'I,2,"a\nb",1.00\nI,3,x,3.00\nI,4,"y",4444.00\nI,5,y,5.00\n')
    table.item.update({"Rfc4180": "true", "Schema": "id bigint, note string, price decimal(10,2)"})
    return table


@pytest.mark.parametrize("settings", [{"PrimaryKey": "id"}, {}, {"ColumnPolicy": "redact note"}])
def test_rows_of_a_file_that_is_split_otherwise_since_are_not_released(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    table = without_quoting(tmp_path, **settings)
    with pytest.raises(InputError, match=r"split into rows otherwise since .*row 1\).*rollback .* --to 1,"):
        release_files(table, FIRST)
    assert table.log.head() == 2


def test_rows_that_keep_their_numbers_are_released_after_another_split(table: TableOverTime) -> None:
    table.item["Rfc4180"] = "false"
    change(table, FIRST, 'I,"4",4444.00\nI,5,5.00\n"I",6,"6,5"\n')
    table.item.update({"Rfc4180": "true", "Schema": WIDE})
    assert quarantined(table)[0] == (2, FIRST, [0, 2])
    assert release_files(table, FIRST)["books"]["quarantined"] == 1  # 6,5 is no number: still bad
    assert prices(table) == {1: "1.50", 3: "3.50", 4: "4444.00", 5: "5.00"}


def test_an_old_file_of_a_folder_that_was_edited_to_the_same_size_is_known_as_edited(table: TableOverTime) -> None:
    table.limits = EngineLimits(ledger_segment_files=1)
    change(table, EDITED, QUARANTINED)
    for hour in (11, 12, 13):
        change(table, f"20240305-{hour}0000000.csv", "U,1,1.00\n")
    assert table.log.snapshot(table.log.head()).ledger.segments
    edit(table, "U,1,1111.00", "I,five,5.00", "I,4,4444.00", "U,3,3.25,6")
    with pytest.raises(InputError, match="is not evidently the quarantined row"):
        release_files(table, EDITED)


def versions_of(table: TableOverTime, key: int) -> list[tuple[Any, ...]]:
    """Operation, price and change of each version, and the hours after `START` when it begins and ends."""

    def hours(time: datetime | None) -> int | None:
        return None if time is None else (time - START) // timedelta(hours=1)

    rows = sorted((one for one in version_rows(table) if one["id"] == key), key=itemgetter("valid_from", "change_id"))
    return [
        (one["operation"], str(one["price"]), hours(one["valid_from"]), hours(one["valid_to"]), one["change_id"])
        for one in rows
    ]


def load_at(table: TableOverTime, hours: int, text: bytes) -> None:
    table.put(LOAD, text)
    table.set_modified(LOAD, START + timedelta(hours=hours))
    assert table.load_initial()["change"]


@pytest.mark.parametrize("changed_since", [False, True])
def test_a_released_row_of_a_reload_was_not_deleted_by_it(table: TableOverTime, *, changed_since: bool) -> None:
    load_at(table, -2, b"1,1.50\n4,3.50\n")
    load_at(table, -1, b"1,1.50\n4,3333.50\n")
    assert versions_of(table, 4)[-1] == ("delete", "3.50", -1, None, 3)
    if changed_since:
        change(table, FIRST, "U,4,4.00\n")
    table.item["Schema"] = WIDE
    release_files(table, LOAD)
    end, released = (0, 5) if changed_since else (None, 4)
    since = [("update", "4.00", 0, None, 4)] if changed_since else []
    assert versions_of(table, 4) == [
        ("insert", "3.50", -2, -1, 2),
        ("update", "3333.50", -1, end, released),
        *since,
    ]
    assert prices(table)[4] == ("4.00" if changed_since else "3333.50")
    assert table.load_incremental()["change"] is None


def test_a_released_row_of_the_full_load_is_valid_from_the_load(table: TableOverTime) -> None:
    load_at(table, -1, b"1,1.50\n2,2222.50\n4,3333.50\n")
    change(table, FIRST, "D,2,0.00\n")
    table.item["Schema"] = WIDE
    table.set_modified(LOAD, START + timedelta(hours=5))  # edited since, or copied
    release_files(table, LOAD)
    assert versions_of(table, 2) == [("insert", "2222.50", -1, 0, 4), ("delete", "2222.50", 0, None, 3)]
    assert versions_of(table, 4) == [("insert", "3333.50", -1, None, 4)]


@pytest.mark.parametrize("reloaded", [False, True])
def test_of_released_load_rows_with_one_key_the_last_is_in_table_and_history(
    table: TableOverTime, *, reloaded: bool
) -> None:
    load_at(table, -2, b"1,1.50\n4,4.50\n" if reloaded else b"1,1.50\n")
    load_at(table, -1, b"1,1.50\n4,1111.00\n4,2222.00\n")
    table.item["Schema"] = WIDE
    release_files(table, LOAD)
    assert prices(table)[4] == versions_of(table, 4)[-1][1] == "2222.00"


PARTIAL = {"PrimaryKey": "id", "MaxQuarantinedRows": "5", "Schema": "id bigint, note string, price decimal(4,2)"}


def partial_table(tmp_path: Path, rows: str) -> TableOverTime:
    """A table with the rows 1 and 2 whose first change file has these rows, with prices that are too wide."""
    columns = pa.schema([("id", pa.int64()), ("note", pa.string()), ("price", pa.decimal128(10, 2))])
    table = TableOverTime(tmp_path, columns, dict(PARTIAL))
    table.load_file(LOAD, b"id,note,price\n1,a,1.00\n2,b,2.00\n")
    change(table, FIRST, f"Op,id,note,price\n{rows}")
    return table


def widen_and_release(table: TableOverTime) -> dict[str, Any]:
    table.item["Schema"] = PARTIAL["Schema"].replace("(4,", "(10,")
    return release_files(table, FIRST)


@pytest.mark.parametrize("row", ["I,3,x,3333.00", "U,2,x,2222.00"])
def test_a_row_whose_values_a_later_change_did_not_send_is_not_released(tmp_path: Path, row: str) -> None:
    table = partial_table(tmp_path, f"{row}\n")
    change(table, SECOND, f"Op,id,note\nU,{row[2]},later\n")
    with pytest.raises(UnsentValueError, match=rf"did not send column price.*file {FIRST}, row 1"):
        widen_and_release(table)
    assert table.log.head() == 3


def test_a_row_is_released_if_the_changes_since_sent_its_values_or_left_no_row(tmp_path: Path) -> None:
    table = partial_table(tmp_path, "I,3,x,3333.00\nI,4,x,4444.00\nU,2,x,2222.00\nU,1,x,1111.00\n")
    change(table, SECOND, "Op,id,note,price\nU,3,y,3.00\nI,4,y,4.00\nD,4,y,4.00\nD,2,y,2.00\n")
    change(table, THIRD, "Op,id,note\nI,5,later\n")
    books = widen_and_release(table)["books"]
    assert (books["superseded"], books["updated"]) == (3, 1)
    assert prices(table) == {1: "1111.00", 3: "3.00", 5: "None"}


def test_values_that_were_sent_are_not_refused(tmp_path: Path) -> None:
    table = partial_table(tmp_path, "U,2,x,2222.00\n")
    change(table, SECOND, "Op,id,note,price\nU,2,later,2.50\n")
    assert widen_and_release(table)["books"]["superseded"] == 1
    assert prices(table)[2] == "2.50"


def test_a_null_that_may_mean_a_value_was_not_sent_is_refused(tmp_path: Path) -> None:
    table = partial_table(tmp_path, "I,3,x,3333.00\n")
    table.item["NullMeansUnsent"] = "price"
    change(table, SECOND, "Op,id,note,price\nU,3,later,\n")
    with pytest.raises(UnsentValueError, match="did not send column price"):
        widen_and_release(table)


def test_a_row_that_stayed_bad_in_a_release_is_not_released_later_either(tmp_path: Path) -> None:
    table = partial_table(tmp_path, "I,3,x,3333.00\n")
    change(table, SECOND, "Op,id,note\nU,3,later\n")
    assert release_files(table, FIRST)["books"]["quarantined"] == 1
    with pytest.raises(UnsentValueError, match="did not send column price"):
        widen_and_release(table)
