"""A reader finds the Iceberg table through the Glue Data Catalog, on a versioned bucket."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.adapters import aws as aws_clients
from cdclake.adapters.catalog import GlueCatalog
from cdclake.adapters.stores import open_store
from cdclake.commit.clean_up import clean_up, plan_clean_up
from cdclake.errors import ConfigurationError
from cdclake.model.catalog import CatalogName
from tests.cdclake.lake.iceberg.readers import glue_reader
from tests.cdclake.lake.over_time import START, TableOverTime, versioned_bucket

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.catalog.glue import GlueCatalog as Reader

pytestmark = pytest.mark.aws
COLUMNS = pa.schema([("id", pa.int64()), ("city", pa.string())])
NAME = "lake_tables.shop_orders"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TableOverTime]:
    with versioned_bucket(monkeypatch, "lake"):
        item = {"PrimaryKey": "id", "PartitionKey": "city", "Readers": "iceberg"}
        table = TableOverTime(tmp_path, COLUMNS, item, bucket="lake")
        aws_clients.client("glue").create_database(DatabaseInput={"Name": "lake_tables"})
        table.load([{"id": 1, "city": "Kiel"}, {"id": 2, "city": None}])
        yield table


def sync(table: TableOverTime) -> CatalogName | None:
    return table.show_in(GlueCatalog(aws_clients.client("glue"), "lake_tables"))


@pytest.fixture
def reader(table: TableOverTime) -> Reader:
    return glue_reader()


def ids(reader: Reader, **scan: Any) -> list[int]:
    return sorted(reader.load_table(NAME).scan(**scan).to_arrow()["id"].to_pylist())


def test_readers_follow_the_catalog(table: TableOverTime, reader: Reader) -> None:
    assert sync(table) == CatalogName("lake_tables", "shop_orders")
    assert ids(reader) == [1, 2]
    table.apply(("I", {"id": 3, "city": "Ulm"}), ("D", {"id": 1, "city": "Kiel"}))
    assert ids(reader) == [1, 2]
    sync(table)
    assert (ids(reader), ids(reader, snapshot_id=1)) == ([2, 3], [1, 2])
    assert ids(reader, row_filter="city = 'Ulm'", selected_fields=("id",)) == [3]
    table.roll_back(1)
    sync(table)
    assert (ids(reader), ids(reader, snapshot_id=2)) == ([1, 2], [2, 3])


def test_the_catalog_follows_a_switch_and_back(table: TableOverTime, reader: Reader) -> None:
    table.item["Readers"] = "folder"
    table.apply(("I", {"id": 3, "city": "Ulm"}))
    sync(table)
    plain = aws_clients.client("glue").get_table(DatabaseName="lake_tables", Name="shop_orders")["Table"]
    assert "metadata_location" not in plain["Parameters"]
    assert [column["Name"] for column in plain["PartitionKeys"]] == ["city"]
    table.item["Readers"] = "iceberg"
    table.apply(("I", {"id": 4, "city": "Ulm"}))
    sync(table)
    assert ids(reader) == [1, 2, 3, 4]


def test_both_are_two_tables_of_the_catalog(table: TableOverTime, reader: Reader) -> None:
    glue = aws_clients.client("glue")

    def names() -> list[str]:
        return sorted(one["Name"] for one in glue.get_tables(DatabaseName="lake_tables")["TableList"])

    sync(table)
    table.item["Readers"] = "both"
    table.apply(("I", {"id": 3, "city": "Ulm"}))
    sync(table)
    assert names() == ["shop_orders", "shop_orders_iceberg"]
    scan = reader.load_table(f"{NAME}_iceberg").scan(row_filter="city = 'Ulm'", selected_fields=("id",))
    assert scan.to_arrow()["id"].to_pylist() == [3]
    plain = glue.get_table(DatabaseName="lake_tables", Name="shop_orders")["Table"]
    assert "metadata_location" not in plain["Parameters"]
    partitions = glue.get_partitions(DatabaseName="lake_tables", TableName="shop_orders")["Partitions"]
    assert sorted(one["Values"][0] for one in partitions) == ["Kiel", "Ulm", "__HIVE_DEFAULT_PARTITION__"]
    table.roll_back(1)
    sync(table)
    assert names() == ["shop_orders"]
    assert ids(reader) == [1, 2]


def test_the_history_follows_its_table(table: TableOverTime, reader: Reader) -> None:
    glue = aws_clients.client("glue")

    def history() -> Any:
        return glue.get_table(DatabaseName="lake_tables", Name="shop_orders_history")["Table"]

    def versions(name: str = "shop_orders_history", **scan: Any) -> int:
        return reader.load_table(f"lake_tables.{name}").scan(**scan).count()

    table.item["History"] = "true"
    table.apply(("I", {"id": 3, "city": "Ulm"}), ("D", {"id": 1, "city": "Kiel"}))
    sync(table)
    assert [one["Name"] for one in history()["StorageDescriptor"]["Columns"]] == [
        *("id", "city", "operation", "valid_from", "valid_to", "validity_flag", "change_id", "_cdc_position"),
        *("year", "month"),
    ]
    assert versions() == 4
    table.apply(("U", {"id": 3, "city": "Bonn"}))
    assert versions() == 4
    sync(table)
    assert (versions(), versions(snapshot_id=2), versions(row_filter="validity_flag = 1")) == (5, 4, 3)
    table.item["Readers"] = "both"
    table.apply(("U", {"id": 3, "city": "Kiel"}))
    sync(table)
    assert [column["Name"] for column in history()["PartitionKeys"]] == ["year", "month"]
    assert versions("shop_orders_history_iceberg") == 6
    table.roll_back(1)
    sync(table)
    names = {one["Name"] for one in glue.get_tables(DatabaseName="lake_tables")["TableList"]}
    assert names == {"shop_orders", "shop_orders_history"}
    assert "metadata_location" not in history()["Parameters"]


def test_a_table_without_changes_shows_no_rows(table: TableOverTime) -> None:
    sync(table)
    table.roll_back(0)
    sync(table)
    empty = aws_clients.client("glue").get_table(DatabaseName="lake_tables", Name="shop_orders")["Table"]
    assert "metadata_location" not in empty["Parameters"]
    assert empty["StorageDescriptor"]["Location"] == "s3://lake/shop/orders/"


def test_a_change_of_another_program_is_refused(table: TableOverTime, reader: Reader) -> None:
    sync(table)
    foreign = reader.load_table(NAME)
    with foreign.transaction() as change:
        change.set_properties(owner="somebody")
    table.apply(("I", {"id": 3, "city": "Ulm"}))
    with pytest.raises(ConfigurationError, match="Another program changed the Iceberg table"):
        sync(table)
    assert ids(reader) == [1, 2]
    aws_clients.client("glue").delete_table(DatabaseName="lake_tables", Name="shop_orders")
    sync(table)
    assert ids(reader) == [1, 2, 3]


def test_a_clean_up_leaves_no_version_that_no_reader_needs(table: TableOverTime) -> None:
    for number in range(3, 6):
        table.apply(("I", {"id": number, "city": "Kiel"}))
    log = table.log
    for days in (1, 2):  # the second deletes what the first expired; the bucket's clock is the real one
        now = table.run().clock() + timedelta(days=10_000 * days)
        assert now > START
        clean_up(log, plan_clean_up(log, timedelta(0), now))
    versions = aws_clients.client("s3").list_object_versions(Bucket="lake", Prefix=table.layout.iceberg_prefix)
    assert "DeleteMarkers" not in versions
    kept = [entry["Key"] for entry in versions["Versions"] if "/data/" in entry["Key"]]
    live = [table.layout.data_key(file.path) for file in log.snapshot(log.head()).files]
    assert sorted(kept) == sorted(live)
    store = open_store("lake")
    assert all(store.get(key) for key in live)
