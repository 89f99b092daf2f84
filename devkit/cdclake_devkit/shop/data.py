"""The sample shop's tables before the first change: columns, and rows generated from a seed.

The tables come from AWS's walkthrough "Load ongoing data lake changes with AWS DMS and AWS Glue", with more columns,
so that every type and every kind of text that tends to break a pipeline occurs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from cdclake_cli.dms.settings import Compression, DataFormat, DmsSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCHEMA_NAME = "shop"
FIRST_DAY = date(2024, 1, 1)
DAYS = 90
FIRST_ID = 1001
PRODUCTS = 1000

TIMESTAMP_COLUMN = "dms_timestamp"

_CSV = DmsSettings()
_PARQUET = DmsSettings(data_format=DataFormat.PARQUET, compression_type=Compression.GZIP)
_MONEY = pa.decimal128(10, 2)
_TIMESTAMP = pa.timestamp("us", tz="UTC")
_SECONDS_A_DAY = 86_400

STORE = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        ("address1", pa.string()),
        ("city", pa.string()),
        ("state", pa.string()),
        ("country", pa.string()),
        ("zip", pa.string()),
    ]
)
PRODUCT = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        ("name", pa.string()),
        ("dept", pa.string()),
        ("category", pa.string()),
        ("price", _MONEY),
        ("weightkg", pa.float64()),
        ("discontinued", pa.bool_()),
    ]
)
PRODUCTORDER = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("productid", pa.int32()),
        ("storeid", pa.int32()),
        ("quantity", pa.int32()),
        ("unitprice", _MONEY),
        ("orderdate", pa.date32()),
        ("createdat", _TIMESTAMP),
        ("gift", pa.bool_()),
        ("note", pa.string()),
    ]
)


@dataclass(frozen=True)
class ShopTable:
    """A table of the shop, its DMS settings and its lake table.

    Attributes:
        name: Table name in the schema `shop`.
        columns: Source columns in order.
        partition_key: Partition columns of the lake table.
        csv: Whether DMS writes CSV without a header line instead of Parquet.
        full_load_files: Number of `LOAD*` files.
    """

    name: str
    columns: pa.Schema
    partition_key: tuple[str, ...] = ()
    csv: bool = False
    full_load_files: int = 1

    @property
    def full_load_settings(self) -> DmsSettings:
        """DMS settings of the `LOAD*` files."""
        return replace(_CSV if self.csv else _PARQUET, timestamp_column_name=TIMESTAMP_COLUMN)

    @property
    def change_settings(self) -> DmsSettings:
        """DMS settings of change files."""
        return replace(self.full_load_settings, compression_type=Compression.GZIP)


TABLES = {
    table.name: table
    for table in (
        ShopTable("store", STORE, csv=True),
        ShopTable("product", PRODUCT),
        ShopTable("productorder", PRODUCTORDER, partition_key=("orderdate",), full_load_files=4),
    )
}

_STORES = [
    ("1 Main Street", "Cambridge", "MA", "US", "02139"),
    ("410 Terry Ave N", "Seattle", "WA", "US", "98109"),
    ('Unit "B", 7 Rue de l\u2019Église\nCour intérieure', "Montréal", "QC", "CA", "H2Y 1C6"),
    ("Königsallee 60", "Düsseldorf", None, "DE", "40212"),
    ("千代田区丸の内1-1", "東京", None, "JP", "100-0005"),
    ("12, Harbour View", "Hamilton", None, "BM", None),
    ("", "Agawam", "MA", "US", "01001"),
    ("O'Hare Terminal 5", "Chicago", "IL", "US", "60666"),
]
_DEPARTMENTS = [
    ("Garden", "Hoses"),
    ("Garden", "Pots & Planters"),
    ("Kitchen", "Knives, forks"),
    ("Kitchen", None),
    ("Bücher", "Krimi"),
]
NOTES = [
    "leave at the door",
    'said "call first", twice',
    "line one\nline two",
    "Größe L, façade side",
    "日本語のメモ",
    "🎁 wrap it",
    "",
    "NULL",
    "back\\slash and\ttab",
]


def stores() -> pa.Table:
    """The stores 1001 to 1008."""
    rows = [dict(zip(STORE.names, (FIRST_ID + number, *values), strict=True)) for number, values in enumerate(_STORES)]
    return pa.Table.from_pylist(rows, STORE)


def products(seed: int) -> pa.Table:
    """The products from 1001 on, `PRODUCTS` of them."""
    random = np.random.default_rng([seed, 1])
    kinds = random.integers(0, len(_DEPARTMENTS), PRODUCTS)
    weights = random.uniform(0.01, 25, PRODUCTS)
    columns = [
        pa.array(np.arange(FIRST_ID, FIRST_ID + PRODUCTS, dtype=np.int32)),
        pa.array([f"Product {FIRST_ID + number}" for number in range(PRODUCTS)]),
        pa.array([_DEPARTMENTS[kind][0] for kind in kinds]),
        pa.array([_DEPARTMENTS[kind][1] for kind in kinds]),
        money(random.integers(99, 50_000, PRODUCTS)),
        pa.array(weights, mask=random.random(PRODUCTS) < 0.1),
        pa.array(random.random(PRODUCTS) < 0.05),
    ]
    return pa.Table.from_arrays(columns, schema=PRODUCT)


def orders(count: int, seed: int, catalog: pa.Table) -> pa.Table:
    """The orders 1 to `count`, ordered by id and spread evenly over `DAYS` days from `FIRST_DAY`.

    Args:
        count: Number of orders.
        seed: The same seed produces the same orders.
        catalog: The products, with their prices.
    """
    days = np.arange(count) * DAYS // count
    return _orders(np.arange(1, count + 1), days, np.random.default_rng([seed, 2]), catalog)


def orders_of_a_day(first_id: int, count: int, day: date, seed: int, catalog: pa.Table) -> pa.Table:
    """`count` orders of one day, with ids from `first_id` on."""
    days = np.full(count, (day - FIRST_DAY).days)
    return _orders(np.arange(first_id, first_id + count), days, np.random.default_rng([seed, first_id]), catalog)


def _orders(
    ids: NDArray[np.int64], days: NDArray[np.int64], random: np.random.Generator, catalog: pa.Table
) -> pa.Table:
    count = len(ids)
    bought = random.integers(0, catalog.num_rows, count)
    first_day = np.datetime64(FIRST_DAY, "D")
    dates = first_day + days.astype("timedelta64[D]")
    in_day_us = random.integers(0, _SECONDS_A_DAY * 1_000_000, count)
    moments = (dates.astype("datetime64[us]") + in_day_us.astype("timedelta64[us]")).astype(np.int64)
    notes = pa.DictionaryArray.from_arrays(
        pa.array(random.integers(0, len(NOTES), count), mask=random.random(count) < 0.9), pa.array(NOTES)
    )
    columns = [
        pa.array(ids, pa.int64()),
        catalog["id"].combine_chunks().take(pa.array(bought)),
        pa.array(random.integers(FIRST_ID, FIRST_ID + len(_STORES), count), pa.int32()),
        pa.array(random.integers(1, 10, count), pa.int32()),
        catalog["price"].combine_chunks().take(pa.array(bought)),
        pa.array(dates),
        pa.array(moments, pa.int64()).cast(_TIMESTAMP),
        pa.array(random.random(count) < 0.3, mask=random.random(count) < 0.05),
        notes.cast(pa.string()),
    ]
    return pa.Table.from_arrays(columns, schema=PRODUCTORDER)


def money(cents: NDArray[np.int64]) -> pa.Array:
    """An Arrow decimal(10,2) array from whole cents."""
    words = np.empty((len(cents), 2), dtype="<i8")  # 128 bits, little endian: low word, then the sign
    words[:, 0] = cents
    words[:, 1] = cents >> 63
    return pa.Array.from_buffers(_MONEY, len(cents), [None, pa.py_buffer(words)])


def price(cents: int) -> Decimal:
    """A price, as in a row."""
    return Decimal(cents).scaleb(-2)


def at(day: date, seconds: int) -> datetime:
    """A time of day in UTC."""
    hours, rest = divmod(seconds, 3600)
    return datetime(day.year, day.month, day.day, hours, rest // 60, rest % 60, tzinfo=timezone.utc)
