"""Bad rows are read page by page, and listed for as long as the table lacks them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from cdclake.commit.quarantine import changes_with_bad_rows, parse_bad_rows, quarantined_files, read_bad_rows
from cdclake.model.change.record import ChangeKind, RawFileRows
from cdclake_devkit.memory import ManualClock, MemoryStore
from tests.builders import LAYOUT, LakeBuilder

if TYPE_CHECKING:
    from cdclake.model.change.record import ChangeRecord


@pytest.fixture
def lake() -> LakeBuilder:
    lake = LakeBuilder(MemoryStore(), ManualClock())
    lake.change()
    lake.change(bad_rows=b"{}")
    lake.change(bad_rows=b"{}")
    return lake


def bad_row(file: str, row: int) -> dict[str, Any]:
    return {"file": file, "row": row, "reason": "bad", "columns": [], "content": "x"}


def with_bad_rows(lake: LakeBuilder, *files: int) -> ChangeRecord:
    """The last change, with these numbers of bad rows in its quarantine files."""
    keys = [f"{LAYOUT.quarantine_prefix(3, 'run-3')}{number}.jsonl" for number in range(len(files))]
    for key, rows in zip(keys, files):
        lake.store.put(key, "".join(json.dumps(bad_row(key, row)) + "\n" for row in range(rows)).encode())
    return replace(lake.log.record(3), quarantine=tuple(keys))


def test_changes_with_bad_rows_are_listed_newest_first_without_uncommitted_ones(lake: LakeBuilder) -> None:
    lake.stage(run_id="crashed", bad_rows=b"{}")
    assert changes_with_bad_rows(lake.log, lake.log.head()) == [3, 2]


def test_listing_quarantined_files_does_not_read_older_changes(lake: LakeBuilder) -> None:
    for number in (2, 3):
        (key,) = lake.log.record(number).quarantine
        lake.store.put(key, json.dumps(bad_row(f"{number}.csv", 1)).encode())
    lake.store.delete([LAYOUT.change_key(1)])
    assert [one.raw_file for one in quarantined_files(lake.log, 3)] == ["3.csv", "2.csv"]
    assert [one.raw_file for one in quarantined_files(lake.log, 3, 2)] == ["2.csv"]


def test_a_table_without_quarantined_rows_costs_no_read_of_changes() -> None:
    lake = LakeBuilder(MemoryStore(), ManualClock())
    lake.change()
    lake.store.delete([LAYOUT.change_key(1)])
    assert quarantined_files(lake.log, 1) == []


def test_pages_contain_all_rows_in_file_order(lake: LakeBuilder) -> None:
    record = with_bad_rows(lake, 3, 0, 4)
    pages = [read_bad_rows(lake.log, record, skip, 3) for skip in (0, 3, 6, 9)]
    assert [[row["row"] for row in page.rows] for page in pages] == [[0, 1, 2], [0, 1, 2], [3], []]
    assert [page.more for page in pages] == [True, True, False, False]
    assert not any(page.not_read for page in pages)


def test_files_that_are_too_large_or_missing_are_named_and_the_others_are_read(lake: LakeBuilder) -> None:
    record = with_bad_rows(lake, 2, 500, 1)
    lake.store.delete([record.quarantine[0]])
    page = read_bad_rows(lake.log, record, 0, 10, max_file_bytes=1000)
    assert [row["file"] for row in page.rows] == [record.quarantine[2]]
    assert page.not_read == record.quarantine[:2]


def test_a_damaged_line_counts_as_a_row_of_its_file(lake: LakeBuilder) -> None:
    record = with_bad_rows(lake, 2)
    (key,) = record.quarantine
    lake.store.put(key, (lake.store.get(key) or b"")[:-4])
    first, second = read_bad_rows(lake.log, record, 0, 10).rows
    assert (first["row"], first["file"], first["content"]) == (0, key, "x")
    assert (second["row"], second["file"], second["reason"]) == (None, key, "a damaged line in the quarantine")


@pytest.mark.parametrize(
    ("changed", "is_row"),
    [
        ({}, True),
        ({"content": {"id": "1", "name": None}}, True),
        ({"content": {"id": 1}}, False),
        ({"columns": "id"}, False),
        ({"columns": [1]}, False),
        ({"row": "1"}, False),
        ({"file": None}, False),
    ],
)
def test_a_line_that_is_no_bad_row_is_shown_as_damaged(changed: dict[str, Any], *, is_row: bool) -> None:
    line = json.dumps({**bad_row("a.csv", 1), **changed})
    (row,) = parse_bad_rows(line.encode(), "key")
    assert (row["reason"] == "bad") is is_row
    assert is_row or (row["file"], row["row"], row["content"]) == ("key", None, line)


def test_rows_of_a_released_file_are_no_longer_listed() -> None:
    lake = LakeBuilder(MemoryStore(), ManualClock())
    for name in ("a.csv", "b.csv"):
        lake.change(bad_rows=json.dumps(bad_row(name, 1)).encode())
    assert [file.raw_file for file in quarantined_files(lake.log, 2)] == ["b.csv", "a.csv"]
    lake.change(kind=ChangeKind.RELEASE, raw_files=(RawFileRows("b.csv", 10, 0),))
    assert [file.raw_file for file in quarantined_files(lake.log, 3)] == ["a.csv"]
