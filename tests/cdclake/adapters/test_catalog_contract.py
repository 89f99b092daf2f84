"""The contract of catalogs, run on all adapters."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from cdclake.adapters import aws as aws_clients
from cdclake.adapters.catalog import GlueCatalog
from cdclake.model.catalog import CatalogPartition, CatalogTable, Statistics
from cdclake.model.partition_folder import HIVE_NULL_PARTITION
from cdclake.model.schema import Column
from cdclake_devkit.memory_catalog import MemoryCatalog

if TYPE_CHECKING:
    from cdclake.ports import Catalog

COLUMNS = (Column("id", "bigint"), Column("order-date", "date"), Column("op", "string"))
TABLE = CatalogTable(
    location="s3://lake/shop/orders/",
    columns=COLUMNS,
    partition_columns=(Column("shop", "string"), Column("day", "date")),
    statistics=Statistics(rows=3, files=2, bytes=700),
    source="shop.orders",
    change=None,
    left_out=("a,b", "ü"),
)


def partition(shop: str, day: str = "2024-03-05", rows: int = 1) -> CatalogPartition:
    location = f"s3://lake/shop/orders/shop={shop}/day={day}/"
    return CatalogPartition((shop, day), location, COLUMNS, Statistics(rows, 1, rows * 10))


@pytest.fixture(params=["memory", pytest.param("glue", marks=pytest.mark.aws)])
def catalog(request: pytest.FixtureRequest) -> Catalog:
    """Each kind of catalog, empty."""
    if request.param == "memory":
        return MemoryCatalog()
    request.getfixturevalue("aws")
    client = aws_clients.client("glue")
    client.create_database(DatabaseInput={"Name": "lake"})
    return GlueCatalog(client, "lake")


def test_a_table_is_read_as_it_was_written(catalog: Catalog):
    assert catalog.database == "lake"
    assert catalog.table("shop_orders") is None
    catalog.create_table("shop_orders", TABLE)
    assert catalog.table("shop_orders") == TABLE
    changed = replace(TABLE, columns=COLUMNS[1:], change=42, left_out=(), statistics=Statistics(0, 0, 0))
    catalog.update_table("shop_orders", changed)
    assert catalog.table("shop_orders") == changed


def test_an_iceberg_table_is_read_as_it_was_written(catalog: Catalog):
    """A table becomes an Iceberg table and plain Parquet again."""
    plain = replace(TABLE, partition_columns=(), left_out=())
    iceberg = replace(
        plain, parquet=False, metadata_location="s3://lake/_iceberg/shop/orders/metadata/v1.metadata.json"
    )
    newer = replace(iceberg, metadata_location="s3://lake/_iceberg/shop/orders/metadata/v2.metadata.json")
    catalog.create_table("shop_orders", plain)
    for table in (iceberg, newer, plain, iceberg):
        catalog.update_table("shop_orders", table)
        assert catalog.table("shop_orders") == table


def test_an_iceberg_table_is_not_taken_back_to_an_earlier_change(catalog: Catalog):
    """As a run would that paused past its lease, between reading the catalog and updating it."""
    plain = replace(TABLE, partition_columns=(), left_out=(), change=1)
    folder = "s3://lake/_iceberg/shop/orders/metadata"
    second, third = (
        replace(plain, parquet=False, change=change, metadata_location=f"{folder}/v{change}.metadata.json")
        for change in (2, 3)
    )
    catalog.create_table("shop_orders", plain)
    catalog.update_table("shop_orders", third)
    for earlier in (second, plain):
        catalog.update_table("shop_orders", earlier)
        assert catalog.table("shop_orders") == third


def test_a_view_is_read_as_it_was_written(catalog: Catalog):
    columns = (*COLUMNS, Column("a", "int"), Column("b", "decimal(12,2)"))
    view = CatalogTable("", columns, (), None, "shop.orders (live rows)", None, parquet=False, query='SELECT "é*/"')
    catalog.create_table("live", view)
    assert catalog.table("live") == view
    changed = replace(view, columns=columns[1:], query="SELECT 1")
    catalog.update_table("live", changed)
    assert catalog.table("live") == changed
    with_view = replace(TABLE, has_view=True)
    catalog.create_table("shop_orders", with_view)
    assert catalog.table("shop_orders") == with_view
    catalog.update_table("shop_orders", TABLE)
    assert catalog.table("shop_orders") == TABLE


def test_more_partitions_than_fit_into_a_request_are_created_read_updated_and_dropped(catalog: Catalog):
    catalog.create_table("shop_orders", TABLE)
    many = [partition(f"shop {number}") for number in range(230)] + [partition("ü/=%", HIVE_NULL_PARTITION)]
    catalog.create_partitions("shop_orders", many)
    assert sorted(catalog.partitions("shop_orders"), key=str) == sorted(many, key=str)
    more = [replace(one, statistics=Statistics(5, 5, 5)) for one in many[50:]]
    catalog.update_partitions("shop_orders", more)
    assert sorted(catalog.partitions("shop_orders"), key=str) == sorted([*many[:50], *more], key=str)
    catalog.drop_partitions("shop_orders", [one.values for one in many[10:]] + [("never", "there")])
    assert sorted(catalog.partitions("shop_orders"), key=str) == sorted(many[:10], key=str)


def test_dropping_a_table_drops_its_partitions_and_an_absent_table_is_no_error(catalog: Catalog):
    catalog.create_table("shop_orders", TABLE)
    catalog.create_partitions("shop_orders", [partition("a")])
    catalog.drop_table("shop_orders")
    catalog.drop_table("shop_orders")
    assert catalog.table("shop_orders") is None
    catalog.create_table("shop_orders", TABLE)
    assert list(catalog.partitions("shop_orders")) == []
