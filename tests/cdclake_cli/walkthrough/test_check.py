"""Every fault that is planted in tables of the walkthrough is found, and no other; sound tables are migrated."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from cdclake_cli.walkthrough.findings import Code
from tests.cdclake_cli.walkthrough.stand_in import DELETING, WRITING, Walkthrough

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CITIES = ("Ulm", "Bonn", "Rom", None)
TABLES = 20


def row(number: int, amount: int = 0) -> dict[str, Any]:
    return {"id": number, "city": CITIES[number % 4], "amount": amount}


def changes(draw: random.Random, first_new: int) -> list[tuple[str, dict[str, Any]]]:
    """Updates, deletes and inserts. Rows 0 to 9 are left alone."""
    keys = draw.sample(range(10, 60), 8)
    updates = [("U", row(number, draw.randrange(1, 10**6))) for number in keys[:5]]
    return [*updates, *(("D", row(number)) for number in keys[5:]), *(("I", row(first_new + n, n)) for n in range(3))]


def walkthrough(root: Path, number: int) -> Walkthrough:
    """A table whose jobs have loaded it, and applied two change files in two runs."""
    draw = random.Random(number)
    table = Walkthrough(root, f"t{number:02}", partition=number % 3 == 2)
    table.write_load(row(key) for key in range(60))
    table.load_initial()
    for first_new in (100, 200):
        table.write_changes(changes(draw, first_new))
        table.load_incremental()
    return table


def next_change(table: Walkthrough, number: int) -> None:
    table.write_changes(changes(random.Random(number + 1000), 300))


def half_written(table: Walkthrough, number: int) -> set[Code]:
    next_change(table, number)
    table.load_incremental(dies=WRITING)
    if table.partition:  # the files of other partitions are whole, so the rows in them are there twice
        return {Code.UNREADABLE_FILE, Code.LEFT_BEHIND_FILE}
    return {Code.UNREADABLE_FILE}


def left_behind(table: Walkthrough, number: int) -> set[Code]:
    next_change(table, number)
    table.load_incremental(dies=DELETING)
    return {Code.LEFT_BEHIND_FILE}


def duplicates_carried_on(table: Walkthrough, number: int) -> set[Code]:
    """The run after one that died joins the old and the new files, and keeps both rows of most keys."""
    next_change(table, number)
    table.load_incremental(dies=DELETING)
    table.load_incremental()
    table.write_changes([("U", row(1, 5))])
    return {Code.REPEATED_KEYS}


def late_file(table: Walkthrough, number: int) -> set[Code]:
    """The jobs read no file that sorts before the last one."""
    table.write_changes([("U", row(2, 77)), ("D", row(3)), ("I", row(500))], "20240301-000130000.parquet")
    next_change(table, number)
    return {Code.ROWS_DIFFER}


def changed_by_hand(table: Walkthrough, number: int) -> set[Code]:
    table.change_row(4, amount=-1)
    next_change(table, number)
    return {Code.ROWS_DIFFER}


def key_not_there(table: Walkthrough, number: int) -> set[Code]:
    table.item["PrimaryKey"] = "order_no"
    return {Code.KEY_NOT_IN_LAKE}


def bad_watermark(table: Walkthrough, number: int) -> set[Code]:
    table.item["LastIncrementalFile"] = f"{table.state.path}20241399-000000000.parquet"
    return {Code.WATERMARK}


def null_keys(table: Walkthrough, number: int) -> set[Code]:
    table.change_row(5, id=None)
    return {Code.NULL_KEYS}


def half_written_and_late(table: Walkthrough, number: int) -> set[Code]:
    (table.folder / "part-99999-6f1c.c000.snappy.parquet").write_bytes(b"PAR1")
    return {Code.UNREADABLE_FILE, *late_file(table, number)}


def sound(table: Walkthrough, number: int) -> set[Code]:
    next_change(table, number)
    (table.folder / "_temporary").mkdir()
    (table.folder / "_temporary" / "part-00000.parquet").write_bytes(b"PAR1")
    return set()


PLANTED = (
    *[sound] * 6,
    *[half_written] * 3,
    *[left_behind] * 3,
    *[duplicates_carried_on] * 2,
    *[late_file] * 2,
    key_not_there,
    changed_by_hand,
    null_keys,
    half_written_and_late,
)


@pytest.mark.sampled(quick=5)
@pytest.mark.parametrize("number", range(TABLES))
def test_each_planted_fault_is_found_and_no_other(tmp_path: Path, number: int) -> None:
    table = walkthrough(tmp_path, number)
    planted = PLANTED[number](table, number)
    before = sorted(path for path in tmp_path.rglob("*"))
    checked = table.table.check()
    assert {finding.code for finding in checked.findings} == planted, checked
    assert checked.is_sound is not bool(planted)
    assert checked.rows_compared or planted & {Code.KEY_NOT_IN_LAKE, Code.NULL_KEYS}
    assert sorted(path for path in tmp_path.rglob("*")) == before
    if checked.is_sound:
        assert checked.next_change == 1
        table.migrate()
        assert table.rows() == table.expected()


def test_there_is_a_kind_of_fault_for_each_table() -> None:
    assert len(PLANTED) == TABLES


def test_a_watermark_that_names_no_file_is_found(tmp_path: Path) -> None:
    table = walkthrough(tmp_path, 1)
    expected = bad_watermark(table, 1)
    assert {finding.code for finding in table.table.check().findings} == expected


def repair(table: Walkthrough) -> None:
    """Delete the files that findings say to delete."""
    for finding in table.table.check().findings:
        assert finding.code in (Code.LEFT_BEHIND_FILE, Code.UNREADABLE_FILE)
        for path in finding.files:
            (table.folder / path).unlink()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "number"), [(half_written, 6), (half_written, 8), (left_behind, 9), (left_behind, 11)]
)
def test_a_table_is_sound_without_the_files_that_a_dead_run_left(
    tmp_path: Path, plant: Callable[[Walkthrough, int], set[Code]], number: int
) -> None:
    table = walkthrough(tmp_path, number)
    plant(table, number)
    repair(table)
    assert table.table.check().is_sound
    table.migrate()
    assert table.rows() == table.expected()


def test_a_run_that_died_while_it_deleted_left_some_of_the_old_files(tmp_path: Path) -> None:
    table = Walkthrough(tmp_path, "t00")
    table.write_load(row(key) for key in range(60))
    table.load_initial(files=4)
    table.write_changes([("U", row(number, 9)) for number in range(8)])
    table.load_incremental(dies=DELETING)
    old = sorted(table.folder.glob("part-*"))[:4]
    for path in old[:2]:
        path.unlink()
    (first, second) = table.table.check().findings
    assert [first.files, second.files] == [(path.name,) for path in old[2:]]
    repair(table)
    table.migrate()
    assert table.rows() == table.expected()


def test_rows_that_differ_are_named_with_their_keys(tmp_path: Path) -> None:
    table = walkthrough(tmp_path, 1)
    changed_by_hand(table, 1)
    (finding,) = table.table.check().findings
    assert (finding.rows, "such as id 4" in finding.text, "(amount)" in finding.text) == (1, True, True)


def test_without_raw_files_rows_are_not_compared_and_the_check_says_so(tmp_path: Path) -> None:
    table = walkthrough(tmp_path, 1)
    for path in table.raw_folder.glob("LOAD*"):
        path.unlink()
    checked = table.table.check()
    assert (checked.is_sound, checked.rows_compared) == (True, False)
    assert any("LOAD files are gone" in note for note in checked.notes)
    assert not table.table.check(rebuilds=False).rows_compared


def test_a_table_without_a_key_or_files_is_told_so(tmp_path: Path) -> None:
    table = walkthrough(tmp_path, 1)
    table.item["PrimaryKey"] = "null"
    assert any("No PrimaryKey" in note for note in table.table.check().notes)
    empty = Walkthrough(tmp_path, "t99")
    checked = empty.table.check()
    assert (checked.is_sound, checked.findings) == (False, ())


def test_what_the_adoption_would_refuse_is_a_finding(tmp_path: Path) -> None:
    table = walkthrough(tmp_path, 1)
    table.change_row(4, Op="D")
    (finding,) = table.table.check().findings
    assert (finding.code, "Op other than I and U" in finding.text) == (Code.NOT_ADOPTABLE, True)


def test_a_next_change_that_the_old_files_cannot_order_is_a_finding(tmp_path: Path) -> None:
    """The files do not tell the order of their rows, so a change that is older than a row would be applied."""
    table = Walkthrough(tmp_path, "t00", item={"OrderColumn": "amount"})
    table.write_load(row(key) for key in range(20))
    table.load_initial()
    table.write_changes([("U", row(1, 500))])
    table.load_incremental()
    table.write_changes([("U", row(1, 5))])
    (finding,) = table.table.check().findings
    assert (finding.code, finding.rows, "such as id 1" in finding.text) == (Code.NEXT_CHANGE_DIFFERS, 1, True)
