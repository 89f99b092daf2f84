"""The memory that the function of small changes needs at its limits: data files may hold many times their bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import cdclake.lake  # noqa: F401 - chooses Arrow's allocator, before Arrow is imported
from cdclake.lake.spark.in_process import InProcessBackend, Room
from small_changes.handler import LIMITS, MERGED_BYTES, TASKS_AT_ONCE
from tests import ROOT
from tests.cdclake.lake.merge.test_large_in_memory import peak_bytes
from tests.cdclake.lake.merge.test_wide_rows import reset_peak
from tests.cdclake.lake.table import Table

FILES, FILE_ROWS = 8, 250_000
MAX_PEAK_BYTES = 1_300_000_000
"""Of 1,769 MB: what the function imports besides, the libraries of AWS, takes 100 MB."""
COLUMNS = pa.schema([("id", pa.int64()), ("part", pa.int64()), ("doc", pa.string())])


def rows(ids: pa.Array) -> pa.Table:
    """Rows of 1 kB, which differ, and which are compressed to some 30 bytes each."""
    docs = pc.binary_join_element_wise(ids.cast(pa.string()), "x" * 1000, " ")
    return pa.table([ids, pc.divide(ids, FILE_ROWS), docs], schema=COLUMNS)


SETTINGS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "merged in place": ({}, {}),
    "looked up first": ({"PartitionKey": "part"}, {}),
    "sorted and split": ({}, {"TargetFileBytes": "2000000"}),
}
"""Those of the table, and those that it gets before the change."""


def change(folder: str, settings: dict[str, str], later: dict[str, str]) -> int:
    """Load data files, and change a row in each; returns the largest size of this process meanwhile."""
    table = Table(Path(folder), COLUMNS, {"PrimaryKey": "id", **settings})
    for number in range(FILES):
        ids = pa.array(range(number * FILE_ROWS, (number + 1) * FILE_ROWS), pa.int64())
        table.put(f"LOAD{number + 1:08X}.parquet", rows(ids), compression="zstd")
    table.load_initial()
    table.item |= later
    table.limits = LIMITS
    table.spark = InProcessBackend(tasks_at_once=TASKS_AT_ONCE, room=Room(MERGED_BYTES))
    few = rows(pa.array(range(FILE_ROWS // 2, FILES * FILE_ROWS, FILE_ROWS), pa.int64()))
    pa.default_memory_pool().release_unused()
    reset_peak()
    books = table.apply_file("20240306-101500123.parquet", few.add_column(0, "Op", [pa.repeat("U", FILES)]))["books"]
    assert (books["updated"], books["rows_after"]) == (FILES, FILES * FILE_ROWS)
    return peak_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("how", SETTINGS)
def test_a_change_of_some_rows_in_each_of_many_data_files_fits_however_small_they_are(tmp_path: Path, how: str) -> None:
    command = [sys.executable, "-m", __name__, str(tmp_path), how]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) < MAX_PEAK_BYTES


if __name__ == "__main__":
    where, how = sys.argv[1:]
    print(change(where, *SETTINGS[how]))
