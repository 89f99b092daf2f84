"""The shop's SQL and the shop in memory are one schema."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from cdclake.local.shop_data import PRODUCT, PRODUCTORDER, STORE

SAMPLE_DB = Path(__file__).parents[2] / "sample_db"
SQL = (SAMPLE_DB / "schema.sql").read_text(encoding="utf-8")
ARROW_OF_SQL = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "datetime(6)": pa.timestamp("us", tz="UTC"),
    "text": pa.string(),
    "decimal(10,2)": pa.decimal128(10, 2),
}


def columns_of(table: str) -> list[tuple[str, pa.DataType]]:
    body = re.search(rf"create table {table} \(\n(.*?)\n\);", SQL, re.DOTALL)
    assert body is not None
    words = [line.strip().rstrip(",").split() for line in body[1].splitlines()]
    return [(name, pa.string() if kind.startswith("varchar") else ARROW_OF_SQL[kind]) for name, kind, *_ in words]


@pytest.mark.parametrize(("table", "schema"), [("store", STORE), ("product", PRODUCT), ("productorder", PRODUCTORDER)])
def test_the_sql_has_the_columns_of_the_shop_in_memory(table: str, schema: pa.Schema) -> None:
    assert columns_of(table) == [(field.name, field.type) for field in schema]


@pytest.mark.parametrize("table", ["store", "product", "productorder"])
def test_every_table_has_a_primary_key_as_dms_needs_it(table: str) -> None:
    assert re.search(rf"create table {table} \(\n  id \w+ not null primary key,", SQL)


def test_the_sample_rows_fit_the_tables_and_the_changes_insert_update_and_delete() -> None:
    tables = SQL[SQL.index("create table") :]  # the rest is MySQL's own
    with closing(sqlite3.connect(":memory:")) as database:
        counts = []
        for script in (
            tables,
            *((SAMPLE_DB / name).read_text(encoding="utf-8") for name in ("rows.sql", "changes.sql")),
        ):
            database.executescript(script)
            names = ("store", "product", "productorder")
            counts.append([database.execute(f"select count(*) from {name}").fetchone()[0] for name in names])
        assert counts == [[0, 0, 0], [3, 4, 900], [4, 3, 1000]]
        assert database.execute("select name from product where id = 1001").fetchone() == ("Sample Product",)
        assert database.execute("select count(distinct orderdate) from productorder").fetchone() == (4,)
