"""What is specific to the Glue Data Catalog: Hive's terms, pages, additions by others, errors."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from botocore.config import Config

from cdclake.adapters import aws as aws_clients
from cdclake.adapters.catalog import GlueCatalog
from cdclake.errors import ConfigurationError, RetryableError
from cdclake.model.catalog import CatalogTable, Statistics
from cdclake.model.schema import Column
from tests.cdclake.adapters.network_faults import Faults
from tests.cdclake.adapters.test_catalog_contract import TABLE, partition

if TYPE_CHECKING:
    from mypy_boto3_glue import GlueClient

PARQUET = "org.apache.hadoop.hive.ql.io.parquet."


@pytest.fixture
def client(aws: None) -> GlueClient:
    client = aws_clients.client("glue")
    client.create_database(DatabaseInput={"Name": "lake"})
    return client


@pytest.fixture
def catalog(client: GlueClient) -> GlueCatalog:
    return GlueCatalog(client, "lake")


def stored(client: GlueClient) -> dict[str, Any]:
    table: dict[str, Any] = dict(client.get_table(DatabaseName="lake", Name="t")["Table"])
    return table


def overwrite(client: GlueClient, **changes: Any) -> None:
    """Change parts of the table, as others may."""
    taken = {"Name", "TableType", "StorageDescriptor", "Parameters", "PartitionKeys", "ViewExpandedText"}
    table: Any = {**{name: value for name, value in stored(client).items() if name in taken}, **changes}
    client.update_table(DatabaseName="lake", TableInput=table)


def test_a_table_is_declared_as_external_parquet_in_hives_terms(client: GlueClient, catalog: GlueCatalog):
    catalog.create_table("t", replace(TABLE, change=42))
    table = stored(client)
    storage = table["StorageDescriptor"]
    assert table["TableType"] == "EXTERNAL_TABLE"
    assert storage["InputFormat"] == PARQUET + "MapredParquetInputFormat"
    assert storage["OutputFormat"] == PARQUET + "MapredParquetOutputFormat"
    assert storage["SerdeInfo"]["SerializationLibrary"] == PARQUET + "serde.ParquetHiveSerDe"
    assert storage["Columns"][0] == {"Name": "id", "Type": "bigint"}
    assert table["PartitionKeys"] == [{"Name": "shop", "Type": "string"}, {"Name": "day", "Type": "date"}]
    assert table["Parameters"] == {
        "EXTERNAL": "TRUE",
        "classification": "parquet",
        "numRows": "3",
        "numFiles": "2",
        "totalSize": "700",
        "cdclake.table": "shop.orders",
        "cdclake.change": "42",
        "cdclake.left_out_columns": json.dumps(["a,b", "ü"]),
    }


KINDS = {
    "string": "varchar",
    "int": "integer",
    "float": "real",
    "binary": "varbinary",
    **{kind: kind for kind in ("bigint", "decimal(12,2)", "date", "timestamp", "boolean", "double")},
}
"""Hive's types, and what SQL calls them."""
VIEW = CatalogTable(
    location="",
    columns=tuple(Column(f"c{i}", kind) for i, kind in enumerate(KINDS)),
    partition_columns=(),
    statistics=None,
    source="shop.orders (live rows)",
    change=None,
    parquet=False,
    query='SELECT "*/" FROM "lake"."shop_orders"',
)


def test_a_view_is_declared_as_athena_declares_its_own(client: GlueClient, catalog: GlueCatalog):
    catalog.create_table("t", VIEW)
    table = stored(client)
    assert table["TableType"] == "VIRTUAL_VIEW"
    assert table["PartitionKeys"] == []
    storage = table["StorageDescriptor"]
    assert [(one["Name"], one["Type"]) for one in storage["Columns"]] == [(one.name, one.type) for one in VIEW.columns]
    assert not storage.keys() & {"InputFormat", "OutputFormat"}
    assert table["Parameters"] == {
        "presto_view": "true",
        "comment": "Presto View",
        "cdclake.table": "shop.orders (live rows)",
    }
    assert table["ViewExpandedText"] == "/* Presto View */"
    encoded = table["ViewOriginalText"].removeprefix("/* Presto View: ").removesuffix(" */")
    assert json.loads(base64.b64decode(encoded, validate=True)) == {
        "originalSql": VIEW.query,
        "catalog": "awsdatacatalog",
        "schema": "lake",
        "columns": [{"name": f"c{i}", "type": kind} for i, kind in enumerate(KINDS.values())],
    }


@pytest.mark.parametrize(
    "text", ["SELECT 1", "/* Presto View: ??? */", "/* Presto View: aGVsbG8= */", "/* Presto View: W10= */"]
)
def test_a_view_overwritten_by_others_is_read_as_different(client: GlueClient, catalog: GlueCatalog, text: str):
    catalog.create_table("t", VIEW)
    overwrite(client, ViewOriginalText=text)
    assert catalog.table("t") == replace(VIEW, query="")
    catalog.update_table("t", VIEW)
    assert catalog.table("t") == VIEW


def test_a_partition_has_its_own_folder_format_and_row_count(client: GlueClient, catalog: GlueCatalog):
    catalog.create_table("t", TABLE)
    catalog.create_partitions("t", [partition("a", rows=4)])
    (found,) = client.get_partitions(DatabaseName="lake", TableName="t")["Partitions"]
    assert found["Values"] == ["a", "2024-03-05"]
    assert found["StorageDescriptor"]["Location"] == "s3://lake/shop/orders/shop=a/day=2024-03-05/"
    assert found["StorageDescriptor"]["InputFormat"] == PARQUET + "MapredParquetInputFormat"
    assert found["Parameters"] == {"numRows": "4", "numFiles": "1", "totalSize": "40"}


def test_updates_preserve_users_additions_and_remove_figures_of_crawlers_and_spark(
    client: GlueClient, catalog: GlueCatalog
):
    client.create_table(
        DatabaseName="lake",
        TableInput={
            "Name": "t",
            "Description": "All orders",
            "Owner": "sales",
            "TableType": "EXTERNAL_TABLE",
            "PartitionKeys": [{"Name": "day", "Type": "string", "Comment": "of the order"}],
            "StorageDescriptor": {
                "Location": TABLE.location,
                "Columns": [{"Name": "id", "Type": "int", "Comment": "the key"}, {"Name": "gone", "Type": "int"}],
            },
            "Parameters": {"team": "sales", "recordCount": "1", "sizeKey": "2", "spark.sql.sources.schema": "{}"},
        },
    )
    found = catalog.table("t")
    assert found
    assert (found.source, found.change, found.statistics, found.parquet) == ("", None, None, False)
    catalog.update_table("t", TABLE)
    assert catalog.table("t") == TABLE
    table = stored(client)
    assert (table["Description"], table["Owner"]) == ("All orders", "sales")
    assert table["StorageDescriptor"]["Columns"][0] == {"Name": "id", "Type": "bigint", "Comment": "the key"}
    assert table["PartitionKeys"][1] == {"Name": "day", "Type": "date", "Comment": "of the order"}
    assert table["Parameters"]["team"] == "sales"
    assert not {"recordCount", "sizeKey", "spark.sql.sources.schema"} & set(table["Parameters"])


def test_parameters_overwritten_by_others_are_read_as_unknown(client: GlueClient, catalog: GlueCatalog):
    catalog.create_table("t", replace(TABLE, change=42))
    invalid = {"numRows": "many", "cdclake.change": "²", "cdclake.left_out_columns": "{"}
    overwrite(client, Parameters={**stored(client)["Parameters"], **invalid})
    found = catalog.table("t")
    assert found
    assert (found.statistics, found.change, found.left_out) == (None, None, ())


def test_all_pages_of_partitions_are_read(client: GlueClient, catalog: GlueCatalog):
    def page(shop: str, **more: str) -> bytes:
        return json.dumps({"Partitions": [{"Values": [shop, "2024-03-05"]}], **more}).encode()

    requests: list[Any] = []
    client.meta.events.register("before-call.glue.GetPartitions", lambda params, **_: requests.append(params["body"]))
    faults = Faults(client, "GetPartitions")
    faults.respond(200, page("a", NextToken="more"))
    faults.respond(200, page("b"))
    assert [one.values for one in catalog.partitions("t")] == [("a", "2024-03-05"), ("b", "2024-03-05")]
    assert [json.loads(body).get("NextToken") for body in requests] == [None, "more"]


def test_a_missing_database_is_an_error_that_says_what_to_do(aws: None):
    with pytest.raises(ConfigurationError, match="Create the database lake"):
        GlueCatalog(aws_clients.client("glue"), "lake").table("t")


def test_a_denied_call_names_the_permissions_and_the_database(client: GlueClient, catalog: GlueCatalog):
    Faults(client, "GetTable").respond(400, b'{"__type": "AccessDeniedException", "Message": "no"}')
    with pytest.raises(ConfigurationError, match=r"BatchUpdatePartition .* the database lake") as raised:
        catalog.table("t")
    assert raised.value.details["catalog_table"] == "lake.t"


def test_a_throttled_call_is_retryable(client: GlueClient):
    without_retries = aws_clients.session().client("glue", config=Config(retries={"total_max_attempts": 1}))
    Faults(without_retries, "GetTable").respond(400, b'{"__type": "ThrottlingException", "Message": "Rate exceeded"}')
    with pytest.raises(RetryableError, match="ThrottlingException"):
        GlueCatalog(without_retries, "lake").table("t")


def test_an_error_counts_the_refused_partitions_without_their_values(catalog: GlueCatalog):
    catalog.create_table("t", TABLE)
    with pytest.raises(RetryableError, match=r"EntityNotFoundException to batch_update_partition of 2 partitions"):
        catalog.update_partitions("t", [partition("a"), partition("b")])
    catalog.create_partitions("t", [partition("a")])
    with pytest.raises(RetryableError, match=r"AlreadyExistsException to batch_create_partition of 1 part") as refused:
        catalog.create_partitions("t", [partition("a"), partition("b")])
    assert "2024-03-05" not in str(refused.value)


def test_updates_create_no_table_versions_in_glue(client: GlueClient, catalog: GlueCatalog):
    requests: list[Any] = []
    client.meta.events.register("before-call.glue.UpdateTable", lambda params, **_: requests.append(params["body"]))
    catalog.create_table("t", TABLE)
    catalog.update_table("t", replace(TABLE, statistics=Statistics(4, 2, 800)))
    assert [json.loads(body)["SkipArchive"] for body in requests] == [True]


def test_an_update_keeps_what_a_user_changes_meanwhile(client: GlueClient, catalog: GlueCatalog):
    catalog.create_table("t", TABLE)
    other = aws_clients.session().client("glue")
    updates = Faults(client, "UpdateTable")
    updates.before_request(lambda: overwrite(other, Description="All orders"))
    changed = replace(TABLE, statistics=Statistics(4, 2, 800))
    catalog.update_table("t", changed)
    assert updates.sent == 2
    assert catalog.table("t") == changed
    assert stored(client)["Description"] == "All orders"


def test_an_update_whose_response_was_lost_is_repeated(client: GlueClient, catalog: GlueCatalog):
    catalog.create_table("t", TABLE)
    updates = Faults(client, "UpdateTable")
    updates.lose_response()
    changed = replace(TABLE, statistics=Statistics(4, 2, 800))
    catalog.update_table("t", changed)
    assert catalog.table("t") == changed


def test_a_table_that_others_never_stop_changing_is_retryable(client: GlueClient, catalog: GlueCatalog):
    catalog.create_table("t", TABLE)
    updates = Faults(client, "UpdateTable")
    for _ in range(9):
        updates.respond(400, b'{"__type": "ConcurrentModificationException", "message": "concurrent modifications"}')
    with pytest.raises(RetryableError, match="ConcurrentModificationException"):
        catalog.update_table("t", TABLE)
