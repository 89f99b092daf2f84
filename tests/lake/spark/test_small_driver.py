"""The driver holds counts and statistics, never rows, so a change far larger than its memory can be applied."""

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

from tests import ROOT
from tests.java import java_home
from tests.lake.table import RAW_PREFIX, Table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

pytestmark = pytest.mark.spark

HEAP_MB = 300
"""Spark uses about half of it. In local mode, the JVM side of tasks uses the same heap."""
MAX_COLLECTED = "400k"
ROWS, CHANGED = 1_000_000, 900_000
"""The driver itself reads changes of up to 96 MB; this one has 108 MB."""

RUN_BOTH_JOBS = """
import json, sys
from pathlib import Path
from pyspark import SparkConf, SparkContext
from cdclake.lake.spark.spark_backend import SparkBackend
from tests.lake.table import Table
import pyarrow as pa

root, settings, item = Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3])
spark = SparkContext(conf=SparkConf().setAll(list(settings.items())))
spark.setLogLevel("OFF")
table = Table.__new__(Table)
table.item, table.spark, table.death, table.runs = item, SparkBackend(spark), None, 0
table.root, table.raw, table.lake = root, root / "raw", root / "lake"
print(json.dumps([table.load_initial()["books"], table.load_incremental()["books"]]))
"""


def test_a_change_far_larger_than_the_memory_of_the_driver_is_applied(tmp_path: Path) -> None:
    item = {"PrimaryKey": "id", "TargetFileBytes": str(16 << 20)}
    folder = Table(tmp_path, pa.schema([]), item).raw / RAW_PREFIX
    rng = np.random.default_rng(3)
    order = rng.permutation(ROWS)  # out of order, so the load needs a shuffle
    for number, piece in enumerate(np.array_split(order, 4), 1):
        pq.write_table(pa.table(_rows(rng, piece)), folder / f"LOAD{number:08X}.parquet")
    changed = rng.choice(ROWS + CHANGED // 2, CHANGED, replace=False)
    operations = np.where(changed >= ROWS, "I", np.where(changed % 3 == 0, "D", "U"))
    pq.write_table(pa.table({"Op": operations, **_rows(rng, changed)}), folder / "20240305-101500000.parquet")

    loaded, applied = _run_both_jobs(tmp_path, item)
    assert loaded["rows_after"] == ROWS
    assert applied["read_insert"] + applied["read_update"] + applied["read_delete"] == CHANGED
    assert applied["deleted"] == np.count_nonzero(operations == "D")
    assert applied["rows_after"] == ROWS + applied["inserted"] - applied["deleted"]


def _rows(rng: np.random.Generator, numbers: NDArray[np.int64]) -> dict[str, pa.Array]:
    text = np.frombuffer(rng.bytes(len(numbers) * 120), "S120")
    return {"id": pa.array(numbers), "payload": pa.array(text, pa.binary(120))}


def _run_both_jobs(root: Path, item: Mapping[str, str]) -> list[dict[str, int]]:
    settings = {
        "spark.master": "local[2]",
        "spark.driver.memory": f"{HEAP_MB}m",
        "spark.driver.maxResultSize": MAX_COLLECTED,
        # Lets Spark start with so little memory.
        "spark.testing.memory": str(HEAP_MB << 20),
        "spark.testing.reservedMemory": str(64 << 20),
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    command = [sys.executable, "-c", RUN_BOTH_JOBS, str(root), json.dumps(settings), json.dumps(item)]
    environment = {**os.environ, "JAVA_HOME": java_home(), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    books: list[dict[str, int]] = json.loads(done.stdout.splitlines()[-1])
    return books
