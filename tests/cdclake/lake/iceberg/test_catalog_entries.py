"""Entries of the catalog follow the lake, and leave entries of other tables alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from cdclake.control.catalog.sync import sync_tables
from cdclake.errors import ConfigurationError
from cdclake.model.table.name import TableName
from cdclake.model.table.state import TableState
from cdclake_devkit.memory_catalog import MemoryCatalog
from tests.cdclake.lake.iceberg.namesake import COLUMNS, READERS, row, with_undone_history
from tests.cdclake.lake.over_time import TableOverTime

if TYPE_CHECKING:
    from pathlib import Path

    from cdclake.model.layout import LakeLayout

HISTORY = "shop_orders_history"


@pytest.fixture
def catalog() -> MemoryCatalog:
    return MemoryCatalog("lake")


@pytest.mark.sampled(quick=2)
@READERS
@pytest.mark.parametrize("turned_off", [False, True])
def test_an_undone_history_is_empty_in_the_catalog(
    tmp_path: Path, catalog: MemoryCatalog, readers: str, turned_off: bool
) -> None:
    table = TableOverTime(tmp_path, COLUMNS, {"PrimaryKey": "id", "Readers": readers})
    table.load([row(1)])
    table.show_in(catalog)
    table.item["History"] = "true"
    table.apply(("U", row(1, "Ulm")))
    table.show_in(catalog)
    shown = catalog.listing(HISTORY)
    assert shown.table.statistics
    assert shown.table.statistics.rows == 2
    if turned_off:
        table.item["History"] = "false"
        table.apply(("U", row(1, "Bonn")))
        table.show_in(catalog)
        assert catalog.listing(HISTORY).table.statistics == shown.table.statistics
    table.roll_back(1)
    table.show_in(catalog)
    shown = catalog.listing(HISTORY)
    assert shown.table.statistics
    assert (shown.table.statistics.rows, shown.table.metadata_location, shown.partitions) == (0, "", ())
    assert shown.table.location == "s3://lake/shop/orders_history/"
    assert f"{HISTORY}_iceberg" not in catalog.names
    table.item["History"] = "true"
    table.apply(("U", row(1, "Ulm")), ("I", row(2)))
    table.show_in(catalog)
    shown = catalog.listing(HISTORY)
    assert shown.table.statistics
    assert shown.table.statistics.rows > 2
    assert bool(shown.table.metadata_location) == (readers == "iceberg")


@READERS
def test_the_entry_of_a_table_with_the_name_of_a_history_stays(
    tmp_path: Path, catalog: MemoryCatalog, readers: str
) -> None:
    """The catalog was out of reach when the history was rolled back, so its table still shows that it has one."""
    table, other = with_undone_history(tmp_path, readers)
    table.show_in(catalog, 2)
    versions = catalog.listing(HISTORY)
    other.show_in(catalog)
    assert catalog.listing(HISTORY) == versions  # it has no rows yet
    other.load([row(1), row(2)])
    other.show_in(catalog)
    shown = catalog.listing(HISTORY)
    assert shown.table.statistics
    assert shown.table.statistics.rows == 2
    for name in ("", "all_orders"):
        table.show_in(catalog, 3, CatalogTable=name, LastCatalogTable="lake.shop_orders")
        assert catalog.listing(HISTORY) == shown
        assert (f"{HISTORY}_iceberg" in catalog.names) == (readers == "both")


class Named(TableOverTime):
    """A table of any name."""

    name = TableName("shop", "orders")

    @property
    def layout(self) -> LakeLayout:
        return replace(super().layout, name=self.name)


def named(root: Path, table: str, readers: str) -> Named:
    one = Named(root / table.replace("O", "upper-o"), COLUMNS, {"PrimaryKey": "id", "Readers": readers})
    one.name = TableName("shop", table)
    one.load([row(1)])
    return one


CLASHES = [
    *((("orders", readers), ("Orders", readers), "orders") for readers in ("folder", "iceberg", "both")),
    (("orders", "both"), ("orders_iceberg", "iceberg"), "orders_iceberg"),
    (("orders_iceberg", "iceberg"), ("orders", "both"), "orders_iceberg"),
    (("orders_iceberg", "folder"), ("orders", "both"), "orders_iceberg"),
    (("orders_iceberg", "both"), ("orders", "both"), "orders_iceberg"),
]


@pytest.mark.parametrize(("first", "second", "entry"), CLASHES)
def test_two_tables_of_one_name_in_the_catalog(
    tmp_path: Path, catalog: MemoryCatalog, first: tuple[str, str], second: tuple[str, str], entry: str
) -> None:
    one, other = named(tmp_path, *first), named(tmp_path, *second)
    one.show_in(catalog)
    before = catalog.listing(f"shop_{entry}")
    for _ in range(2):
        with pytest.raises(ConfigurationError) as raised:
            other.show_in(catalog)
        assert f"The catalog's table lake.shop_{entry} shows shop.{first[0]}" in str(raised.value)
        assert f"Set CatalogTable of shop.{second[0]} to another name" in str(raised.value)
        assert "Another program" not in str(raised.value)
        assert catalog.listing(f"shop_{entry}") == before
    assert str(other.show_in(catalog, CatalogTable="the_other")) == "lake.the_other"  # the remedy
    one.show_in(catalog)
    assert catalog.listing(f"shop_{entry}") == before


@pytest.mark.parametrize("keeps_parameters", [False, True])
@pytest.mark.parametrize("readers", ["iceberg", "both"])
def test_a_change_of_another_program_is_refused(
    tmp_path: Path, catalog: MemoryCatalog, readers: str, keeps_parameters: bool
) -> None:
    table = named(tmp_path, "orders", readers)
    table.show_in(catalog)
    name = "shop_orders" if readers == "iceberg" else "shop_orders_iceberg"
    shown = catalog.table(name)
    assert shown
    foreign = replace(shown, metadata_location="s3://lake/_iceberg/shop/orders/metadata/00002-4d1f.metadata.json")
    catalog.drop_table(name)
    catalog.create_table(name, foreign if keeps_parameters else replace(foreign, source="", change=None))
    with pytest.raises(ConfigurationError, match=r"Another program changed the Iceberg table .* delete the catalog's"):
        table.show_in(catalog)


def test_a_run_that_was_overtaken_does_not_take_readers_back(tmp_path: Path, catalog: MemoryCatalog) -> None:
    table = named(tmp_path, "orders", "iceberg")
    table.apply(("I", row(3)))
    table.show_in(catalog)
    shown = catalog.listing("shop_orders")
    table.show_in(catalog, 1)
    assert catalog.listing("shop_orders") == shown


def test_the_catalog_follows_a_lake_in_another_bucket(tmp_path: Path, catalog: MemoryCatalog) -> None:
    table = named(tmp_path, "orders", "iceberg")
    table.show_in(catalog)
    moved = replace(table.layout, bucket="lake-2")
    state = TableState({**TableState.new("raw", "shop/", "orders/").item, **table.item})
    sync_tables(catalog, state, moved, table.log.snapshot(1), lambda: None)
    shown = catalog.table("shop_orders")
    assert shown
    assert shown.metadata_location == "s3://lake-2/_iceberg/shop/orders/metadata/v1.metadata.json"
