"""Updates that change keys: rows that take each other's keys survive, and what cannot be decided is refused."""

from __future__ import annotations

import math
from contextlib import nullcontext, suppress
from datetime import datetime, timedelta, timezone
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.errors import UnsettledKeyError
from cdclake_devkit.replicate.batch import change_sequence
from tests.cdclake.lake.scd2.versions import check_newest_are_the_table, versions
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Change = tuple[str, int, "str | None", "int | None"]

PERSONS = pa.schema([("id", pa.int64()), ("name", pa.string())])
SHIFT = [("U", 2, "a", 1), ("U", 3, "b", 2), ("U", 4, "c", 3)]
LOADED = {1: "a", 2: "b", 3: "c"}
FIRST, SECOND, THIRD = (f"20240305-1{hour}1500000.parquet" for hour in range(3))
LATER_UTC = datetime(2024, 3, 6, 12, tzinfo=timezone.utc)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path, PERSONS, {"PrimaryKey": "id"})


def insert(table: Table, rows: dict[int, str]) -> None:
    apply(table, "20240305-080000000.parquet", [("I", key, name, None) for key, name in rows.items()])


def load(table: Table, rows: dict[int, str]) -> None:
    table.load([{"id": key, "name": name} for key, name in rows.items()])


def write(table: Table, relative: str, rows: Sequence[Change]) -> None:
    """Write change rows: operation, key, name, and the key before the update."""
    table.write_changes(
        relative, [(op, {"id": key, "name": name}, {"id": old} if old else None) for op, key, name, old in rows]
    )


def apply(table: Table, relative: str, rows: Sequence[Change]) -> dict[int, Any]:
    write(table, relative, rows)
    table.load_incremental()
    return table.live("name")


@pytest.mark.parametrize("mode", ["hard", "soft"])
@pytest.mark.parametrize("loaded", [LOADED, dict.fromkeys(LOADED, "same")])
def test_a_statement_that_shifts_keys_keeps_every_row(table: Table, mode: str, loaded: dict[int, str]) -> None:
    table.item["DeleteMode"] = mode
    insert(table, loaded)
    rows = [(op, key, loaded[old], old) for op, key, _, old in SHIFT]
    assert apply(table, FIRST, rows) == {key + 1: name for key, name in loaded.items()}
    assert apply(table, SECOND, [("U", 2, "aa", 2), ("D", 3, None, None), ("I", 1, "new", None)]) == {
        1: "new",
        2: "aa",
        4: loaded[3],
    }


STATEMENTS: dict[str, tuple[list[Change], dict[int, str]]] = {
    "a swap": ([("U", 2, "a", 1), ("U", 1, "b", 2)], {1: "b", 2: "a", 3: "c"}),
    "a cycle": ([*SHIFT[:2], ("U", 1, "c", 3)], {1: "c", 2: "a", 3: "b"}),
    "two shifts": ([*SHIFT, ("U", 3, "a", 2), ("U", 4, "b", 3), ("U", 5, "c", 4)], {3: "a", 4: "b", 5: "c"}),
    "the row that makes place is deleted": ([SHIFT[0], ("D", 2, "b", None)], {2: "a", 3: "c"}),
    "a row moves twice": ([("U", 5, "a", 1), ("U", 6, "a", 5)], {2: "b", 3: "c", 6: "a"}),
    "a row moves and is deleted": ([("U", 7, "a", 1), ("D", 7, "a", None)], {2: "b", 3: "c"}),
}


@pytest.mark.parametrize("statements", STATEMENTS)
def test_rows_that_move_to_other_keys_in_one_change_are_kept(table: Table, statements: str) -> None:
    insert(table, LOADED)
    rows, expected = STATEMENTS[statements]
    assert apply(table, FIRST, rows) == expected


def test_keys_shift_in_rows_that_the_same_change_inserts(table: Table) -> None:
    inserts = [("I", key, name, None) for key, name in LOADED.items()]
    assert apply(table, FIRST, [*inserts, *SHIFT]) == {2: "a", 3: "b", 4: "c"}


def test_a_shift_is_refused_until_the_rest_of_the_statement_arrives(table: Table) -> None:
    insert(table, LOADED)
    with pytest.raises(UnsettledKeyError) as caught:
        apply(table, FIRST, SHIFT[:1])
    assert caught.value.details == {"file": FIRST, "row": 1}
    assert table.live("name") == LOADED
    assert apply(table, SECOND, SHIFT[1:]) == {2: "a", 3: "b", 4: "c"}


def test_a_statement_longer_than_one_change_is_applied_in_one(table: Table) -> None:
    table.item["MaxFilesPerRun"] = "1"
    insert(table, LOADED)
    write(table, FIRST, SHIFT[:1])
    write(table, SECOND, SHIFT[1:])
    assert table.load_incremental(new=FIRST)["raw_files"] == 2
    assert table.live("name") == {2: "a", 3: "b", 4: "c"}


def test_an_update_of_a_key_that_two_rows_have_is_refused(table: Table) -> None:
    insert(table, LOADED)
    with pytest.raises(UnsettledKeyError, match="two rows"):
        apply(table, FIRST, [SHIFT[0], ("U", 2, "?", 2), *SHIFT[1:]])


def test_two_rows_that_move_to_one_key_are_refused(table: Table) -> None:
    insert(table, LOADED)
    with pytest.raises(UnsettledKeyError, match="two rows"):
        apply(table, FIRST, [("U", 2, "a", 1), ("U", 2, "c", 3), ("U", 9, "b", 2), ("U", 8, "a", 2)])


def test_a_delete_that_arrives_late_settles_a_key(table: Table) -> None:
    insert(table, LOADED)
    with pytest.raises(UnsettledKeyError):
        apply(table, SECOND, SHIFT[:1])
    assert apply(table, FIRST, [("D", 2, "b", None)]) == {2: "a", 3: "c"}


def test_a_late_delete_that_contradicts_a_shift_is_refused(table: Table) -> None:
    insert(table, {1: "a", 2: "b"})
    assert apply(table, SECOND, [("U", 2, "a", 1), ("U", 7, "a", 2)]) == {2: "a", 7: "a"}
    with pytest.raises(UnsettledKeyError, match="late"):
        apply(table, FIRST, [("D", 2, "b", None)])


@pytest.mark.parametrize("cut", [[SHIFT[:2]], [SHIFT[:1], SHIFT[1:2]]])
def test_a_late_insert_that_contradicts_a_moved_row_is_refused(table: Table, cut: list[Any]) -> None:
    insert(table, {1: "a"})
    for relative, rows in zip([SECOND, THIRD], cut, strict=False):
        apply(table, relative, rows)
    with pytest.raises(UnsettledKeyError, match="late"):
        apply(table, FIRST, [("I", 2, "b", None)])


def test_a_late_move_to_a_key_that_is_deleted_since_is_refused(table: Table) -> None:
    insert(table, LOADED)
    assert apply(table, SECOND, SHIFT[1:]) == {1: "a", 3: "b", 4: "c"}
    with pytest.raises(UnsettledKeyError, match="late"):
        apply(table, FIRST, SHIFT[:1])


def test_a_full_load_that_contains_the_moved_row_already_changes_nothing(table: Table) -> None:
    load(table, {2: "b", 4: "a"})
    assert apply(table, FIRST, [("U", 4, "a", 1)]) == {2: "b", 4: "a"}
    assert apply(table, SECOND, [("U", 5, "a", 4)]) == {2: "b", 5: "a"}


def test_a_full_load_read_between_two_moves_of_a_row_is_refused(table: Table) -> None:
    load(table, {4: "a"})
    with pytest.raises(UnsettledKeyError, match="row of the full load"):
        apply(table, FIRST, [("U", 4, "a", 1), ("U", 5, "a", 4)])


@pytest.mark.parametrize("arrivals", [[FIRST, THIRD, SECOND], [FIRST, SECOND, THIRD]])
def test_a_full_load_that_contains_a_moved_row_with_other_values_is_refused(table: Table, arrivals: list[str]) -> None:
    """Before: 5. In the full load: insert 1; update its key to 2; update both. Then both are deleted."""
    load(table, {5: "new", 2: "new"})
    files: dict[str, list[Change]] = {
        FIRST: [("I", 1, "a", None), ("U", 2, "a", 1)],
        SECOND: [("U", 5, "new", 5), ("U", 2, "new", 2)],
        THIRD: [("D", 5, None, None), ("D", 2, None, None)],
    }
    for relative in arrivals:
        write(table, relative, files[relative])
        with pytest.raises(UnsettledKeyError):
            table.load_incremental()
    assert table.live("name") == {5: "new", 2: "new"}


def sequenced(rows: Sequence[Change]) -> list[tuple[str, dict[str, Any], dict[str, Any] | None]]:
    """Change rows with change sequences of `LATER_UTC`, as `Table.write_changes` takes them."""
    sequences = (change_sequence(LATER_UTC, number) for number in range(len(rows)))
    return [
        (op, {"id": key, "name": name, "AR_H_CHANGE_SEQ": sequence}, {"id": old} if old else None)
        for sequence, (op, key, name, old) in zip(sequences, rows, strict=False)
    ]


def load_before(table: Table, before: timedelta) -> None:
    """Load the table some time before `LATER_UTC`."""
    table.write_load([{"id": key, "name": name} for key, name in LOADED.items()])
    table.set_modified("LOAD00000001.parquet", LATER_UTC - before)
    table.load_initial()


@pytest.mark.parametrize("hours", [23, 25])
def test_rows_of_the_full_load_shift_if_sequences_are_a_day_later(table: Table, hours: int) -> None:
    load_before(table, timedelta(hours=hours))
    table.columns = pa.schema([*PERSONS, ("AR_H_CHANGE_SEQ", pa.string())])
    table.write_changes("20240306-121500000.parquet", sequenced(SHIFT))
    with pytest.raises(UnsettledKeyError, match="row of the full load") if hours < 24 else nullcontext():
        table.load_incremental()
    assert table.live("name") == (LOADED if hours < 24 else {2: "a", 3: "b", 4: "c"})


def test_rows_delivered_again_with_their_sequences_change_nothing(table: Table) -> None:
    table.columns = pa.schema([*PERSONS, ("AR_H_CHANGE_SEQ", pa.string())])
    rows = sequenced([*SHIFT, ("U", 9, "c", 4), ("D", 9, "c", None)])
    load_before(table, timedelta(days=2))
    table.apply_file(FIRST, rows)
    for number, part in enumerate((rows, rows[1:], rows[:1], rows[:3], rows[2:])):
        table.apply_file(f"20240305-1{number + 1}1500000.parquet", part)
        assert table.live("name") == {2: "a", 3: "b"}
    for part in (rows, rows):
        number += 1
        table.write_changes(f"20240305-1{number + 1}1500000.parquet", part)
    table.load_incremental()
    assert table.live("name") == {2: "a", 3: "b"}


def test_the_delete_of_the_older_row_delivered_again_does_not_delete_the_row_that_arrived(table: Table) -> None:
    table.item["History"] = "true"
    table.columns = pa.schema([*PERSONS, ("AR_H_CHANGE_SEQ", pa.string())])
    rows = sequenced([("I", 1, "a", None), ("I", 2, "b", None), ("U", 2, "a", 1), ("D", 2, "b", None)])
    for hour, part in enumerate((rows, rows[3:], rows[1:], rows), 1):
        table.apply_file(f"20240305-1{hour}1500000.parquet", part)
        assert table.live("name") == {2: "a"}
        found = [(one.row["name"], one.operation) for one in versions(table, ("id",)) if one.row["id"] == 2]
        assert found == [("b", "insert"), ("a", "update"), ("a", "update")]


def test_a_shift_delivered_again_without_sequences_is_refused(table: Table) -> None:
    insert(table, LOADED)
    apply(table, FIRST, SHIFT)
    with pytest.raises(UnsettledKeyError):
        apply(table, SECOND, SHIFT)
    assert table.live("name") == {2: "a", 3: "b", 4: "c"}


def test_a_move_delivered_again_without_sequences_does_not_bring_a_row_back(table: Table) -> None:
    insert(table, {1: "a"})
    apply(table, FIRST, [("U", 2, "a", 1)])
    with pytest.raises(UnsettledKeyError, match="old key"):
        apply(table, SECOND, [("U", 2, "a", 1), ("U", 7, "a", 2)])


@pytest.mark.parametrize("files", [1, 3])
def test_the_history_keeps_the_row_that_arrives_at_a_key_in_use(table: Table, files: int) -> None:
    table.item["History"] = "true"
    insert(table, LOADED)
    rows = [*SHIFT, ("D", 2, "a", None)]
    for relative, part in zip(
        [FIRST, SECOND, THIRD], [rows] if files == 1 else [rows[:2], rows[2:3], rows[3:]], strict=False
    ):
        write(table, relative, part)
        with suppress(UnsettledKeyError):
            table.load_incremental()
    assert table.live("name") == {3: "b", 4: "c"}
    check_newest_are_the_table(table, ("id",))
    told = [(one.row["id"], one.row["name"], one.operation) for one in versions(table, ("id",), (1,))]
    assert told == [
        (1, "a", "insert"),
        (1, "a", "delete"),
        (2, "b", "insert"),
        (2, "a", "update"),
        (2, "a", "update"),
        (2, "a", "delete"),
        (3, "c", "insert"),
        (3, "b", "update"),
        (3, "b", "update"),
        (4, "c", "insert"),
    ]


@pytest.mark.parametrize("checks", ["immediate", "deferred"])
def test_an_update_of_a_row_whose_key_is_not_a_number_does_not_change_the_key(tmp_path: Path, checks: str) -> None:
    columns = pa.schema([("id", pa.float64()), ("name", pa.string())])
    table = Table(tmp_path, columns, {"PrimaryKey": "id", "UniqueChecks": checks})
    table.load([{"id": math.nan, "name": "a"}])
    table.apply_file(FIRST, [("U", {"id": math.nan, "name": "b"}, {"id": math.nan})])
    assert [one.row["name"] for one in table.rows()] == ["b"]


class TestImmediateChecks:
    """A source that checks each row never has two rows with one key: what looks like it is late or in the full load."""

    @pytest.fixture
    def table(self, table: Table) -> Table:
        table.item |= {"UniqueChecks": "immediate", "History": "true"}
        return table

    def test_a_row_moves_to_a_key_that_the_full_load_contains_already(self, table: Table) -> None:
        load(table, {2: "new"})
        assert apply(table, FIRST, [("I", 1, "a", None), ("U", 2, "a", 1)]) == {2: "a"}
        assert apply(table, SECOND, [("U", 2, "new", 2)]) == {2: "new"}
        check_newest_are_the_table(table, ("id",))

    def test_a_row_that_moved_and_was_deleted_stays_deleted_if_a_file_between_is_late(self, table: Table) -> None:
        load(table, {5: "b", 2: "loaded"})
        apply(table, FIRST, [("I", 1, "a", None), ("U", 2, "a", 1)])
        assert apply(table, THIRD, [("D", 5, None, None), ("D", 2, None, None)]) == {}
        assert apply(table, SECOND, [("U", 5, "bb", 5), ("U", 2, "aa", 2)]) == {}
        check_newest_are_the_table(table, ("id",))

    @pytest.mark.slow
    def test_files_in_any_order_give_the_same_rows(self, tmp_path: Path) -> None:
        files: dict[str, list[Change]] = {
            FIRST: [("D", 2, None, None), ("U", 2, "a", 1)],
            SECOND: [("U", 9, "a", 2), ("I", 2, "x", None)],
            THIRD: [("U", 1, "x", 2), ("U", 2, "a", 9)],
        }
        for number, order in enumerate(permutations(files)):
            (tmp_path / str(number)).mkdir()
            table = Table(tmp_path / str(number), PERSONS, {"PrimaryKey": "id", "UniqueChecks": "immediate"})
            load(table, LOADED)
            for relative in order:
                rows = apply(table, relative, files[relative])
            assert rows == {1: "x", 2: "a", 3: "c"}, order
            assert rows == apply(table, "20240305-200000000.parquet", [("U", 3, "c", 3)])


def test_the_error_names_the_setting_for_sources_that_check_each_row(table: Table) -> None:
    insert(table, LOADED)
    with pytest.raises(UnsettledKeyError) as caught:
        apply(table, FIRST, SHIFT[:1])
    assert "UniqueChecks to immediate" in caught.value.remedy
    table.item["UniqueChecks"] = "immediate"
    table.load_incremental()
    assert table.live("name") == {2: "a", 3: "c"}
