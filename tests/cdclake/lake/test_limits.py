"""What is too large for a process that leaves large changes to Spark: found before anything is committed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.errors import NeedsSparkError
from cdclake.lake.limits import DEFAULT_LIMITS
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

CHANGE = "20240305-101500000.parquet"
COLUMNS = pa.schema([("id", pa.int64()), ("country", pa.string()), ("word", pa.string())])
COUNTRIES = ("at", "ch", "de")


def loaded(root: Path, rows: list[dict[str, Any]], **item: str) -> Table:
    table = Table(root, COLUMNS, {"PrimaryKey": "id", **item})
    table.load(rows)
    return table


def test_rows_that_need_much_memory_are_left_to_spark_whatever_their_file_has(tmp_path: Path) -> None:
    table = loaded(tmp_path, [{"id": 1, "country": "at", "word": "old"}])
    most = 1 << 20
    table.limits = replace(DEFAULT_LIMITS, held_bytes=most)
    rows = [{"Op": "I", "id": number, "country": "at", "word": "same " * 100} for number in range(10_000)]
    with pytest.raises(NeedsSparkError, match=r"its rows need [\d,]+ bytes of memory, of at most 1,048,576"):
        table.apply_rows(CHANGE, rows)
    assert table.raw_path(CHANGE).stat().st_size < most
    assert table.log.head() == 1


@pytest.mark.parametrize("columns", [COLUMNS.names, ["id", "country"]], ids=["all columns", "some columns"])
@pytest.mark.parametrize(("most", "fits"), [(2, False), (3, True)])
def test_keys_that_may_be_in_many_files_are_left_to_spark(
    tmp_path: Path, columns: list[str], most: int, fits: bool
) -> None:
    rows = [{"id": n, "country": COUNTRIES[n % 3], "word": "old"} for n in range(9)]
    table = loaded(tmp_path, rows, PartitionKey="country", MissingColumns="keep")
    table.limits = replace(DEFAULT_LIMITS, looked_up_files=most)
    change = {"Op": "U", "id": 4, "country": "ch", "word": "new"}
    rows = [{name: change[name] for name in ("Op", *columns)}]
    if fits:
        assert table.apply_rows(CHANGE, rows)["change"] == 2
        return
    with pytest.raises(NeedsSparkError, match="its keys may be in 3 data files, of at most 2"):
        table.apply_rows(CHANGE, rows)
    assert table.log.head() == 1


def test_a_history_that_begins_in_a_large_table_is_left_to_spark(tmp_path: Path) -> None:
    rows = [{"id": n, "country": COUNTRIES[n % 3], "word": "old"} for n in range(9)]
    table = loaded(tmp_path, rows, PartitionKey="country")
    table.item["History"] = "true"
    one_file_bytes = max(file.bytes for file in table.log.snapshot(1).files)
    table.limits = replace(DEFAULT_LIMITS, rewritten_bytes=one_file_bytes)
    with pytest.raises(NeedsSparkError, match="it compares data files of"):
        table.apply_rows(CHANGE, [{"Op": "U", "id": 4, "country": "ch", "word": "new"}])
    assert table.log.head() == 1


@pytest.mark.parametrize("item", [{"History": "true"}, {"ReloadMode": "diff"}], ids=["history", "reload"])
def test_a_comparison_of_rows_that_need_much_memory_is_left_to_spark_whatever_their_files_have(
    tmp_path: Path, item: dict[str, str]
) -> None:
    rows = [{"id": n, "country": COUNTRIES[n % 3], "word": "same " * 100} for n in range(6000)]
    table = loaded(tmp_path, rows, PartitionKey="country")
    most = 1 << 20
    assert sum(file.bytes for file in table.log.snapshot(1).files) < most
    table.item |= item
    table.limits = replace(DEFAULT_LIMITS, held_bytes=most)
    with pytest.raises(NeedsSparkError, match=r"its rows need [\d,]+ bytes of memory, of at most 1,048,576"):
        if "History" in item:
            table.apply_rows(CHANGE, [{"Op": "U", "id": 4, "country": "ch", "word": "new"}])
        else:
            table.load(rows[:1])
    assert table.log.head() == 1
