"""The catalog follows the lake table, and its errors lose no rows."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from cdclake.adapters import aws as aws_clients
from cdclake.adapters.catalog import GlueCatalog
from cdclake.commit.publish import publish
from cdclake.control.admin.table_admin import RegisteredTable
from cdclake.control.catalog.live_view import live_view
from cdclake.control.catalog.plan import catalog_entry
from cdclake.control.controller import execute, plan
from cdclake.control.jobs.entry import StoppedError
from cdclake.control.run.bring_up_to_date import bring_up_to_date
from cdclake.errors import LakeFilesError, RetryableError
from cdclake.model.catalog import CatalogEntry, CatalogName, CatalogTable, Statistics
from cdclake.model.change.books import Books
from cdclake.model.change.record import StagedFile
from cdclake.model.layout import HISTORY
from cdclake.model.metrics import Measure
from cdclake.model.names import JOB_PROCESS_TABLE, Sentinel
from cdclake.model.partition_folder import HIVE_NULL_PARTITION
from cdclake.model.schema import Column, Schema
from cdclake.model.snapshot import DataFile, History
from cdclake.model.table.attributes import Attribute
from cdclake_devkit.memory_catalog import MemoryCatalog
from tests.builders import change_record
from tests.cdclake.control.world import LAKE, LAKE_PREFIX, ORDERS, World

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cdclake.control.run.report import TableReport
    from cdclake.ports import Catalog

NAME, LIVE = "shop_orders", "shop_orders_live"
INT, WIDE = (Schema((Column("id", kind), Column("day", "string"))) for kind in ("int", "bigint"))
BUSY = RetryableError("Glue is busy", remedy="Run again")


class BrokenCatalog(MemoryCatalog):
    """Raises the error in `table` while one is set."""

    def __init__(self, error: BaseException | None = None) -> None:
        super().__init__()
        self.error = error

    def table(self, name: str) -> CatalogTable | None:
        if self.error:
            raise self.error
        return super().table(name)


@pytest.fixture
def catalog() -> MemoryCatalog:
    return MemoryCatalog()


@pytest.fixture
def orders(world: World) -> World:
    world.register()
    return world


def run(world: World, catalog: Catalog | None) -> TableReport:
    ports = replace(world.ports, catalog=catalog)
    return bring_up_to_date([ORDERS], LAKE, LAKE_PREFIX, "run-1", ports, world.load_due).only


def change(
    world: World,
    *days: str | None,
    schema: Schema = INT,
    key: tuple[str, ...] = ("day",),
    versions: Sequence[tuple[str, str]] = (),
    deleted: int = 0,
    and_publish: bool = True,
) -> None:
    """Commit one file of ten rows per day to the lake table, as a Spark job does, and one per month to its history."""
    world.states.set_attributes(ORDERS, {Attribute.PARTITION_KEY: ",".join(key) or Sentinel.NONE})
    log = world.log()
    before = log.snapshot(log.head())
    number = before.change + 1
    files, staged = [], []
    for place, day in enumerate(days):
        values = (day,) if key else ()
        path = log.layout.data_path(number, place, key, values)
        staged.append(StagedFile(f"{log.layout.staging_prefix(number, 'jr')}{place}", path))
        world.lake.put(staged[-1].staged_key, b"x" * 100)
        files.append(DataFile(path, 10, 100, values, deleted=deleted))
    history = None
    for place, month in enumerate(versions, len(days)):
        path = HISTORY + log.layout.data_path(number, place, ("year", "month"), month)
        staged.append(StagedFile(f"{log.layout.staging_prefix(number, 'jr')}{place}", path))
        world.lake.put(staged[-1].staged_key, b"x" * 100)
        known = history.open if history else ()
        history = History(schema, ("id",), open=(*known, DataFile(path, 10, 100, month)), since=number)
    after = replace(before, change=number, schema=schema, partition_key=key, files=tuple(files), history=history)
    retired = tuple(file.path for file in before.all_files)
    books = Books(replaced=before.rows, inserted=after.rows, rows_before=before.rows, rows_after=after.rows)
    books = replace(books, read_insert=after.rows, applied=after.rows)
    key_of = log.write_snapshot(after, "jr")
    token = log.fencing_token(before.change)
    record = change_record(
        number,
        created_utc=world.clock().isoformat(),
        fencing_token=token,
        books=books,
        added=tuple(staged),
        retired=retired,
        snapshot_key=key_of,
    )
    log.commit(record)
    if and_publish:
        publish(log, record)


def expected(world: World) -> CatalogEntry:
    log = world.log()
    listing = catalog_entry(log.snapshot(log.head()), log.layout)
    return replace(listing, partitions=tuple(sorted(listing.partitions, key=lambda one: one.values)))


def item(world: World) -> dict[str, str]:
    return {Attribute.LAST_CATALOG_ERROR: "", **world.state().item}


def test_a_table_without_a_load_is_not_in_the_catalog(orders: World, catalog: MemoryCatalog):
    run(orders, catalog)
    assert catalog.names == set()
    assert Attribute.LAST_CATALOG_TABLE not in item(orders)


def test_a_run_shows_the_loaded_table_in_the_catalog_and_records_its_name(orders: World, catalog: MemoryCatalog):
    orders.put("LOAD00000001.parquet")
    run(orders, catalog)
    assert catalog.listing(NAME) == expected(orders)
    assert item(orders)[Attribute.LAST_CATALOG_TABLE] == "lake.shop_orders"
    assert item(orders)[Attribute.LAST_CATALOG_ERROR] == ""


def test_columns_partitions_and_statistics_follow_every_change(orders: World, catalog: MemoryCatalog):
    changes: list[tuple[tuple[str | None, ...], Schema, tuple[str, ...]]] = [
        (("2024-03-05", None), INT, ("day",)),
        (("2024-03-05", "2024-03-06"), INT, ("day",)),
        (("2024-03-06",), WIDE, ("day",)),
        (("x",), WIDE, ()),
        (("a/b", ""), INT, ("day",)),
    ]
    for days, schema, key in changes:
        change(orders, *days, schema=schema, key=key)
        run(orders, catalog)
        assert catalog.listing(NAME) == expected(orders)
    values = [partition.values for partition in catalog.listing(NAME).partitions]
    assert values == [(HIVE_NULL_PARTITION,), ("a/b",)]
    assert catalog.listing(NAME).table.statistics == Statistics(rows=20, files=2, bytes=200)


def test_a_history_is_a_second_table(orders: World, catalog: MemoryCatalog):
    change(orders, "2024-03-05", versions=(("2024", "03"), ("2024", "04")))
    run(orders, catalog)
    shown = catalog.listing(f"{NAME}_history")
    assert shown.table.location == f"s3://{LAKE}/{LAKE_PREFIX}shop/orders_history/"
    assert [column.name for column in shown.table.columns][-3:] == ["validity_flag", "change_id", "_cdc_position"]
    assert [column.name for column in shown.table.partition_columns] == ["year", "month"]
    assert [partition.values for partition in shown.partitions] == [("2024", "03"), ("2024", "04")]
    assert shown.partitions[0].location == f"{shown.table.location}year=2024/month=03/"
    assert shown.table.statistics == Statistics(rows=20, files=2, bytes=200)
    assert catalog.listing(NAME) == expected(orders)


def test_the_history_table_is_renamed_and_emptied_with_its_table(orders: World, catalog: MemoryCatalog):
    orders.states.set_attributes(ORDERS, {Attribute.HISTORY: "true"})
    change(orders, "2024-03-05", versions=(("2024", "03"),))
    run(orders, catalog)
    orders.states.set_attributes(ORDERS, {Attribute.CATALOG_TABLE: "all_orders"})
    run(orders, catalog)
    assert catalog.names == {"all_orders", "all_orders_history"}
    by_hand(orders, catalog).rollback(to=0)
    assert catalog.listing("all_orders_history").partitions == ()


def softly(world: World, mode: str = "soft") -> None:
    world.states.set_attributes(ORDERS, {Attribute.DELETE_MODE: mode})


def view_of(world: World) -> CatalogTable:
    table = replace(expected(world).table, has_view=True)
    return live_view(table, CatalogName("lake", NAME))


def test_a_table_with_soft_deletes_has_a_view_of_its_live_rows(orders: World, catalog: MemoryCatalog):
    softly(orders)
    change(orders, "2024-03-05")
    run(orders, catalog)
    assert catalog.names == {NAME, LIVE}
    assert catalog.table(LIVE) == view_of(orders)
    change(orders, "2024-03-06", schema=WIDE)
    run(orders, catalog)
    assert catalog.table(LIVE) == view_of(orders)
    assert "bigint" in {column.type for column in view_of(orders).columns}
    catalog.drop_table(LIVE)
    run(orders, catalog)
    assert catalog.table(LIVE) == view_of(orders)


def test_the_view_is_dropped_with_the_last_soft_deleted_row(orders: World, catalog: MemoryCatalog):
    softly(orders)
    change(orders, "2024-03-05", deleted=4)
    run(orders, catalog)
    shown = catalog.table(NAME)
    assert shown is not None
    assert shown.statistics == Statistics(rows=10, files=1, bytes=100)  # as read by a query of the table
    softly(orders, "hard")
    run(orders, catalog)
    assert catalog.names == {NAME, LIVE}
    change(orders, "2024-03-05")
    run(orders, catalog)
    assert catalog.names == {NAME}
    assert catalog.listing(NAME) == expected(orders)


def test_a_view_of_another_owner_is_not_changed_but_reported(orders: World, catalog: MemoryCatalog):
    softly(orders)
    change(orders, "2024-03-05")
    other = CatalogTable("", (), (), None, "", None, parquet=False, query="SELECT 1")
    catalog.create_table(LIVE, other)
    run(orders, catalog)
    assert catalog.table(LIVE) == other
    assert f"The catalog's table lake.{LIVE} is not cdclake's" in item(orders)[Attribute.LAST_CATALOG_ERROR]
    assert catalog.table(NAME) == replace(expected(orders).table, has_view=True)
    softly(orders, "hard")
    run(orders, catalog)
    assert catalog.table(LIVE) == other


def test_the_view_follows_the_chosen_name_even_if_that_was_its_own_name(orders: World, catalog: MemoryCatalog):
    softly(orders)
    change(orders, "2024-03-05")
    run(orders, catalog)
    orders.states.set_attributes(ORDERS, {Attribute.CATALOG_TABLE: "all_orders"})
    run(orders, catalog)
    assert catalog.names == {"all_orders", "all_orders_live"}
    orders.states.set_attributes(ORDERS, {Attribute.CATALOG_TABLE: "all_orders_live"})
    run(orders, catalog)
    assert "shows shop.orders (live rows)" in item(orders)[Attribute.LAST_CATALOG_ERROR]
    assert catalog.names == {"all_orders", "all_orders_live"}


def test_a_change_that_a_dead_run_left_unpublished_is_shown_once_it_is_published(orders: World, catalog: MemoryCatalog):
    change(orders, "2024-03-05", and_publish=False)
    run(orders, catalog)
    assert catalog.listing(NAME) == expected(orders)


def test_an_up_to_date_catalog_takes_one_request_and_no_writes(orders: World):
    class Counted(MemoryCatalog):
        calls: list[str] = []  # noqa: RUF012 - one test, one catalog

        def __getattribute__(self, name: str) -> object:
            if name in {"table", "partitions"} or name.startswith(("create", "update", "drop")):
                type(self).calls.append(name)
            return super().__getattribute__(name)

    catalog = Counted()
    change(orders, "2024-03-05")
    run(orders, catalog)
    Counted.calls.clear()
    run(orders, catalog)
    assert Counted.calls == ["table"]


def test_without_a_catalog_the_item_has_no_catalog_attributes(orders: World):
    change(orders, "2024-03-05")
    run(orders, None)
    assert not {Attribute.LAST_CATALOG_TABLE, Attribute.LAST_CATALOG_ERROR} & set(orders.state().item)


def test_the_next_run_repairs_a_dropped_or_changed_table(orders: World, catalog: MemoryCatalog):
    change(orders, "2024-03-05")
    run(orders, catalog)
    catalog.drop_table(NAME)
    run(orders, catalog)
    assert catalog.listing(NAME) == expected(orders)
    catalog.update_table(NAME, replace(catalog.listing(NAME).table, columns=()))
    run(orders, catalog)
    assert catalog.listing(NAME) == expected(orders)


def test_a_crawlers_table_of_this_folder_is_taken_over(orders: World, catalog: MemoryCatalog):
    change(orders, "2024-03-05")
    crawled = replace(expected(orders).table, source="", change=None, location=f"s3://{LAKE}/lake/shop/orders")
    catalog.create_table(NAME, crawled)
    run(orders, catalog)
    assert catalog.listing(NAME) == expected(orders)


@pytest.mark.parametrize(
    ("source", "location", "problem"),
    [
        ("shop_o.rders", "s3://lake-bucket/lake/shop_o/rders/", "shows shop_o.rders"),
        ("", "s3://else/", "is not cdclake's: it shows s3://else/"),
    ],
)
def test_a_table_of_another_owner_is_not_changed_but_reported(
    orders: World, catalog: MemoryCatalog, source: str, location: str, problem: str
):
    change(orders, "2024-03-05")
    other = replace(expected(orders).table, source=source, location=location)
    catalog.create_table(NAME, other)
    assert run(orders, catalog).outcome == "done"
    assert catalog.table(NAME) == other
    error = item(orders)[Attribute.LAST_CATALOG_ERROR]
    assert problem in error
    assert "Set CatalogTable of shop.orders" in error


def test_a_table_with_a_chosen_name_exists_once(orders: World, catalog: MemoryCatalog):
    change(orders, "2024-03-05")
    run(orders, catalog)
    orders.states.set_attributes(ORDERS, {Attribute.CATALOG_TABLE: "all_orders"})
    run(orders, catalog)
    assert catalog.names == {"all_orders"}
    assert catalog.listing("all_orders") == expected(orders)
    assert item(orders)[Attribute.LAST_CATALOG_TABLE] == "lake.all_orders"


def test_a_table_keeps_its_name_until_the_chosen_name_exists(orders: World, catalog: MemoryCatalog):
    change(orders, "2024-03-05")
    run(orders, catalog)
    other = replace(expected(orders).table, source="shop.items")
    catalog.create_table("taken", other)
    orders.states.set_attributes(ORDERS, {Attribute.CATALOG_TABLE: "taken"})
    run(orders, catalog)
    assert catalog.listing(NAME) == expected(orders)
    catalog.drop_table("taken")
    run(orders, catalog)
    assert catalog.names == {"taken"}


@pytest.mark.parametrize("error", [BUSY, ValueError("a defect")])
def test_a_catalog_error_loses_no_change_and_the_next_run_repairs_the_catalog(
    orders: World, error: Exception, caplog: pytest.LogCaptureFixture
):
    catalog = BrokenCatalog(error)
    orders.put("LOAD00000001.parquet")
    report = run(orders, catalog)
    assert (report.outcome, report.error) == ("done", "")
    assert report.to_json()["catalog_error"] == item(orders)[Attribute.LAST_CATALOG_ERROR]
    failures = [one.value for one in orders.metrics.metrics if one.measure is Measure.FAILURES]
    assert failures == [0, 1]
    now = item(orders)
    assert (now[Attribute.LAST_RUN_STATE], now[Attribute.LAST_CHANGE_ID]) == ("SUCCEEDED", "1")
    assert now[Attribute.LAST_CATALOG_ERROR].startswith(f"{type(error).__name__}: ")
    assert Attribute.LEASE_HOLDER not in now
    errors = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert {one.message for one in errors} == {"the catalog could not be updated"}
    assert all(bool(one.exc_info) == isinstance(error, ValueError) for one in errors)

    catalog.error = None
    assert run(orders, catalog).catalog_error == ""
    assert catalog.listing(NAME) == expected(orders)
    assert item(orders)[Attribute.LAST_CATALOG_ERROR] == ""


def test_the_controller_starts_a_run_for_a_stale_catalog_without_due_files(orders: World):
    catalog = BrokenCatalog(BUSY)
    orders.put("LOAD00000001.parquet")
    run(orders, catalog)
    starts = len(orders.jobs.started)
    now = orders.clock()
    planned = plan(orders.plan_inputs, now)
    (table,) = planned.tables
    assert table.decision
    assert "the catalog could not be updated: RetryableError: Glue is busy" in table.decision.reason
    execute(planned, orders.states, orders.jobs, orders.clock)
    assert [start.job for start in orders.jobs.started[starts:]] == [JOB_PROCESS_TABLE]
    run(orders, None)  # the catalog is turned off
    assert plan(orders.plan_inputs, now).tables[0].action.value == "none"


def test_a_clean_up_leaves_files_that_a_stale_catalog_may_name(orders: World):
    catalog = BrokenCatalog()
    for day in ("2024-03-05", "2024-03-06"):
        change(orders, day)
        run(orders, catalog)
    layout = orders.log().layout
    keys = [layout.iceberg_metadata_key(1), f"{layout.manifest_prefix(1, 'run')}-m00001.avro"]
    for key in keys:
        orders.lake.put(key, b"")

    def left_after_a_clean_up() -> list[str]:
        orders.clock.advance(timedelta(days=40).total_seconds())
        run(orders, catalog)
        return [entry.key for entry in orders.lake.list(layout.iceberg_prefix)]

    catalog.error = BUSY
    assert [left_after_a_clean_up() for _ in range(2)] == [sorted(keys)] * 2
    assert orders.log().retained().first == 2
    catalog.error = None
    assert left_after_a_clean_up() == []


def test_a_run_stopped_during_the_catalog_update_stops(orders: World):
    catalog = BrokenCatalog(StoppedError("The run was asked to stop"))
    change(orders, "2024-03-05")
    with pytest.raises(StoppedError):
        run(orders, catalog)
    assert item(orders)[Attribute.LAST_CATALOG_ERROR] == ""


def test_a_command_that_deletes_what_the_catalog_names_fails_if_the_catalog_cannot_follow(orders: World):
    catalog = BrokenCatalog()
    change(orders, "2024-03-05")
    run(orders, catalog)
    change(orders, "2024-03-06")
    table = by_hand(orders, catalog)

    def at_once(_token: int) -> CatalogTable | None:
        table.update_catalog()
        return catalog.table(NAME)

    assert table.change(at_once) == expected(orders).table
    catalog.error = BUSY
    with pytest.raises(RetryableError, match=r"could not be updated.*Glue is busy"):
        table.change(at_once)
    assert "Glue is busy" in item(orders)[Attribute.LAST_CATALOG_ERROR]
    catalog.error = None
    assert table.change(at_once) == expected(orders).table
    assert item(orders)[Attribute.LAST_CATALOG_ERROR] == ""


def by_hand(world: World, catalog: Catalog) -> RegisteredTable:
    def open_catalog(database: str) -> Catalog:
        assert database == catalog.database
        return catalog

    return RegisteredTable(world.states, world.state(), world.log(), "by-hand", world.clock, open_catalog)


@pytest.fixture
def shown(orders: World, catalog: MemoryCatalog) -> Iterator[World]:
    """A table with two changes in the catalog. At the end of each test, the catalog must equal the table."""
    change(orders, "2024-03-05")
    change(orders, "2024-03-05", "2024-03-06", schema=WIDE)
    run(orders, catalog)
    yield orders
    if orders.log().snapshot(orders.log().head()).exists:
        assert catalog.listing(NAME) == expected(orders)


def test_a_rollback_and_a_reapply_update_the_catalog_even_if_the_table_is_off(shown: World, catalog: MemoryCatalog):
    by_hand(shown, catalog).rollback()
    listing = catalog.listing(NAME)
    assert [one.values for one in listing.partitions] == [("2024-03-05",)]
    assert (listing.table.columns[0].type, listing.table.change) == ("int", 3)
    by_hand(shown, catalog).reapply()
    assert len(catalog.listing(NAME).partitions) == 2


def test_a_table_rolled_back_to_nothing_stays_in_the_catalog_without_rows(shown: World, catalog: MemoryCatalog):
    columns = catalog.listing(NAME).table.columns
    by_hand(shown, catalog).rollback(to=0)
    listing = catalog.listing(NAME)
    assert (listing.table.columns, listing.partitions) == (columns, ())
    assert listing.table.statistics == Statistics()


def test_a_repair_updates_the_catalog(shown: World, catalog: MemoryCatalog):
    catalog.drop_table(NAME)
    by_hand(shown, catalog).repair()
    assert catalog.names == {NAME}


def test_a_catalog_error_does_not_fail_an_operation_by_hand(shown: World, catalog: MemoryCatalog):
    broken = BrokenCatalog(BUSY)
    by_hand(shown, broken).rollback()
    assert item(shown)[Attribute.LAST_CHANGE_ID] == "3"
    assert "Glue is busy" in item(shown)[Attribute.LAST_CATALOG_ERROR]
    by_hand(shown, catalog).repair()
    assert item(shown)[Attribute.LAST_CATALOG_ERROR] == ""


def test_a_failed_operation_by_hand_does_not_update_the_catalog(shown: World, catalog: MemoryCatalog):
    broken = BrokenCatalog(AssertionError("the catalog was asked"))
    shown.lake.put(f"{shown.log().layout.table_prefix}stranger.parquet", b"")
    with pytest.raises(LakeFilesError):
        by_hand(shown, broken).rollback()
    assert item(shown)[Attribute.LAST_CATALOG_ERROR] == ""


def test_a_run_on_the_embedded_glue_writes_what_athena_reads(orders: World, aws: None):
    glue = aws_clients.client("glue")
    glue.create_database(DatabaseInput={"Name": "lake"})
    catalog = GlueCatalog(glue, "lake")
    change(orders, "2024-03-04", None, *(f"2024-03-{day:02d}" for day in range(5, 30)))
    run(orders, catalog)
    change(orders, "2024-03-05", "a b/c", schema=WIDE)
    run(orders, catalog)
    table = glue.get_table(DatabaseName="lake", Name=NAME)["Table"]
    partitions = glue.get_partitions(DatabaseName="lake", TableName=NAME)["Partitions"]
    assert {one["Values"][0]: one["StorageDescriptor"]["Location"] for one in partitions} == {
        "2024-03-05": f"s3://{LAKE}/lake/shop/orders/day=2024-03-05/",
        "a b/c": f"s3://{LAKE}/lake/shop/orders/day=a b%2Fc/",
    }
    columns = [("id", "bigint"), ("op", "string"), ("_cdc_position", "string")]
    for storage in [table["StorageDescriptor"], *(one["StorageDescriptor"] for one in partitions)]:
        assert [(column["Name"], column["Type"]) for column in storage["Columns"]] == columns
    assert table["StorageDescriptor"]["Location"] == f"s3://{LAKE}/lake/shop/orders/"
    assert (table["Parameters"]["numRows"], table["Parameters"]["cdclake.change"]) == ("20", "2")
    assert item(orders)[Attribute.LAST_CATALOG_ERROR] == ""
    by_hand(orders, catalog).rollback()
    again = glue.get_partitions(DatabaseName="lake", TableName=NAME)["Partitions"]
    assert len(again) == 27
    assert all(one["StorageDescriptor"]["Columns"][0]["Type"] == "int" for one in again)
