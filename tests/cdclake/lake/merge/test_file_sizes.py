"""A table needs no compaction, however many small changes it gets."""

from __future__ import annotations

import random
from math import ceil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.cdclake.lake.table import Table
from tests.tiers import TIER, Tier

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

COLUMNS = pa.schema([("id", pa.int64()), ("text", pa.string())])
TARGET_BYTES = 60_000
RUNS = 500 if TIER is Tier.THOROUGH else 200


def row(rng: random.Random, number: int) -> dict[str, Any]:
    """A row that does not compress well, so that bytes grow with rows as in large files."""
    return {"id": number, "text": rng.randbytes(50).hex()}


class Source:
    """A source table with many small changes."""

    def __init__(self, table: Table, rows: int) -> None:
        self.rng = random.Random(11)
        self.table = table
        self.present = list(range(rows))
        self.next = rows
        table.load([row(self.rng, number) for number in self.present])

    def change(self, run: int, inserted: int, updated: int, deleted: int, newest: float) -> dict[str, Any]:
        """Write one change file and apply it. Updates and deletes affect the newest share of the rows."""
        recent = self.present[-max(updated + deleted, int(len(self.present) * newest)) :]
        known = self.rng.sample(recent, updated + deleted)
        changes = [("U", row(self.rng, number)) for number in known[:updated]]
        changes += [("D", row(self.rng, number)) for number in known[updated:]]
        changes += [("I", row(self.rng, self.next + i)) for i in range(inserted)]
        removed = set(known[updated:])
        self.present = [number for number in self.present if number not in removed]
        self.present += range(self.next, self.next + inserted)
        self.next += inserted
        hours, minute = divmod(run, 60)
        day, hour = divmod(hours, 24)
        return self.table.apply_file(f"202403{5 + day:02d}-{hour:02d}{minute:02d}00000.parquet", changes)


@pytest.mark.long
@pytest.mark.sampled(ci=1)
@pytest.mark.parametrize(
    ("runs", "rows", "inserted", "updated", "deleted", "newest"),
    [
        pytest.param(RUNS, 2000, 9, 3, 1, 0.1, id="a table that grows at its end"),
        pytest.param(150, 5000, 3, 6, 27, 1.0, id="a table that shrinks everywhere"),
    ],
)
def test_many_small_changes_leave_about_as_many_files_as_necessary(
    tmp_path: Path, runs: int, rows: int, inserted: int, updated: int, deleted: int, newest: float
) -> None:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "id", "TargetFileBytes": str(TARGET_BYTES), "LateWindowHours": "1"})
    source = Source(table, rows)
    written_bytes, max_bytes = 0, 0.0
    for run in range(runs):
        done = source.change(run, inserted, updated, deleted, newest)
        files = table.log.snapshot(done["change"]).files
        ideal = ceil(sum(file.bytes for file in files) / TARGET_BYTES)
        assert len(files) <= 2 * ideal + 1, f"after {run + 1} runs"
        record = table.log.record(done["change"])
        written_bytes += record.bytes_added
        max_bytes = max(max_bytes, record.bytes_added / max(1, len(record.retired)))
    assert sorted(row.row["id"] for row in table.rows()) == source.present
    # For each replaced file, a run writes no more than the largest file that is not split.
    assert max_bytes <= 2.5 * TARGET_BYTES
    assert written_bytes / runs <= (updated + deleted + 1) * 1.5 * TARGET_BYTES
