"""A reload from old LOAD files needs the change files that were applied since."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.errors import RawFilesLostError
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string())])
LOADED = datetime(2024, 1, 5, tzinfo=timezone.utc)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table with a full load, and ten changes in the three months after it, each applied by its own run."""
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "id"})
    table.load([row(0)], LOADED)
    for number in range(1, 11):
        table.write_changes(name_of(number), [("I", row(number))])
        table.set_modified(name_of(number), LOADED + timedelta(days=9 * number))
        table.load_incremental()
    return table


def row(number: int) -> dict[str, Any]:
    return {"id": number, "name": "a"}


def name_of(number: int) -> str:
    return f"{LOADED + timedelta(days=9 * number):%Y%m%d-%H%M%S}000.parquet"


def reload(table: Table, **settings: str) -> int:
    """Reload the table as after its date was reset; returns its number of rows."""
    table.item |= settings
    table.load_again()
    table.load_incremental()
    return len(table.rows())


def test_a_reload_with_all_change_files_restores_the_table(table: Table) -> None:
    assert reload(table) == 11


@pytest.mark.parametrize("gone", [[1, 2, 3], [10], list(range(1, 11)), [5]])
def test_a_reload_after_applied_change_files_are_gone_is_refused(table: Table, gone: list[int]) -> None:
    for number in gone:
        table.raw_path(name_of(number)).unlink()
    table.load_incremental()  # a run that sees it, and has nothing to do
    with pytest.raises(RawFilesLostError, match="2024-01-05") as caught:
        reload(table)
    assert name_of(gone[0]) in caught.value.message
    assert name_of(gone[-1]) in caught.value.message
    assert "LastFullLoadDate=2024-01-05 00:00:00" in caught.value.remedy
    change = str(table.log.head())
    assert f"AcceptLostChanges={change}'" in caught.value.remedy
    assert len(table.rows()) == 11
    assert reload(table, AcceptLostChanges=change) == 11 - len(gone)


def test_the_date_that_keeps_the_table_covers_a_load_file_that_came_late(table: Table) -> None:
    table.raw_path(name_of(1)).unlink()
    table.load_incremental()
    table.write_load([row(20)], number=2)
    table.set_modified("LOAD00000002.parquet", LOADED + timedelta(days=100))
    with pytest.raises(RawFilesLostError) as caught:
        table.load_initial()
    assert "To keep the table as it is: " in caught.value.remedy
    assert "'LastFullLoadDate=2024-04-14 00:00:00'" in caught.value.remedy


def test_a_new_full_load_needs_no_applied_change_files(table: Table) -> None:
    for number in range(1, 11):
        table.raw_path(name_of(number)).unlink()
    table.load([row(number) for number in range(5)], LOADED + timedelta(days=100))
    assert len(table.rows()) == 5


def test_change_files_that_the_full_load_contains_may_be_gone(tmp_path: Path) -> None:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "id"})
    table.write_changes(name_of(1), [("I", row(1))])
    table.load([row(0), row(1)], LOADED + timedelta(days=20))
    table.load_incremental()
    table.raw_path(name_of(1)).unlink()
    assert reload(table) == 2


def test_what_an_operator_accepted_does_not_cover_later_losses(table: Table) -> None:
    table.raw_path(name_of(3)).unlink()
    accepted = str(table.log.head())
    assert reload(table, AcceptLostChanges=accepted) == 10
    table.raw_path(name_of(4)).unlink()
    with pytest.raises(RawFilesLostError):
        reload(table, AcceptLostChanges=accepted)
    table.write_changes(name_of(4), [("I", row(4))])
    table.apply_file(name_of(11), [("I", row(11))])
    table.raw_path(name_of(11)).unlink()
    with pytest.raises(RawFilesLostError):
        reload(table)
