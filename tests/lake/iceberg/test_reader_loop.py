"""A reader that counts in a loop, while changes, rollbacks and clean-ups happen, always counts right."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.commit.clean_up import clean_up, plan_clean_up
from tests.lake.iceberg.readers import IcebergReaders, connection
from tests.lake.over_time import TableOverTime

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow
COLUMNS = pa.schema([("id", pa.int64()), ("city", pa.string()), ("n", pa.int32())])
ROWS, CHANGES = 200, 25


def row(number: int, n: int) -> dict[str, Any]:
    return {"id": number, "city": str(number % 10), "n": n}


def test_a_reader_counts_right_while_the_table_changes(tmp_path: Path) -> None:
    """Each change replaces one row and updates others in all ten partitions, so there are always as many rows."""
    item = {"PrimaryKey": "id", "PartitionKey": "city", "Readers": "iceberg"}
    table = TableOverTime(tmp_path, COLUMNS, item)
    table.load([row(number, 0) for number in range(ROWS)])
    folder = IcebergReaders(table.lake, table.layout).folder
    found: list[tuple[int, int]] = []
    errors: list[Exception] = []
    done = threading.Event()

    def count() -> None:
        cursor = connection().cursor()
        query = f"SELECT count(*), count(DISTINCT id) FROM iceberg_scan('{folder}')"
        while not done.is_set():
            try:
                (result,) = cursor.execute(query).fetchall()
            except Exception as error:  # noqa: BLE001 - each is a finding
                errors.append(error)
            else:
                found.append(result)

    reader = threading.Thread(target=count)
    reader.start()
    try:
        for change in range(CHANGES):
            updates = [("U", row(number, change)) for number in range(1 + change, 60 + change)]
            table.apply(("D", row(change, 0)), ("I", row(ROWS + change, change)), *updates)
            if change % 5 == 4:
                table.roll_back(table.log.head() - 1)
                for undone in table.raw_path("").glob("2024*.parquet"):
                    undone.unlink()
            clean_up(table.log, plan_clean_up(table.log, timedelta(hours=2), table.next_time()))
    finally:
        done.set()
        reader.join()
    assert not errors
    assert len(found) >= CHANGES
    assert set(found) == {(ROWS, ROWS)}
