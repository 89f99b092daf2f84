"""Segments of a ledger are kept as long as a change needs them, and deleted then."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from cdclake.commit.clean_up import has_leftovers
from cdclake.commit.ledger import recorded
from cdclake.lake.limits import EngineLimits
from cdclake.raw_listing import list_raw_files
from tests.cdclake.lake.operations.erase.erasable_table import ErasableTable

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> ErasableTable:
    """A table with six changes and no more than two files in its snapshot."""
    table = ErasableTable(tmp_path, COLUMNS, {"PrimaryKey": "id", "LateWindowHours": "1000"})
    table.limits = EngineLimits(ledger_segment_files=1)
    table.load([{"id": 1, "name": "loaded"}])
    for number in range(2, 8):
        table.apply(("I", {"id": number, "name": f"row {number}"}))
    return table


def stored(table: ErasableTable) -> set[str]:
    return {entry.key for entry in table.log.store.list(table.layout.ledger_folder)}


def needed(table: ErasableTable) -> set[str]:
    log = table.log
    retained = range(log.retained().first, log.head() + 1)
    return {segment.key for change in retained for segment in log.snapshot(change).ledger.segments}


def test_a_clean_up_deletes_the_segments_that_no_retained_change_needs(table: ErasableTable) -> None:
    late = table.raw_path("20240305-095930000.parquet")
    table.write_changes(late.name, [("I", {"id": 9, "name": "late"})])
    for number in (10, 11, 12):  # the late file joins the first segment, so there is another one of its range
        table.load_incremental()
        table.apply(("I", {"id": number, "name": "more"}))
    before = stored(table)
    assert needed(table) == before
    table.clean_up(timedelta(hours=1))
    assert needed(table) <= stored(table) < before
    table.clean_up(timedelta())
    assert stored(table) == needed(table)
    assert table.load_incremental()["change"] is None


def test_after_a_rollback_only_undone_files_are_applied_again(table: ErasableTable) -> None:
    table.roll_back(4)
    assert table.log.snapshot(8).ledger == table.log.snapshot(4).ledger
    assert len(table.load_incremental()["books"]) > 0
    assert len(table.log.record(9).raw_files) == 3
    assert table.live("name")[7] == "row 7"
    assert stored(table) >= needed(table)


def test_a_segment_of_a_change_that_is_not_committed_is_a_leftover(table: ErasableTable) -> None:
    head = table.log.head()
    assert not has_leftovers(table.log, head)
    table.log.store.put(table.layout.ledger_key(head + 1, "dead", 1), b"")
    assert has_leftovers(table.log, head)
    table.clean_up(timedelta(days=1))
    assert not has_leftovers(table.log, head)


def test_an_erasure_keeps_files_in_segments_known(table: ErasableTable) -> None:
    assert table.erase("3", raw=True).change
    assert stored(table) == needed(table)
    assert table.load_incremental()["change"] is None
    lake = table.log.snapshot(table.log.head())
    assert [name for name, entry in lake.ledger.recent.items() if not entry.identity] == ["20240305-100200000.parquet"]
    assert table.apply(("I", {"id": 20, "name": "new"}))
    lake = table.log.snapshot(table.log.head())
    assert all(entry.identity for entry in lake.ledger.recent.values())
    assert replace(lake.ledger, recent={}).segments


@pytest.mark.parametrize("files", [1, 1000])
def test_after_a_rollback_of_an_erasure_its_rewritten_files_do_not_count_as_overwritten(
    table: ErasableTable, files: int
) -> None:
    table.limits = EngineLimits(ledger_segment_files=files)
    table.apply(("I", {"id": 20, "name": "of two"}), ("I", {"id": 21, "name": "rows"}))
    for number in range(22, 26):
        table.apply(("I", {"id": number, "name": "newer"}))
    assert table.erase("20", raw=True).change
    table.roll_back(to=11)
    run, lake = table.run(), table.log.snapshot(table.log.head())
    seen = recorded(table.log, lake.ledger, list_raw_files(run.raw, run.raw_prefix, run.settings).changes)
    assert (seen.overwritten, seen.unidentified) == (frozenset(), {"20240305-100700000.parquet"})
    assert table.load_incremental()["raw_files"] == 1
    assert sorted(table.live("name")) == [*range(1, 8), *range(21, 26)]
