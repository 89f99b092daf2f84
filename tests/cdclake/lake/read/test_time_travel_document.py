"""The Python snippets in docs/time-travel.md work."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from cdclake.lake.operations.export import export_table
from tests import ROOT
from tests.cdclake.lake.over_time import TABLE, TableOverTime

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark import SparkContext

DOCUMENT = ROOT / "docs" / "time-travel.md"
COLUMNS = pa.schema([("id", pa.int64()), ("orderdate", pa.date32()), ("n", pa.int32())])


def snippet(words: str) -> str:
    """The only Python block that contains these words."""
    (found,) = (
        block for block in re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL) if words in block
    )
    return str(found)


@pytest.fixture
def table(tmp_path: Path) -> TableOverTime:
    """Five changes, the third of which adds a column."""
    table = TableOverTime(tmp_path / "source", COLUMNS, {"PrimaryKey": "id", "PartitionKey": "orderdate"})
    row: dict[str, Any] = {"id": 1, "orderdate": date(2024, 3, 4), "n": 1}
    table.load([row, {**row, "id": 2, "orderdate": date(2024, 3, 5)}])
    wider = COLUMNS.append(pa.field("note", pa.string()))
    for number in (3, 4, 5, 6):
        schema = wider if number > 3 else COLUMNS
        table.apply(("I", {**row, "id": number, "note": "new"} if number > 3 else {**row, "id": number}), schema=schema)
    return table


def test_the_snippet_for_files_reads_columns_that_were_added_later(
    table: TableOverTime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    export_table(table.location, TABLE, "orders-as-of-3", change=3)
    names: dict[str, Any] = {}
    exec(snippet("duckdb"), names)
    found = names["orders"].project("id, orderdate, note").order("id").fetchall()
    early, late = date(2024, 3, 4), date(2024, 3, 5)
    assert found == [(1, early, None), (2, late, None), (3, early, None), (4, early, "new")]


@pytest.mark.spark
@pytest.mark.parametrize(("words", "name", "rows"), [("read_table", "orders", 6), ("read_diff", "found", 2)])
def test_the_snippets_for_spark_return_dataframes(
    table: TableOverTime, spark: SparkContext, words: str, name: str, rows: int, capsys: pytest.CaptureFixture[str]
) -> None:
    code = snippet(words).replace("s3://cdclake-lake", table.location).replace("10:00:00Z", "11:00:00Z")
    names: dict[str, Any] = {"spark": SparkSession(spark).newSession()}
    exec(code, names)
    assert names[name].count() == rows
    assert "count" in capsys.readouterr().out
