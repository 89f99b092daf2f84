"""The catalog entry of a lake table, and the plan to update the catalog to it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.control.catalog.live_view import live_view
from cdclake.control.catalog.plan import catalog_entry, empty_entry, plan_catalog, table_name
from cdclake.control.catalog.sync import apply_plan
from cdclake.errors import ConfigurationError
from cdclake.model.catalog import CatalogEntry, CatalogName, CatalogPartition, CatalogTable, Statistics
from cdclake.model.layout import LakeLayout
from cdclake.model.partition_folder import HIVE_NULL_PARTITION
from cdclake.model.schema import Column, Schema
from cdclake.model.snapshot import DataFile, Snapshot
from cdclake.model.table.name import TableName
from cdclake_devkit.memory_catalog import MemoryCatalog

ORDERS = LakeLayout("lake-bucket", "lake/", TableName("shop", "Orders"))
FOLDER = "s3://lake-bucket/lake/shop/Orders/"
SCHEMA = Schema((Column("Id", "bigint"), Column("Day", "date"), Column("price", "decimal(10,2)")))
ADDED = (Column("op", "string"), Column("_cdc_position", "string"))


def data_file(*partition: str | None, key: tuple[str, ...] = ("Day",), rows: int = 10, number: int = 1) -> DataFile:
    return DataFile(LakeLayout.data_path(1, number, key, partition), rows, rows * 100, partition)


def snapshot(*files: DataFile, change: int = 7, key: tuple[str, ...] = ("Day",), schema: Schema = SCHEMA) -> Snapshot:
    return Snapshot(change=change, schema=schema, partition_key=key, files=files)


@pytest.mark.parametrize(
    ("schema", "table", "name"),
    [
        ("shop", "orders", "shop_orders"),
        ("dbo", "Order-Lines", "dbo_order_lines"),
        ("", "orders", "orders"),
        ("shop", "größe.neu", "shop_gr__e_neu"),
    ],
)
def test_the_name_of_a_table_has_schema_and_table_in_the_form_that_athena_accepts(schema: str, table: str, name: str):
    assert table_name(TableName(schema, table)) == name


def test_an_operator_can_choose_another_name():
    assert table_name(TableName("shop", "orders"), "orders_2024") == "orders_2024"


@pytest.mark.parametrize("chosen", ["Orders", "order-lines", "a.b", "x" * 256])
def test_a_name_that_athena_refuses_is_refused_with_a_remedy(chosen: str):
    with pytest.raises(ConfigurationError, match="Set CatalogTable to"):
        table_name(TableName("shop", "orders"), chosen)


def test_a_name_that_is_too_long_is_refused():
    with pytest.raises(ConfigurationError, match="at most 255"):
        table_name(TableName("s" * 200, "t" * 200))


def test_columns_have_lower_case_names_and_their_types_and_the_added_ones_come_last():
    table = catalog_entry(snapshot(), ORDERS).table
    assert table.columns == (Column("id", "bigint"), Column("price", "decimal(10,2)"), *ADDED)
    assert table.partition_columns == (Column("day", "date"),)
    assert (table.location, table.source, table.change) == (FOLDER, "shop.Orders", 7)


def test_a_partition_has_its_escaped_folder_and_its_unescaped_value():
    schema = Schema((Column("Id", "bigint"), Column("Day", "string")))
    files = [data_file("a/b=1"), data_file("a/b=1", rows=5, number=2), data_file(None), data_file("02134")]
    partitions = {one.values: one for one in catalog_entry(snapshot(*files, schema=schema), ORDERS).partitions}
    assert {values: one.location for values, one in partitions.items()} == {
        ("a/b=1",): f"{FOLDER}Day=a%2Fb%3D1/",
        ("02134",): f"{FOLDER}Day=02134/",
        (HIVE_NULL_PARTITION,): f"{FOLDER}Day={HIVE_NULL_PARTITION}/",
    }
    assert partitions["a/b=1",].statistics == Statistics(rows=15, files=2, bytes=1500)


def test_a_table_that_is_not_partitioned_has_no_partitions():
    listing = catalog_entry(snapshot(data_file(key=()), data_file(key=(), rows=1, number=2), key=()), ORDERS)
    assert listing.partitions == ()
    assert listing.table.partition_columns == ()
    assert listing.table.statistics == Statistics(rows=11, files=2, bytes=1100)


def test_columns_that_the_catalog_refuses_are_left_out_and_listed():
    odd = ("a,b", " lead", "two\nlines", "x" * 256)
    fine = ("order-date", "größe", "a b", "x:y")
    schema = Schema((Column("id", "int"), *(Column(name, "int") for name in odd + fine)))
    table = catalog_entry(snapshot(key=(), schema=schema), ORDERS).table
    assert [column.name for column in table.columns] == ["id", *fine, "op", "_cdc_position"]
    assert table.left_out == odd


def test_a_partition_column_that_the_catalog_refuses_is_an_error():
    schema = Schema((Column("id", "int"), Column("a,b", "int")))
    with pytest.raises(ConfigurationError, match="partition column 'a,b'"):
        catalog_entry(snapshot(key=("a,b",), schema=schema), ORDERS)


def test_a_binary_partition_column_is_declared_as_text():
    schema = Schema((Column("id", "int"), Column("Day", "binary")))
    assert catalog_entry(snapshot(schema=schema), ORDERS).table.partition_columns == (Column("day", "string"),)


def test_a_partition_in_two_folders_is_refused():
    other = replace(data_file("a b"), path="Day=a%20b/part-0.parquet")
    with pytest.raises(ConfigurationError, match=r"Day=a b/ and Day=a%20b/"):
        catalog_entry(snapshot(data_file("a b"), other), ORDERS)


columns = st.lists(
    st.builds(Column, st.sampled_from(["a", "b", "c"]), st.sampled_from(["int", "bigint"])), max_size=3
).map(tuple)
statistics = st.none() | st.builds(Statistics, *[st.integers(0, 2)] * 3)
locations = st.sampled_from(["s3://lake/a/", "s3://lake/b/"])
tables = st.builds(
    CatalogTable,
    location=locations,
    columns=columns,
    partition_columns=st.sampled_from([(Column("p", "int"),), (Column("p", "string"),), (Column("q", "int"),)]),
    statistics=statistics,
    source=st.just("shop.orders"),
    change=st.none() | st.integers(1, 3),
    left_out=st.sampled_from([(), ("x,y",)]),
    parquet=st.booleans(),
)
partitions = st.builds(
    CatalogPartition,
    values=st.sampled_from("uvwxyz").map(lambda value: (value,)),
    location=locations,
    columns=columns,
    statistics=statistics,
    parquet=st.booleans(),
)
listings = st.builds(
    lambda table, those: CatalogEntry(table, tuple(sorted(those, key=lambda one: one.values))),
    tables,
    st.lists(partitions, max_size=6, unique_by=lambda one: one.values),
)


class DiesError(Exception):
    """The run dies."""


def catalog_with(current: CatalogEntry | None) -> MemoryCatalog:
    catalog = MemoryCatalog()
    if current:
        catalog.create_table("t", current.table)
        catalog.create_partitions("t", current.partitions)
    return catalog


def bring_in_line(catalog: MemoryCatalog, target: CatalogEntry, dies_after: int | None = None) -> None:
    def keep_alive() -> None:
        nonlocal dies_after
        if dies_after == 0:
            raise DiesError
        dies_after = None if dies_after is None else dies_after - 1

    current = catalog.listing("t") if "t" in catalog.names else None
    apply_plan(catalog, "t", plan_catalog(target, current), keep_alive)


@given(st.none() | listings, listings)
def test_the_plan_turns_any_catalog_entry_into_the_target(current: CatalogEntry | None, target: CatalogEntry):
    catalog = catalog_with(current)
    bring_in_line(catalog, target)
    assert catalog.listing("t") == target
    again = plan_catalog(target, catalog.listing("t"))
    assert not (again.drop_table or again.create_table or again.create or again.update or again.drop)
    assert again.update_table is None


@given(st.none() | listings, listings, st.integers(0, 3))
def test_a_dead_run_never_claims_the_change_and_the_next_run_repairs_the_catalog(
    current: CatalogEntry | None, target: CatalogEntry, dies_after: int
):
    target = replace(target, table=replace(target.table, change=9))
    catalog = catalog_with(current)
    try:
        bring_in_line(catalog, target, dies_after)
    except DiesError:
        table = catalog.table("t")
        assert table is None or table.change != 9
    bring_in_line(catalog, target)
    assert catalog.listing("t") == target


@given(listings)
def test_an_equal_entry_needs_no_update(listing: CatalogEntry):
    changed = replace(listing, partitions=(*listing.partitions, CatalogPartition(("new",), "s3://x/", (), None)))
    plan = plan_catalog(changed, listing)
    assert [one.values for one in plan.create] == [("new",)]
    assert (plan.update, plan.drop, plan.update_table) == ((), (), None)


def test_other_partition_columns_need_a_new_table_and_other_types_do_not():
    before = catalog_entry(snapshot(data_file("2024-03-05")), ORDERS)
    typed = Schema((Column("Id", "bigint"), Column("Day", "string"), Column("price", "decimal(10,2)")))
    retyped = plan_catalog(catalog_entry(snapshot(data_file("2024-03-05"), schema=typed), ORDERS), before)
    assert not retyped.drop_table
    assert retyped.update_table
    flat = plan_catalog(catalog_entry(snapshot(data_file(key=()), key=()), ORDERS), before)
    assert flat.drop_table
    assert flat.create_table
    assert flat.drop == (("2024-03-05",),)


def test_a_table_whose_changes_were_all_undone_stays_without_rows():
    table = catalog_entry(snapshot(data_file("2024-03-05")), ORDERS).table
    listing = empty_entry(table, ORDERS, 8)
    assert listing.partitions == ()
    assert listing.table == replace(table, statistics=Statistics(), change=8)


def test_the_view_of_live_rows_has_all_columns_and_quotes_every_name():
    columns = (Column('a"b', "int"), Column("order-date", "date"), Column("op", "string"))
    table = CatalogTable("s3://x/", columns, (Column("day", "date"),), Statistics(), "shop.orders", 7, has_view=True)
    view = live_view(table, CatalogName("la-ke", "shop_orders"))
    assert view.query == (
        'SELECT "a""b", "order-date", "op", "day" FROM "la-ke"."shop_orders" WHERE "op" IS DISTINCT FROM \'D\''
    )
    assert view.columns == (*columns, Column("day", "date"))
    assert (view.source, view.change, view.partition_columns) == ("shop.orders (live rows)", None, ())
