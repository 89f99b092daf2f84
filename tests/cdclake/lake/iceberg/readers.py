"""Readers of Iceberg tables that share no code with the product: DuckDB's, pyiceberg's, and Spark's."""

from __future__ import annotations

import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import duckdb
import pytest
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.manifest import clear_manifest_cache
from pyiceberg.table import StaticTable
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from cdclake.adapters import aws as aws_clients
from cdclake_cli.aws.java_classes import java_home
from tests import ROOT

if TYPE_CHECKING:
    from cdclake.model.layout import LakeLayout

Rows = list[dict[str, Any]]
_SHADED = "smfs.shaded.org.apache.iceberg.spark"
"""Iceberg 1.9 in a jar of the benchmarks' package sagemaker-feature-store-pyspark: PyPI has no other."""


@cache
def connection() -> duckdb.DuckDBPyConnection:
    """DuckDB with its readers of Avro and Iceberg, which PyPI has as files."""
    opened = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("avro", "iceberg"):
        (folder,) = (Path(one) for one in sys.path if (Path(one) / f"duckdb_extension_{name}").is_dir())
        (extension,) = (folder / f"duckdb_extension_{name}").rglob("*.duckdb_extension")
        opened.execute(f"LOAD '{extension}'")
    opened.execute("SET TimeZone = 'UTC'")
    opened.execute("SET enable_external_file_cache = false")  # tests put other tables in the same place
    return opened


class IcebergReaders:
    """Reads the Iceberg table of a lake table in a folder.

    Args:
        lake: The lake's folder.
    """

    def __init__(self, lake: Path, layout: LakeLayout) -> None:
        self.folder = lake / layout.iceberg_prefix
        self._lake, self._layout = lake, layout

    @property
    def version(self) -> int:
        """Number of the change that readers see."""
        return int((self._lake / self._layout.version_hint_key).read_text())

    @property
    def finds_none(self) -> bool:
        """Whether both engines find no table: there is no hint, or it names no metadata."""
        try:
            self.duckdb()
        except duckdb.Error:
            with pytest.raises(FileNotFoundError):
                StaticTable.from_metadata(str(self.folder))
            return True
        return False

    @property
    def offered(self) -> list[int]:
        """Numbers of the changes that readers can choose."""
        return [one.snapshot_id for one in self.table.metadata.snapshots]

    @property
    def table(self) -> StaticTable:
        """The table in pyiceberg."""
        return StaticTable.from_metadata(str(self._lake / self._layout.iceberg_metadata_key(self.version)))

    def pyiceberg(self, where: str = "true", columns: tuple[str, ...] = ("*",), change: int | None = None) -> Rows:
        """Rows in pyiceberg, as of the newest change or an earlier one."""
        scan = self.table.scan(row_filter=where, selected_fields=columns, snapshot_id=change)
        rows: Rows = scan.to_arrow().to_pylist()
        return rows

    def duckdb(self, where: str = "true", columns: tuple[str, ...] = ("*",), change: int | None = None) -> Rows:
        """The same in DuckDB."""
        version = f", snapshot_from_id = {change}" if change else ""
        names = ", ".join(name if name == "*" else f'"{name}"' for name in columns)
        query = f"SELECT {names} FROM iceberg_scan('{self.folder}'{version}) WHERE {where}"
        result = connection().execute(query)
        columns = tuple(one[0] for one in result.description)
        return [dict(zip(columns, row, strict=True)) for row in result.fetchall()]

    def at(self, time_ms: int) -> Rows | None:
        """Rows as of a time, in ms since 1970, on which both readers agree; None if both find no snapshot."""
        snapshot = self.table.snapshot_as_of_timestamp(time_ms)
        query = (
            f"SELECT * FROM iceberg_scan('{self.folder}', snapshot_from_timestamp = make_timestamp({time_ms * 1000}))"
        )
        try:
            found = sorted(connection().execute(query).fetch_arrow_table().to_pylist(), key=repr)
        except duckdb.Error as error:
            assert "Could not find latest snapshots for timestamp" in str(error)
            assert snapshot is None
            return None
        assert snapshot is not None
        assert found == sorted(self.pyiceberg(change=snapshot.snapshot_id), key=repr)
        return found

    def rows(self, where: str = "true", columns: tuple[str, ...] = ("*",), change: int | None = None) -> Rows:
        """Rows on which both readers agree."""
        both = [sorted(read(where, columns, change), key=repr) for read in (self.pyiceberg, self.duckdb)]
        assert both[0] == both[1]
        return both[0]


def glue_reader() -> GlueCatalog:
    """pyiceberg's reader of the Glue Data Catalog, in the AWS that the environment points to."""
    clear_manifest_cache()  # tests put other tables in the same place
    client, credentials = aws_clients.client("glue"), boto3.Session().get_credentials()
    assert credentials
    keys = {"access-key-id": credentials.access_key, "secret-access-key": credentials.secret_key}
    endpoint, region = client.meta.endpoint_url, client.meta.region_name
    properties: dict[str, Any] = {f"client.{name}": value for name, value in keys.items()}
    properties |= {"glue.endpoint": endpoint, "s3.endpoint": endpoint, "client.region": region}
    return GlueCatalog("glue", **properties)


class SparkReader:
    """Spark's own reader, which finds tables by their paths. It takes half a second for a query.

    It has a process of its own, because Java loads jars when it starts.

    Args:
        root: Folder of all lakes.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._process = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _start_spark, (root,))

    def rows(self, folder: Path, where: str, change: int) -> Rows:
        """Rows of the Iceberg table in a folder, as of a change."""
        name = ".".join(f"`{part}`" for part in ("lake", *folder.relative_to(self._root).parts))
        query = f"SELECT * FROM {name} VERSION AS OF {change} WHERE {where}"
        return self._process.submit(_query_spark, query).result()

    def close(self) -> None:
        self._process.shutdown()


def _start_spark(root: Path) -> None:
    jar = next(ROOT.glob(".venv-bench/lib/python3*/site-packages/feature_store_pyspark/jars/*-3.5.jar"), None)
    assert jar, "`make .venv-bench/.ready` installs Spark's reader"
    catalog = {"": f"{_SHADED}.SparkCatalog", ".type": "hadoop", ".warehouse": str(root), ".cache-enabled": "false"}
    settings = {
        **{f"spark.sql.catalog.lake{name}": value for name, value in catalog.items()},
        "spark.jars": str(jar),
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    os.environ["JAVA_HOME"] = str(java_home())
    context = SparkContext(conf=SparkConf().setMaster("local[1]").setAll(list(settings.items())))
    context.setLogLevel("OFF")


def _query_spark(query: str) -> Rows:
    try:
        return [row.asDict() for row in SparkSession(SparkContext.getOrCreate()).sql(query).collect()]
    except Exception as error:  # noqa: BLE001 - those of Spark cannot be sent to another process
        raise AssertionError(str(error)) from None
