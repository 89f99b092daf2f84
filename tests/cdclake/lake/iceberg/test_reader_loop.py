"""Readers that count in a loop, while changes, rollbacks and clean-ups happen, never count wrong."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.cdclake.lake.iceberg.readers import IcebergReaders, connection
from tests.cdclake.lake.over_time import TableOverTime
from tests.conftest import COUNTS
from tests.tiers import TIER, Tier

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
COLUMNS = pa.schema([("id", pa.int64()), ("city", pa.string()), ("n", pa.int32())])
ROWS, CHANGES = 200, 10
REQUIRED_COUNTS = 10_000 if TIER is Tier.THOROUGH else 100
"""The table changes until the readers have counted so often, and at least `CHANGES` times."""


def row(number: int, n: int) -> dict[str, Any]:
    return {"id": number, "city": str(number % 10), "n": n}


@pytest.mark.parametrize("readers", ["iceberg", "both"])
def test_a_reader_never_counts_wrong_while_the_table_changes(
    readers: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Each change replaces one row and updates others in all ten partitions, so there are always as many rows.

    Where replaced files leave the folder at once, a query may fail because one is gone.
    """
    item = {"PrimaryKey": "id", "PartitionKey": "city", "Readers": readers}
    table = TableOverTime(tmp_path, COLUMNS, item)
    table.load([row(number, 0) for number in range(ROWS)])
    folder = IcebergReaders(table.lake, table.layout).folder
    found: Counter[tuple[int, int]] = Counter()
    errors: list[Exception] = []
    gone: list[Exception] = []
    did: Counter[str] = Counter()
    done = threading.Event()

    def count() -> None:
        cursor = connection().cursor()
        query = f"SELECT count(*), count(DISTINCT id) FROM iceberg_scan('{folder}')"
        while not done.is_set():
            try:
                (result,) = cursor.execute(query).fetchall()
            except Exception as error:  # noqa: BLE001 - each is a finding
                (gone if readers == "both" and "No such file" in str(error) else errors).append(error)
            else:
                found[result] += 1

    reader = threading.Thread(target=count)
    reader.start()
    oldest = 0
    try:
        while did["changes"] < CHANGES or (found.total() < REQUIRED_COUNTS and not errors):
            updates = [("U", row(number, did["changes"])) for number in range(oldest + 1, oldest + 60)]
            table.apply(("D", row(oldest, 0)), ("I", row(oldest + ROWS, 0)), *updates)
            did["changes"] += 1
            if did["changes"] % 5:
                oldest += 1
            else:
                table.roll_back(table.log.head() - 1, for_good=True)
                did["rollbacks"] += 1
            did["files deleted by clean-ups"] += table.clean_up(timedelta(hours=2))
    finally:
        done.set()
        reader.join()
    wrong = found.total() - found[ROWS, ROWS]
    counts = {"counts": found.total(), "wrong": wrong, "failed": len(errors) + len(gone), **did}
    request.node.user_properties.append((COUNTS, counts))
    assert not errors
    assert set(found) == {(ROWS, ROWS)}
    assert found.total() >= REQUIRED_COUNTS
    assert did["files deleted by clean-ups"] > did["changes"]
