"""The engine on Spark, for what the in-process backend cannot test: pickling, shuffles, errors from tasks."""

from __future__ import annotations

import random
from datetime import date
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.errors import BadRowError
from cdclake.lake.limits import EngineLimits
from cdclake.lake.spark.backend import run_on
from cdclake.lake.spark.in_process import InProcessBackend
from cdclake.lake.spark.spark_backend import _ByPartition
from cdclake.lake.storage.arrow_ipc import Rows
from cdclake_devkit.oracle import merge
from tests.cdclake.lake.table import Table, by_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cdclake.lake.spark.backend import Backend, Task
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


def test_a_bad_row_in_a_task_ends_the_job_with_its_error(tmp_path: Path, spark_backend: SparkBackend) -> None:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "id"}, spark_backend)
    row = {"id": 1, "line": "a", "day": date(2024, 3, 1), "n": 1}
    with pytest.raises(BadRowError, match="not I, U or D") as caught:
        table.apply_file("20240305-101500000.parquet", [("I", row), ("Z", row)])
    assert caught.value.details == {"file": "20240305-101500000.parquet", "row": 2}
    assert table.files() == []


def squares(numbers: Iterator[int], computed: Path) -> Iterator[int]:
    for number in numbers:
        with computed.open("a", encoding="utf-8") as file:
            file.write(f"{number}\n")
        yield number * number


@pytest.mark.parametrize("in_process", [True, False])
def test_kept_values_are_computed_once_and_summed(
    tmp_path: Path, spark_backend: SparkBackend, in_process: bool
) -> None:
    backend: Backend = InProcessBackend() if in_process else spark_backend
    partitions = [[1, 2], [], [3], [4, 5, 6]]
    computed = tmp_path / "computed"
    values, total = backend.distribute(partitions).map_partitions(partial(squares, computed=computed)).keep(str, "")
    assert total == "149162536"
    assert values.map(float).collect() == [1.0, 4.0, 9.0, 16.0, 25.0, 36.0]
    assert sorted(computed.read_text(encoding="utf-8").split()) == ["1", "2", "3", "4", "5", "6"]


@pytest.mark.parametrize("in_process", [True, False])
def test_coalesced_values_are_the_same_in_fewer_tasks(spark_backend: SparkBackend, in_process: bool) -> None:
    backend: Backend = InProcessBackend() if in_process else spark_backend
    values = backend.distribute([[1, 2], [], [3], [4, 5, 6]])
    assert len(values.coalesce(2).collect_partitions()) == 2
    assert sorted(values.coalesce(2).collect()) == [1, 2, 3, 4, 5, 6]
    assert [len(part) for part in values.coalesce(9).collect_partitions()] == [2, 0, 1, 3]


def test_what_a_task_adds_again_to_a_sum_counts_once() -> None:
    sums = _ByPartition()
    known = sums.addInPlace(sums.zero({}), {1: "b"})
    assert sums.addInPlace(sums.addInPlace(known, {0: "a"}), {1: "b"}) == {0: "a", 1: "b"}


def test_an_error_while_values_are_kept_reaches_the_driver(spark_backend: SparkBackend) -> None:
    values = spark_backend.distribute([[1], [2]]).map(_refuse)
    with pytest.raises(BadRowError, match="two") as caught:
        values.keep(str, "")
    assert caught.value.details == {"row": 2}


def test_an_unexpected_error_reaches_the_driver_with_its_place_but_without_its_text(
    spark_backend: SparkBackend,
) -> None:
    values = spark_backend.distribute([[5], [7]]).map(_fail).map(str)
    with pytest.raises(Exception, match=r"ValueError: an unexpected error in test_backend\.py, line \d+") as caught:
        values.collect()
    assert str(5**30) not in str(caught.value)


def _fail(number: int) -> int:
    value = f"value {number**30}"
    return int(value)


@pytest.mark.parametrize("in_process", [True, False])
@pytest.mark.parametrize("broadcasts", [True, False])
def test_rows_sent_in_many_jobs_keep_their_tasks_and_order(
    spark_backend: SparkBackend, in_process: bool, broadcasts: bool
) -> None:
    limits = EngineLimits(job_bytes=3, task_data_bytes=0 if broadcasts else 1 << 20)
    backend: Backend = InProcessBackend() if in_process else spark_backend
    partitions = [["ab"], [], ["cde", "f"], ["g"], [], ["hij"], ["k"]]
    rows = InProcessBackend().distribute([[rows_of(text) for text in texts] for texts in partitions])
    numbered = run_on(backend, rows, _numbered, limits)
    expected = [[(number, text) for text in texts] for number, texts in enumerate(partitions)]
    assert numbered.collect_partitions() == expected
    assert rows.collect() == [], "what was sent is forgotten"


def test_an_error_in_one_of_many_jobs_reaches_the_driver(spark_backend: SparkBackend) -> None:
    rows = InProcessBackend().distribute([[rows_of(str(number))] for number in range(12)])
    with pytest.raises(BadRowError, match="two"):
        run_on(spark_backend, rows, _refuse_rows, EngineLimits(job_bytes=0))


def test_rows_are_the_same_after_spark_moved_and_kept_them(spark_backend: SparkBackend) -> None:
    table = pa.table({"n": pa.array([None, 2**63], pa.uint64()), "text": ["a", "b" * 5_000]})
    sliced = pa.concat_tables([table] * 100).slice(1, 198)
    values = spark_backend.distribute([[(0, Rows(table)), (1, Rows(sliced)), (1, Rows(table).packed())], []])
    kept, count = values.shuffle(2).keep(attrgetter("num_rows"), 0)
    assert count == 202
    assert sorted(rows.num_rows for rows in kept.collect()) == [2, 2, 198]
    assert all(rows.table in (table, sliced) for rows in kept.coalesce(1).collect())
    kept.discard()


def rows_of(text: str) -> Rows:
    return Rows(pa.table({"text": [text]}))


def _numbered(task: Task, values: Iterator[Rows]) -> Iterator[tuple[int, str]]:
    return ((task.number, rows.table["text"][0].as_py()) for rows in values)


def _refuse_rows(_: Task, values: Iterator[Rows]) -> Iterator[int]:
    return (_refuse(int(rows.table["text"][0].as_py())) for rows in values)


def _refuse(number: int) -> int:
    if number == 2:
        raise BadRowError("number two", remedy="Leave it out", row=2)
    return number
