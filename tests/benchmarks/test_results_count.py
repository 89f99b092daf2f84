"""A time counts only if the table is correct: checksums, and results of wrong or failed runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from benchmarks.bench import Measurement
from benchmarks.change import change_of_stores, checksum_after, random_change, write_change_files
from benchmarks.checksum import checksum
from benchmarks.data import changes, full_load, past_files
from benchmarks.results import summarize
from benchmarks.rows import KEY, ORDERS, STORE, TENANT, Source, rows, schema
from benchmarks.table_reader import files_per_key, table_checksum
from benchmarks.task import TableFiles
from benchmarks.workloads import Table, Workload

ROWS = 1_000


SOURCES = {
    "plain": Source(),
    "uuid": Source(uuid_keys=True),
    "tenants": Source(tenants=3),
    "stores": Source(stores=10),
    "wide": Source(extra_columns=4),
}


def apply_row_by_row(before: pa.Table, folder: Path, source: Source = ORDERS) -> pa.Table:
    """The table after its change files."""

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in source.key)

    table = {key(row): row for row in before.to_pylist()}
    assert len(table) == before.num_rows
    for file in sorted(folder.glob("*.parquet")):
        for row in pq.read_table(file).to_pylist():
            if row.pop("Op") == "D":
                del table[key(row)]
            else:
                table[key(row)] = row
    return pa.Table.from_pylist(list(table.values()), before.schema)


@pytest.mark.parametrize("files", [1, 6])
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_the_expected_checksum_is_that_of_the_applied_change(tmp_path: Path, files: int, source: Source) -> None:
    before = rows(np.arange(ROWS), 0, source)
    assert before.schema == schema(source)
    change = random_change(0, ROWS, 50, seed=1, files=files)
    write_change_files(change, tmp_path, source)
    after = apply_row_by_row(before, tmp_path, source)
    assert after.num_rows == ROWS
    assert checksum(after) == checksum_after(checksum(before), change, source)
    assert checksum(after) != checksum(before)


def test_a_change_of_stores_changes_no_row_of_another_store() -> None:
    source = SOURCES["stores"]
    change = change_of_stores(source, 2, ROWS, 20, seed=1)
    for numbers in (change.updated, change.deleted, change.inserted):
        assert len(numbers) == 20
        assert set(rows(numbers, 0, source)[STORE].to_pylist()) == {"store-00000", "store-00001"}
    assert change.updated.max() < ROWS <= change.inserted.min()
    assert not set(change.updated) & set(change.deleted)


def test_a_fresh_table_has_the_rows_of_the_aged_one(tmp_path: Path) -> None:
    fresh = Table(ROWS, 4, past=10)
    aged = replace(fresh, aged=True)
    files = (*full_load(tmp_path, aged).files, *past_files(tmp_path, aged))
    links = tmp_path / "raw"
    links.mkdir()
    for file in files[4:]:
        (links / Path(file).name).symlink_to(file)
    assert len(files) == 4 + 10
    after = apply_row_by_row(pa.concat_tables(map(pq.read_table, files[:4])), links)
    assert after.num_rows == ROWS
    assert checksum(after) == full_load(tmp_path, fresh).checksum

    workload = Workload("aged", aged, random_change(ROWS * 7 // 8, ROWS, 20, seed=1, version=2))
    assert workload.change
    changed = changes(tmp_path, workload, workload.change)
    for file in changed.files:
        (links / Path(file).name).symlink_to(file)
    assert max(path.name for path in links.iterdir()) == Path(changed.files[0]).name, "the change is the last file"
    final = apply_row_by_row(pa.concat_tables(map(pq.read_table, files[:4])), links)
    assert checksum(final) == changed.checksum


def test_files_of_a_shuffled_partitioned_table_are_touched_where_its_rows_are(tmp_path: Path) -> None:
    table = Table(ROWS, 4, SOURCES["stores"], STORE, shuffled=True)
    change = change_of_stores(table.source, 2, ROWS, 20, seed=1)
    touched = changes(tmp_path, Workload("partitions", table, change), change).touched
    assert touched == (f"{STORE}=store-00000/part-00000.parquet", f"{STORE}=store-00001/part-00000.parquet")


def test_a_change_of_each_tenants_newest_rows_touches_a_file_of_each(tmp_path: Path) -> None:
    table = Table(ROWS, 20, Source(tenants=5))
    first, *_ = full_load(tmp_path, table).files
    assert set(pq.read_table(first)[TENANT].to_pylist()) == {0}, "the full load is in key order"
    change = random_change(ROWS - 50, ROWS, 20, seed=1)
    touched = changes(tmp_path, Workload("tenant", table, change), change).touched
    assert touched == tuple(f"LOAD{number:08X}.parquet" for number in (4, 8, 12, 16, 20))


def test_the_checksum_depends_on_every_value_but_not_on_the_order_of_rows(tmp_path: Path) -> None:
    table = rows(np.arange(ROWS), 0)
    shuffled = table.take(np.random.default_rng(1).permutation(ROWS))
    pq.write_table(shuffled.slice(0, 300), tmp_path / "a.parquet")
    pq.write_table(shuffled.slice(300), tmp_path / "b.parquet")
    files = TableFiles((str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")))
    assert table_checksum(files, schema()) == checksum(table)
    for number, name in enumerate(table.column_names):
        one_null = pc.if_else(np.arange(ROWS) == 7, pa.scalar(None, table.schema.field(name).type), table[name])
        if table[name][7].is_valid:
            assert checksum(table.set_column(number, table.schema.field(name), one_null)) != checksum(table), name


def test_files_per_key_counts_the_files_whose_range_contains_a_key(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{first}.parquet") for first in (0, 100, 50)]
    for path, first in zip(paths, (0, 100, 50), strict=True):
        pq.write_table(rows(np.arange(first, first + 100), 0), path, row_group_size=10)
    assert files_per_key(paths, KEY, np.array([0, 49])) == 1
    assert files_per_key(paths, KEY, np.array([50, 99, 100, 149])) == 2
    assert files_per_key(paths, KEY, np.array([0, 60])) == 1.5


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
