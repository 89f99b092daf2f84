"""The engine on Spark, for what the in-process backend cannot test: pickling, shuffles, errors from tasks."""

from __future__ import annotations

import random
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.errors import BadRowError, UnreadableFileError
from cdclake.oracle import merge
from tests.lake.table import Table, by_key

if TYPE_CHECKING:
    from pathlib import Path

    from cdclake.lake.spark.spark_backend import SparkBackend

pytestmark = pytest.mark.spark

COLUMNS = pa.schema([("id", pa.int64()), ("line", pa.string()), ("day", pa.date32()), ("n", pa.int32())])


def random_rows(rng: random.Random, count: int) -> list[dict[str, Any]]:
    numbers = rng.sample(range(4 * count), count)
    return [
        {
            "id": number // 3,
            "line": f"l{number % 3}",
            "day": date(2024, 3, 1 + rng.randrange(9)),
            "n": rng.randrange(99),
        }
        for number in numbers
    ]


@pytest.mark.parametrize("partition", ["null", "day"])
def test_full_load_and_changes_on_spark_equal_the_oracle(
    tmp_path: Path, spark_backend: SparkBackend, partition: str
) -> None:
    rng = random.Random(7)
    item = {"PrimaryKey": "id,line", "PartitionKey": partition, "TargetFileBytes": "30000"}
    table = Table(tmp_path, COLUMNS, item, spark_backend)
    rows = random_rows(rng, 20_000)
    for number in range(4):
        table.write_load(rows[number::4], number + 1)
    first = table.load_initial()
    assert first["books"]["rows_after"] == len(rows)
    assert first["files_added"] > 1

    for run in range(2):
        for file in range(3):
            changes = [(rng.choice("IUD"), row) for row in random_rows(rng, 1500)]
            table.write_changes(f"20240305-10{run}5{file}0000.parquet", changes)
        table.load_incremental()
    expected = merge(("id", "line"), table.loads, table.changes)
    assert by_key(table.rows(), ("id", "line")) == expected


def test_a_second_run_with_the_same_arguments_does_nothing(tmp_path: Path, spark_backend: SparkBackend) -> None:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "id"}, spark_backend)
    row = {"id": 1, "line": "a", "day": date(2024, 3, 1), "n": 1}
    assert table.load([row])["change"] == 1
    assert table.load_initial()["change"] is None
    assert table.apply_file("20240305-101500000.parquet", [("I", {**row, "id": 2})])["change"] == 2
    assert table.load_incremental()["change"] is None


def test_a_bad_row_in_a_task_ends_the_job_with_its_error(tmp_path: Path, spark_backend: SparkBackend) -> None:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "id"}, spark_backend)
    row = {"id": 1, "line": "a", "day": date(2024, 3, 1), "n": 1}
    with pytest.raises(BadRowError, match="not I, U or D") as caught:
        table.apply_file("20240305-101500000.parquet", [("I", row), ("Z", row)])
    assert caught.value.details == {"file": "20240305-101500000.parquet", "row": 2}
    assert table.files() == []


def test_a_damaged_page_in_a_task_ends_the_job_with_its_error(tmp_path: Path, spark_backend: SparkBackend) -> None:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "id"}, spark_backend)
    table.write_load([{"id": i, "line": f"line {i}" * 9, "day": None, "n": i} for i in range(3000)])
    path = next(table.raw.rglob("LOAD*"))
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + bytes(5000) + whole[5100:])
    with pytest.raises(UnreadableFileError, match="LOAD00000001"):
        table.load_initial()
