"""Tables whose rows are long: every step cuts its work by bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdclake.lake.limits import EngineLimits
from cdclake.lake.merge.file_ranges import FileBounds
from cdclake.lake.merge.resolve import Counts, ResolvedBatch
from cdclake.lake.merge.tasks.resolution import InsertCounting, to_resolution
from cdclake.lake.storage.keys import LEADING_KEY
from cdclake.lake.storage.partitions import by_partition
from tests.cdclake.lake.merge.test_large_in_memory import peak_bytes
from tests.cdclake.lake.table import RAW_PREFIX, Table
from tests.cdclake.lake.wide_rows import taken_in_pieces

if TYPE_CHECKING:
    from collections.abc import Iterable

KEYS = [f"key{i}" for i in range(10)]
COLUMNS = pa.schema([*((name, pa.string()) for name in KEYS), ("doc", pa.string())])
MB = 1 << 20


def row(number: int, doc: str) -> dict[str, Any]:
    return {**{name: f"{name} {number:06d}" for name in KEYS}, "doc": doc}


def documents(table: Table) -> dict[str, str]:
    return {one.row["key0"]: one.row["doc"] for one in table.rows() if one.op != "D"}


SETTINGS: dict[str, dict[str, str]] = {
    "plain": {},
    "partitioned": {"PartitionKey": "key9"},
    "partial": {"CsvNoSupValue": "<none>", "Schema": ", ".join(f"{name} string" for name in COLUMNS.names)},
    "soft deletes": {"DeleteMode": "soft"},
    "with history": {"History": "true"},
    "small files": {"TargetFileBytes": "2000"},
    "without key": {"PrimaryKey": "null"},
}


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS)
@taken_in_pieces(500)
def test_a_table_is_the_same_if_its_rows_exceed_every_limit(tmp_path: Path, settings: str) -> None:
    limits = EngineLimits(
        batch_bytes=500,
        raw_group_bytes=500,
        key_range_bytes=500,
        load_task_memory_bytes=500,
        in_place_held_bytes=500,
        sorted_bytes=500,
        sorted_piece_bytes=500,
        part_bytes=500,
        read_group_bytes=500,
        row_group_bytes=500,
    )
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": ",".join(KEYS), **SETTINGS[settings]}, limits=limits)
    expected = {number: f"old {number} " * (number * 7 % 40) for number in range(24)}
    table.load([row(number, doc) for number, doc in expected.items()])
    changed = {number: f"new {number} " * (number % 30) for number in range(0, 30, 3)}
    if settings == "without key":
        table.apply_file("20240306-101500123.parquet", [("I", row(n + 100, doc)) for n, doc in changed.items()])
        expected |= {number + 100: doc for number, doc in changed.items()}
    else:
        several = [("U", row(number, "first " * 50)) for number in changed]
        updates = [("U", row(number, doc)) for number, doc in changed.items()]
        table.apply_file("20240306-101500123.parquet", [*several, *updates])
        table.apply_file("20240306-111500123.parquet", [("D", row(number, "")) for number in range(5)])
        expected |= changed
        expected = {number: doc for number, doc in expected.items() if number >= 5}
    assert documents(table) == {f"key0 {number:06d}": doc for number, doc in expected.items()}


def test_a_data_file_has_row_groups_of_limited_bytes(tmp_path: Path) -> None:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "key0"}, limits=EngineLimits(row_group_bytes=20_000))
    table.load([row(number, str(number) * 1000) for number in range(50)])
    (name,) = table.files()
    footer = pq.ParquetFile(table.folder / name).metadata
    sizes = [footer.row_group(i).total_byte_size for i in range(footer.num_row_groups)]
    assert len(sizes) >= 5
    assert max(sizes) <= 25_000
    assert sum(footer.row_group(i).num_rows for i in range(len(sizes))) == 50


def long_rows(numbers: Iterable[int], salt: str, op: str = "") -> pa.Table:
    docs = [f"{number:04d}{salt}" * (2 * MB) for number in numbers]
    added = [("Op", pa.repeat(op, len(docs)))] if op else []
    keys = [(name, pa.array([f"{name} {number:06d}" for number in numbers])) for name in KEYS]
    return pa.table(dict([*added, *keys, ("doc", pa.array(docs))]))


def write_long_rows(path: Path, count: int, step: int, salt: str, op: str = "") -> None:
    numbers = list(range(0, count, step))
    with pq.ParquetWriter(path, long_rows([0], salt, op).schema, use_dictionary=False) as file:
        for start in range(0, len(numbers), 5):
            file.write_table(long_rows(numbers[start : start + 5], salt, op))


def reset_peak() -> int:
    """Let `peak_bytes` forget the peak so far (see proc(5)); returns the resident size now."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_bytes()


@pytest.mark.thorough
def test_values_of_16_mb_together_exceed_the_2_gb_of_an_arrow_array(tmp_path: Path) -> None:
    count = 150
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": ",".join(KEYS)})
    write_long_rows(table.raw / RAW_PREFIX / "LOAD00000001.parquet", count, 1, "-old")
    before = reset_peak()
    assert table.load_initial()["books"]["inserted"] == count
    write_long_rows(table.raw / RAW_PREFIX / "20240306-101500123.parquet", count, 3, "-new", "U")
    assert table.load_incremental()["books"]["updated"] == count // 3
    assert peak_bytes() - before < 3.5 * (1 << 30)
    found = 0
    for path in table.files():
        for batch in pq.ParquetFile(table.folder / path).iter_batches(1, columns=["key0", "doc"]):
            number, doc = int(batch["key0"][0].as_py()[-6:]), batch["doc"][0].as_py()
            assert (len(doc), doc[:8]) == (16 * MB, f"{number:04d}-{'old' if number % 3 else 'new'}")
            found += 1
    assert found == count


def test_long_rows_of_one_partition_do_not_count_for_another() -> None:
    rows = pa.table({LEADING_KEY: [1, 2, 3], "p": ["a", "a", "b"], "doc": ["x", "y", "z" * 1_000_000]})
    inserts = by_partition(rows, ["p"])
    resolution = to_resolution(ResolvedBatch(Counts(), inserts=inserts), InsertCounting(FileBounds(()), 1 << 20))
    sizes = {partition: stats.memory_bytes for partition, stats in resolution.inserts.items()}
    assert sizes["a",] < 1_000
    assert sizes["b",] == pytest.approx(1_000_000, rel=0.01)
    assert sum(sizes.values()) == pytest.approx(rows.nbytes, rel=0.01)
