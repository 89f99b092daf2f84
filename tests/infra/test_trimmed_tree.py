"""The trimmed archive of the function of small changes applies changes, with nothing else on its path.

Its wheels are for this machine and this Python; the function's own are for another processor, and otherwise the same.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import zipfile
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deploy_local.iceberg import read_iceberg
from moto.moto_api._internal.models import moto_api_backend

from cdclake.adapters import aws
from cdclake.adapters.dynamodb import DynamoState, create_state_table
from cdclake.adapters.stores import open_store
from cdclake.commit.log import ChangeLog
from cdclake.control.jobs.arguments import paths_json, to_argv
from cdclake.lake.operations.job import run_spark_job
from cdclake.lake.spark.in_process import InProcessBackend
from cdclake.model.layout import LakeLayout
from cdclake.model.names import FUNCTION_SMALL_CHANGES, JOB_LOAD_INITIAL, STATE_TABLE, Argument
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.name import TableName
from cdclake.model.table.state import TableState
from cdclake_devkit.local.environment import child_environment
from cdclake_devkit.local.web import http_server
from cdclake_infra.library import build_small_changes
from cdclake_infra.trim import SERVICES
from cdclake_infra.wheels import SMALL_CHANGES, of_this_machine
from tests.builders import parquet_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from deploy_local.deployment import Deployment

pytestmark = [
    pytest.mark.deployment,
    pytest.mark.aws,
    pytest.mark.skipif(sys.platform != "linux", reason="the wheels are for Linux"),
]

RAW, LAKE, DATABASE, REGION = "raw-bucket", "lake-bucket", "lake", "us-east-1"
COMMON = {Attribute.ACTIVE_FLAG: "true", Attribute.PRIMARY_KEY: "id", Attribute.FULL_LOAD_QUIET_MINUTES: "0"}
TABLES: Mapping[str, Mapping[str, str]] = {
    "plain": {Attribute.PARTITION_KEY: "word"},
    "iceberg": {Attribute.READERS: "iceberg", Attribute.HISTORY: "true"},
    "csv": {Attribute.SCHEMA: "id int, word string", Attribute.DELETE_MODE: "soft"},
}
FULL_LOAD, CHANGES = [[1, "old"], [2, "old"], [3, "old"]], [["U", 1, "new"], ["D", 3, "old"], ["I", 4, "new"]]
LIVE = {(1, "new"), (2, "old"), (4, "new")}
PATHS = [f"{RAW}/shop/{table}/" for table in TABLES]

RUN = """
import json, sys
from types import SimpleNamespace
tree, paths, *services = sys.argv[1:]
sys.path.insert(0, tree)
import handler
from cdclake.adapters.aws import client
context = SimpleNamespace(
    aws_request_id="request-1", get_remaining_time_in_millis=lambda: 300_000, memory_limit_in_mb="1769"
)
report = handler.handler({"paths": paths}, context)
for service in services:
    client(service)
files = {name: file for name, module in sys.modules.items() if (file := getattr(module, "__file__", None))}
mapped = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
print(json.dumps({"report": report, "files": files, "mapped": sorted(mapped), "base": sys.base_prefix}))
"""


def parquet(columns: list[str], rows: list[list[Any]]) -> bytes:
    return parquet_bytes(pa.table({name: [row[at] for row in rows] for at, name in enumerate(columns)}))


def csv_gz(rows: list[list[Any]]) -> bytes:
    return gzip.compress("".join(",".join(map(str, row)) + "\n" for row in rows).encode())


def put(name: str, columns: list[str], rows: list[list[Any]]) -> None:
    """Write a raw file to each table's folder, as DMS does."""
    for table in TABLES:
        suffix, content = (".csv.gz", csv_gz(rows)) if table == "csv" else (".parquet", parquet(columns, rows))
        boto3.client("s3").put_object(Bucket=RAW, Key=f"shop/{table}/{name}{suffix}", Body=content)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tree")
    with zipfile.ZipFile(
        build_small_changes(tmp_path_factory.mktemp("zip"), of_this_machine(SMALL_CHANGES)).path
    ) as one:
        one.extractall(folder)
    return folder


@pytest.fixture
def loaded() -> Iterator[None]:
    """An account with three loaded tables, and a change file for each."""
    arguments = {Argument.OUT_BUCKET: LAKE, Argument.CATALOG_DATABASE: DATABASE}
    variables = {name.upper(): value for name, value in arguments.items()}
    with (
        http_server(0) as endpoint,
        patch.dict(os.environ, child_environment(os.environ, endpoint, REGION) | variables),
    ):
        for bucket in (RAW, LAKE):
            boto3.client("s3").create_bucket(Bucket=bucket)
        create_state_table(aws.client("dynamodb"), STATE_TABLE)
        boto3.client("glue").create_database(DatabaseInput={"Name": DATABASE})
        states = DynamoState(aws.client("dynamodb"), STATE_TABLE)
        for table, settings in TABLES.items():
            states.register(TableState.new(RAW, "shop/", f"{table}/").with_attributes(**COMMON, **settings))
        put("LOAD00000001", ["id", "word"], FULL_LOAD)
        argv = [*to_argv({**arguments, Argument.PATHS: paths_json(PATHS)}), f"--{Argument.JOB_RUN_ID}", "jr_1"]
        assert not run_spark_job(JOB_LOAD_INITIAL, argv, InProcessBackend)["error"]
        put("20240305-101500000", ["Op", "id", "word"], CHANGES)
        yield
        moto_api_backend.reset()


def rows_of(table: str) -> set[tuple[Any, ...]]:
    """The live rows that readers of a table find."""
    if table == "iceberg":
        catalog = cast("Deployment", SimpleNamespace(client=boto3.client, catalog_database=DATABASE))
        found = read_iceberg(catalog, "shop_iceberg").to_pylist()
    else:
        s3 = boto3.client("s3")
        keys = [one["Key"] for one in s3.list_objects_v2(Bucket=LAKE, Prefix=f"shop/{table}/")["Contents"]]
        found = []
        for key in keys:
            content = s3.get_object(Bucket=LAKE, Key=key)["Body"].read()
            word = {"word": key.split("word=")[1].split("/")[0]} if "word=" in key else {}
            found += [row | word for row in pq.read_table(io.BytesIO(content)).to_pylist()]
    return {(row["id"], row["word"]) for row in found if row.get("Op") != "D"}


@pytest.mark.usefixtures("loaded")
def test_the_unpacked_archive_applies_changes_and_imports_nothing_else(tree: Path) -> None:
    command = [sys.executable, "-I", "-S", "-c", RUN, str(tree), paths_json(PATHS), *SERVICES]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    *metrics, found = map(json.loads, done.stdout.splitlines())
    assert all("_aws" in line for line in metrics)
    assert {one["outcome"] for one in found["report"]["tables"]} == {"done"}, done.stderr
    for table in TABLES:
        assert rows_of(table) == LIVE, table
        record = ChangeLog(open_store(LAKE), LakeLayout(LAKE, "", TableName("shop", table))).record(2)
        assert (record.place.host, record.run_id) == (FUNCTION_SMALL_CHANGES, "request-1")
    ours, standard = f"{tree}/", f"{found['base']}/lib/python"
    assert [file for file in found["files"].values() if not file.startswith((ours, standard))] == []
    assert [file for file in found["files"].values() if "/site-packages/" in file] == []
    assert [file for file in found["mapped"] if "/site-packages/" in file] == []
    assert {"cdclake.lake.merge", "pyarrow.lib", "pyiceberg.manifest", "numpy", "xxhash", "boto3"} <= found[
        "files"
    ].keys()
    assert not [name for name in found["files"] if name.partition(".")[0] in ("pyspark", "pandas", "awsglue")]
