"""Tables of each format are compared where they usually are: in S3, and in the Glue Data Catalog."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog

from cdclake.adapters.filesystem import lake_filesystem
from cdclake_cli.shadow.formats.open import open_table
from cdclake_cli.shadow.formats.place import Place, iceberg_properties
from tests.cdclake.lake.over_time import TABLE, TableOverTime, versioned_bucket
from tests.cdclake_cli.shadow.test_compare import COLUMNS, hudi, row

if TYPE_CHECKING:
    from tests.cdclake_cli.conftest import Command

pytestmark = [pytest.mark.aws, pytest.mark.long]
BUCKET = "cdclake-lake"


def copy(folder: str, to: str) -> str:
    """Copy a folder to the bucket."""
    client, root = boto3.client("s3"), Path(folder)
    for path in root.rglob("*"):
        if path.is_file():
            client.put_object(Bucket=BUCKET, Key=f"{to}/{path.relative_to(root)}", Body=path.read_bytes())
    return f"s3://{BUCKET}/{to}"


def test_tables_of_each_format_are_compared_in_a_bucket(
    cdclake: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row(number) for number in range(40)]
    equal, other = pa.Table.from_pylist(rows, COLUMNS), pa.Table.from_pylist(rows[1:], COLUMNS)
    with versioned_bucket(monkeypatch, BUCKET):
        lake = TableOverTime(tmp_path, COLUMNS, {"PrimaryKey": "id"}, bucket=BUCKET)
        lake.load(rows)
        write_deltalake(
            f"s3://{BUCKET}/old/delta",
            other,
            partition_by=["city"],
            storage_options=Place(f"s3://{BUCKET}/old").object_store_options(),
        )
        pq.write_to_dataset(equal, tmp_path / "parquet", partition_cols=["day"])
        catalog = load_catalog("glue", type="glue", **iceberg_properties(lake_filesystem(BUCKET)))
        catalog.create_namespace("old")
        table = catalog.create_table("old.orders", COLUMNS, location=f"s3://{BUCKET}/old/iceberg")
        table.append(equal)
        for where, differing in (
            (f"s3://{BUCKET}/old/delta/", 1),
            (copy(str(tmp_path / "parquet"), "old/parquet"), 0),
            (table.metadata_location, 0),
            ("iceberg:glue:old.orders", 0),
        ):
            result: Any = cdclake("compare", TABLE, "--with", where, "--lake-bucket", BUCKET, "-o", "json")
            assert result.exit_code == (6 if differing else 0), (where, result.output)
            assert json.loads(result.stdout)["differing_rows"] == differing, where
        (tmp_path / "hudi").mkdir()
        trips = open_table(copy(hudi(tmp_path / "hudi", "merge_on_read"), "old/hudi").replace("s3://", "s3a://"))
        assert sum(batch.num_rows for batch in trips.batches(["rider"])) == 5
        report = f"s3://{BUCKET}/reports/1"
        reported: Any = cdclake(
            *("compare", TABLE, "--with", f"s3://{BUCKET}/old/delta", "--lake-bucket", BUCKET, "--report", report),
            "--metrics",
        )
        assert reported.exit_code == 6, reported.output
        keys = boto3.client("s3").list_objects_v2(Bucket=BUCKET, Prefix="reports/")["Contents"]
        assert [one["Key"].rpartition("/")[2] for one in keys] == ["differences-00001.parquet", "result.json"]
        sent = boto3.client("cloudwatch").list_metrics(Namespace="cdclake")["Metrics"]
        assert {one["MetricName"] for one in sent} == {"DifferingRows", "DifferingTables"}
