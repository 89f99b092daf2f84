"""Selecting a change and reading its files, without Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdclake.commit.publish import publish
from cdclake.errors import ConfigurationError, LakeFilesError, PastRetentionError
from cdclake.lake.read.as_of import RetainedFile, TableLocation, find_change, table_as_of
from cdclake.lake.read.dataframe import FileScan, scan_groups, table_rows
from cdclake.lake.read.retained_files import RetainedFileReader
from cdclake.lake.storage.shape import TableShape
from cdclake.model.retained import Retained
from cdclake.model.schema import parse_columns
from cdclake.model.snapshot import DataFile
from tests.builders import parquet_bytes
from tests.cdclake.lake.over_time import START, TABLE, TableOverTime, versioned_bucket
from tests.dying_store import Death, DiedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COLUMNS = pa.schema([("id", pa.int64()), ("n", pa.int32())])


def location_of(table: TableOverTime) -> TableLocation:
    return TableLocation.at(table.location, TABLE)


def ids(table: TableOverTime, change: int | None = None) -> list[int]:
    files = RetainedFileReader(location_of(table))
    kept = table_as_of(table.log, change).files
    return sorted(number for file in kept for rows in files.row_groups(file) for number in rows["id"].to_pylist())


def changed(root: Path) -> TableOverTime:
    """Rows 1 and 2 after change 1; 1, 2 and 3 after change 2; 1 and 3 after change 3."""
    table = TableOverTime(root, COLUMNS, {"PrimaryKey": "id"})
    table.load([{"id": 1, "n": 1}, {"id": 2, "n": 2}])
    table.apply(("I", {"id": 3, "n": 3}))
    table.apply(("D", {"id": 2, "n": 2}))
    return table


@pytest.fixture
def table(tmp_path: Path) -> TableOverTime:
    return changed(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> TableOverTime:
    """The same table for all tests that leave it as it is."""
    return changed(tmp_path_factory.mktemp("shared"))


def test_every_change_is_read(shared: TableOverTime) -> None:
    assert [ids(shared, change) for change in (1, 2, 3, None)] == [[1, 2], [1, 2, 3], [1, 3], [1, 3]]


def test_a_rollback_is_read_like_any_change(table: TableOverTime) -> None:
    assert table.roll_back(2) == 4
    assert [ids(table, change) for change in (1, 2, 3, 4, None)] == [[1, 2], [1, 2, 3], [1, 3], [1, 2, 3], [1, 2, 3]]


def test_a_time_selects_the_newest_change_committed_by_then(shared: TableOverTime) -> None:
    second = START + timedelta(hours=2)
    moments = (second - timedelta(seconds=1), second, second + timedelta(minutes=59), second + timedelta(days=900))
    assert [find_change(shared.log, at=moment) for moment in moments] == [1, 2, 2, 3]


@pytest.mark.parametrize(
    "text", ["2024-03-05T12:30:00Z", "2024-03-05 12:30", "2024-03-05T14:30:00+02:00", "2024-03-05T07:30-05:00"]
)
def test_a_time_without_a_zone_is_utc_and_others_are_converted(shared: TableOverTime, text: str) -> None:
    assert find_change(shared.log, at=text) == 2
    assert find_change(shared.log, at=datetime.fromisoformat(text)) == 2


def test_a_time_before_the_first_change_is_refused_with_its_time(shared: TableOverTime) -> None:
    with pytest.raises(ConfigurationError, match=r"had no changes yet at .* UTC\. Use 2024-03-05 11:00:00 UTC"):
        find_change(shared.log, at=START)


@pytest.mark.parametrize("change", [0, -1, 4])
def test_an_unknown_change_is_refused_with_the_valid_range(shared: TableOverTime, change: int) -> None:
    with pytest.raises(ConfigurationError, match=f"no change {change}. Use a number from 1 to 3"):
        find_change(shared.log, change)


def test_an_invalid_time_is_refused(shared: TableOverTime) -> None:
    with pytest.raises(ConfigurationError, match="'yesterday' is not a time"):
        find_change(shared.log, at="yesterday")


def test_a_change_and_a_time_together_are_refused(shared: TableOverTime) -> None:
    with pytest.raises(ConfigurationError, match="A change and a time were given"):
        find_change(shared.log, 1, START)


def test_a_table_without_changes_is_refused(shared: TableOverTime) -> None:
    with pytest.raises(ConfigurationError, match=r"no changes of shop\.nothing"):
        find_change(TableLocation.at(shared.location, "shop.nothing").log())


def test_a_change_past_retention_is_refused_with_the_first_retained_one(table: TableOverTime) -> None:
    table.log.mark_retained(Retained(1))
    for named in ({"change": 1}, {"at": START + timedelta(hours=1)}):
        with pytest.raises(PastRetentionError, match="Use change 2 or a later one"):
            table_as_of(table.log, **named)
    assert ids(table, 2) == [1, 2, 3]


def test_a_missing_retired_file_is_past_retention(table: TableOverTime) -> None:
    (retired,) = (table.lake / table.layout.control_prefix / "retired").rglob("*2-*.parquet")
    retired.unlink()
    with pytest.raises(PastRetentionError, match="no longer exists"):
        ids(table, 2)


def test_a_vanished_live_file_is_not_past_retention(table: TableOverTime) -> None:
    (table.folder / table.files()[0]).unlink()
    with pytest.raises(LakeFilesError, match="vanished"):
        ids(table)


def test_an_overwritten_file_is_not_read(table: TableOverTime) -> None:
    path = table.folder / table.files()[0]
    pq.write_table(pa.table({"id": [7], "n": [7]}), path)
    with pytest.raises(LakeFilesError, match="orders was overwritten"):
        ids(table)


def test_a_retired_file_is_copied_again_only_if_its_copy_is_missing_or_incomplete(table: TableOverTime) -> None:
    ids(table, 1)
    (copy,) = (table.lake / table.layout.as_of_folder).rglob("*.parquet")
    made = copy.stat().st_mtime_ns
    ids(table, 1)
    assert copy.stat().st_mtime_ns == made
    copy.write_bytes(b"half")
    assert ids(table, 1) == [1, 2]
    copy.unlink()  # as a clean-up does
    assert ids(table, 1) == [1, 2]


def test_a_committed_change_is_read_before_it_is_published(table: TableOverTime) -> None:
    calls = 1
    while table.log.head() == 3:  # let the run die ever later, until its change is committed
        table.death = Death(calls, False)
        with pytest.raises(DiedError):
            table.apply(("I", {"id": 4, "n": 4}))
        calls += 1
    assert not table.log.is_published(4)
    assert not any(path.startswith("000000000004") for path in table.files())
    assert ids(table) == [1, 3, 4]
    publish(table.log, table.log.record(4))
    assert ids(table) == [1, 3, 4]


def test_a_file_without_operation_and_position_counts_as_loaded() -> None:
    shape = TableShape(parse_columns("id bigint, day date, name string"), (), ("day",))
    rows = table_rows(pa.table({"ID": pa.array([1, 2], pa.int32())}), shape, (None,))
    assert rows.to_pylist() == [
        {"id": number, "day": None, "name": None, "Op": "I", "_cdc_position": ""} for number in (1, 2)
    ]
    assert rows.schema.types[:3] == [pa.int64(), pa.date32(), pa.string()]


def test_files_are_grouped_in_order_for_all_cores() -> None:
    def kept(size_bytes: int) -> FileScan:
        return FileScan(RetainedFile(DataFile(str(size_bytes), 1, size_bytes)), ())

    assert scan_groups([], 4) == []
    assert scan_groups([kept(1000)] * 9, 4) == [[kept(1000)] * 9]  # too small to be worth more tasks
    big = [kept((9 << 20) + i) for i in range(20)]
    groups = scan_groups(big, 4)
    assert [file for group in groups for file in group] == big
    assert len(groups) == 8
    assert len(scan_groups([kept(1 << 30)] * 40, 4)) == 40


@pytest.fixture
def lake_bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with versioned_bucket(monkeypatch, "lake"):
        yield "lake"


def test_a_file_retired_during_a_read_is_read_completely(tmp_path: Path, lake_bucket: str) -> None:
    table = TableOverTime(tmp_path, COLUMNS, {"PrimaryKey": "id"}, bucket=lake_bucket)
    table.load([{"id": 1, "n": 1}])
    # The same file with many row groups, as large tables have.
    (kept,) = table_as_of(table.log).files
    store, key = table.log.store, table.layout.data_key(kept.file.path)
    numbers = list(range(100_000))
    content = parquet_bytes(pa.table({"id": numbers}), row_group_size=10_000)
    store.put(key, content)
    kept = replace(kept, file=replace(kept.file, rows=len(numbers), bytes=len(content)))

    groups = RetainedFileReader(location_of(table)).row_groups(kept)
    first = next(groups)
    store.retire(key, table.layout.retired_key(kept.file.path))
    rest = list(groups)
    assert [number for rows in (first, *rest) for number in rows["id"].to_pylist()] == numbers
    assert store.get(table.layout.as_of_key(kept.file.path)) == content
