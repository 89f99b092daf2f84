"""A time counts only if the table is correct: checksums, and results of wrong or failed runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from benchmarks.bench import Measurement
from benchmarks.change import checksum_after, random_change, write_change_files
from benchmarks.checksum import checksum
from benchmarks.results import summarize
from benchmarks.rows import KEY, rows, schema
from benchmarks.table_reader import table_checksum
from benchmarks.task import TableFiles

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 1_000


def apply_row_by_row(before: pa.Table, folder: Path) -> pa.Table:
    """The table after its change files."""
    table = {row[KEY]: row for row in before.to_pylist()}
    for file in sorted(folder.glob("*.parquet")):
        for row in pq.read_table(file).to_pylist():
            if row.pop("Op") == "D":
                del table[row[KEY]]
            else:
                table[row[KEY]] = row
    return pa.Table.from_pylist(list(table.values()), before.schema)


@pytest.mark.parametrize("files", [1, 6])
@pytest.mark.parametrize("uuid_keys", [False, True])
def test_the_expected_checksum_is_that_of_the_applied_change(tmp_path: Path, files: int, uuid_keys: bool) -> None:
    before = rows(np.arange(ROWS), 0, uuid_keys=uuid_keys)
    change = random_change(0, ROWS, 50, seed=1, files=files)
    write_change_files(change, tmp_path, uuid_keys=uuid_keys)
    after = apply_row_by_row(before, tmp_path)
    assert after.num_rows == ROWS
    assert checksum(after) == checksum_after(checksum(before), change, uuid_keys=uuid_keys)
    assert checksum(after) != checksum(before)


def test_the_checksum_depends_on_every_value_but_not_on_the_order_of_rows(tmp_path: Path) -> None:
    table = rows(np.arange(ROWS), 0, uuid_keys=False)
    shuffled = table.take(np.random.default_rng(1).permutation(ROWS))
    pq.write_table(shuffled.slice(0, 300), tmp_path / "a.parquet")
    pq.write_table(shuffled.slice(300), tmp_path / "b.parquet")
    files = TableFiles((str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")))
    assert table_checksum(files, schema(uuid_keys=False)) == checksum(table)
    for number, name in enumerate(table.column_names):
        one_null = pc.if_else(np.arange(ROWS) == 7, pa.scalar(None, table.schema.field(name).type), table[name])
        if table[name][7].is_valid:
            assert checksum(table.set_column(number, table.schema.field(name), one_null)) != checksum(table), name


def test_a_contestant_with_a_wrong_or_failed_run_has_no_median() -> None:
    def run(name: str, seconds: float | None, *, correct: bool = True) -> Measurement:
        return Measurement("spread", name, seconds, 1.0, 100, correct, {})

    measured = [run("cdclake", 4.0), run("duckdb", 2.0), run("limit", 8.0), run("delta-rs", 1.0)]
    measured += [
        run("cdclake", 6.0),
        run("duckdb", 2.0, correct=False),
        run("limit", 8.0),
        run("delta-rs", None, correct=False),
    ]
    results = {r["contestant"]: (r["median_s"], r["ratio"], r["checksum_ok"]) for r in summarize(measured)}
    assert results == {
        "cdclake": (5.0, 1.0, True),
        "duckdb": (None, None, False),
        "limit": (8.0, 1.6, True),
        "delta-rs": (None, None, False),
    }
