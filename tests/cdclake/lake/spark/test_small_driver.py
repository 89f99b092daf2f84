"""A change far larger than the driver's memory can be applied: the driver holds only counts and statistics of it.

Of smaller ones it reads the rows, and sends them without filling Java's heap.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdclake_cli.aws.java_classes import java_home
from tests import ROOT
from tests.cdclake.lake.table import RAW_PREFIX, Table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

pytestmark = pytest.mark.spark

HEAP_MB = 300
"""Spark uses about half of it. In local mode, the JVM side of tasks uses the same heap."""
ROWS = 1_000_000
LARGE, MEDIUM = 900_000, 600_000
"""Rows of changes of 108 and 72 MB; the driver itself reads up to 96 MB."""

RUN_BOTH_JOBS = """
import json, sys
from pathlib import Path
from pyspark import SparkConf, SparkContext
from cdclake.lake.spark.spark_backend import SparkBackend
from tests.cdclake.lake.table import Table
import pyarrow as pa

root, settings, item = Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3])
spark = SparkContext(conf=SparkConf().setAll(list(settings.items())))
spark.setLogLevel("OFF")
table = Table.__new__(Table)
table.item, table.spark, table.death, table.runs = item, SparkBackend(spark), None, 0
table.root, table.raw, table.lake = root, root / "raw", root / "lake"
print(json.dumps([table.load_initial()["books"], table.load_incremental()["books"]]))
"""


@pytest.mark.long
@pytest.mark.parametrize(("changes", "file_mb", "max_collected"), [(LARGE, 16, "400k"), (MEDIUM, 40, "64m")])
def test_a_change_far_larger_than_the_memory_of_the_driver_is_applied(
    tmp_path: Path, changes: int, file_mb: int, max_collected: str
) -> None:
    item = {"PrimaryKey": "id", "TargetFileBytes": str(file_mb << 20)}
    folder = Table(tmp_path, pa.schema([]), item).raw / RAW_PREFIX
    rng = np.random.default_rng(3)
    order = rng.permutation(ROWS)  # out of order, so the load needs a shuffle
    for number, piece in enumerate(np.array_split(order, 4), 1):
        pq.write_table(pa.table(_rows(rng, piece)), folder / f"LOAD{number:08X}.parquet")
    changed = rng.choice(ROWS + changes // 2, changes, replace=False)
    operations = np.where(changed >= ROWS, "I", np.where(changed % 3 == 0, "D", "U"))
    pq.write_table(pa.table({"Op": operations, **_rows(rng, changed)}), folder / "20240305-101500000.parquet")

    loaded, applied = _run_both_jobs(tmp_path, item, max_collected)
    assert loaded["rows_after"] == ROWS
    assert applied["read_insert"] + applied["read_update"] + applied["read_delete"] == changes
    assert applied["deleted"] == np.count_nonzero(operations == "D")
    assert applied["rows_after"] == ROWS + applied["inserted"] - applied["deleted"]


def _rows(rng: np.random.Generator, numbers: NDArray[np.int64]) -> dict[str, pa.Array]:
    text = np.frombuffer(rng.bytes(len(numbers) * 120), "S120")
    return {"id": pa.array(numbers), "payload": pa.array(text, pa.binary(120))}


def _run_both_jobs(root: Path, item: Mapping[str, str], max_collected: str) -> list[dict[str, int]]:
    settings = {
        "spark.master": "local[2]",
        "spark.driver.memory": f"{HEAP_MB}m",
        "spark.driver.maxResultSize": max_collected,
        # Lets Spark start with so little memory.
        "spark.testing.memory": str(HEAP_MB << 20),
        "spark.testing.reservedMemory": str(64 << 20),
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    command = [sys.executable, "-c", RUN_BOTH_JOBS, str(root), json.dumps(settings), json.dumps(item)]
    environment = {**os.environ, "JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    books: list[dict[str, int]] = json.loads(done.stdout.splitlines()[-1])
    return books
