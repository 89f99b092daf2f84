"""The shop's SQL and the shop in memory have the same schema."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from cdclake_devkit.shop.data import PRODUCT, PRODUCTORDER, STORE
from tests import ROOT

SAMPLE_DB = ROOT / "sample_db"
SQL = (SAMPLE_DB / "schema.sql").read_text(encoding="utf-8")
ARROW_OF_SQL = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "bit(1)": pa.bool_(),
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
def test_every_table_has_the_primary_key_that_dms_requires(table: str) -> None:
    assert re.search(rf"create table {table} \(\n  id \w+ not null primary key,", SQL)
