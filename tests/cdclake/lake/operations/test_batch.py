"""Runs a batch of several tables in one Spark job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.adapters.stores import open_store
from cdclake.control.run.spark_batch import batch_key, read_progress, run_batch, write_batch
from cdclake.lake.operations.job import is_spark_alive
from cdclake.model.names import Argument
from cdclake_devkit.oracle import merge
from tests.cdclake.lake.table import Table, by_key

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cdclake.lake.spark.spark_backend import SparkBackend

pytestmark = pytest.mark.spark

COLUMNS = pa.schema([("id", pa.int64()), ("n", pa.int32())])
CHANGES = "20240305-101500000.parquet"


def test_only_the_broken_table_of_a_batch_fails(tmp_path: Path, spark_backend: SparkBackend) -> None:
    tables = {name: Table(tmp_path / name, COLUMNS, {"PrimaryKey": "id"}, spark_backend) for name in "abc"}
    for name, table in tables.items():
        table.load([{"id": number, "n": number} for number in range(100)])
        changes = [("U", {"id": number, "n": 7}) for number in range(50)] + [("D", {"id": 99, "n": 0})]
        table.write_changes(CHANGES, [("Z", changes[0][1]), *changes[1:]] if name == "b" else changes)
    lake, key = open_store(tmp_path.as_uri()), batch_key("", "1")
    write_batch(lake, key, [{Argument.BUCKET: "raw", Argument.PREFIX: f"shop/{name}/"} for name in tables])

    def load(arguments: Mapping[str, str]) -> dict[str, Any]:
        return tables[arguments[Argument.PREFIX].split("/")[1]].load_incremental()

    summary = run_batch(lake, key, load, lambda: is_spark_alive(spark_backend))
    assert "1 of 3 tables failed: raw/shop/b/" in str(summary["error"])
    progress = read_progress(lake, key)
    assert progress is not None
    assert "BadRowError" in progress.done.pop("raw/shop/b/")
    assert progress.done == {"raw/shop/a/": "", "raw/shop/c/": ""}
    for name in "ac":
        assert by_key(tables[name].rows(), ("id",)) == merge(("id",), tables[name].loads, tables[name].changes)
    assert [row.row["n"] for row in by_key(tables["b"].rows(), ("id",))] == list(range(100))  # unchanged
    assert is_spark_alive(spark_backend)
