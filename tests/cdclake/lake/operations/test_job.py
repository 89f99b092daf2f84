"""The Spark jobs: started by ProcessTable for several tables, or by hand with the walkthrough's arguments."""

from __future__ import annotations

import errno
import io
import json
import logging
import os
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NoReturn
from unittest.mock import Mock, patch

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdclake import logs
from cdclake.adapters.dynamodb import DynamoState, create_state_table
from cdclake.adapters.stores import open_store
from cdclake.commit.log import ChangeLog
from cdclake.control.jobs.arguments import parse_arguments, paths_json
from cdclake.control.run.planned_round import DueLoad, PlannedRound
from cdclake.errors import BadRowError, ConfigurationError, DiskFullError, JobRunError
from cdclake.lake.operations.job import is_spark_alive, load_planned, relative_file, run_spark_job
from cdclake.lake.operations.table_run import TableRun
from cdclake.lake.spark.in_process import InProcessBackend
from cdclake.model.layout import LakeLayout
from cdclake.model.names import JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL, STATE_TABLE
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.name import TableName
from cdclake.model.table.state import TableState
from cdclake_devkit.local.environment import child_environment
from cdclake_devkit.local.web import http_server
from cdclake_devkit.memory import MemoryStore
from cdclake_devkit.oracle import merge
from tests.builders import LAYOUT
from tests.cdclake.lake.table import Table, by_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cdclake.lake.spark.spark_backend import SparkBackend

RAW, LAKE = "raw-bucket", "lake-bucket"
ORDERS = f"{RAW}/dms/shop/orders/"
CHANGE = "20240305-101500000.parquet"
WALKTHROUGH = ["bucket", "prefix", "folder", "out_path", "partitionKey", "lastIncrementalFile", "newIncrementalFile"]


def command_line(**more: str) -> list[str]:
    arguments = {
        "JOB_NAME": "DMSCDC_LoadIncremental",
        "JOB_RUN_ID": "jr_1",
        "bucket": RAW,
        "prefix": "dms/shop/orders/",
        "folder": "orders/",
        "out_path": f"s3://{LAKE}/lakes/shop/",
        "partitionKey": "day",
        "lastIncrementalFile": f"{ORDERS}0.parquet",
        "newIncrementalFile": f"{ORDERS}{CHANGE}",
        **more,
    }
    return ["load.py", *(text for name, value in arguments.items() for text in (f"--{name}", value))]


@pytest.fixture
def buckets(aws: None) -> Iterator[Any]:
    """A raw bucket with a full load and a change file of a table, and an empty lake bucket, behind a real endpoint."""
    with http_server(0) as endpoint, patch.dict(os.environ, child_environment(os.environ, endpoint, "eu-central-1")):
        s3: Any = boto3.client("s3")
        for bucket in (RAW, LAKE):
            s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
        rows = pa.table({"id": [1, 2], "code": [7, 8], "day": ["a", "b"]})
        write(s3, "LOAD00000001.parquet", rows)
        write(s3, CHANGE, rows.slice(0, 1).add_column(0, "Op", pa.array(["D"])))
        yield s3


def write(s3: Any, name: str, rows: pa.Table, table: str = "orders") -> None:
    content = io.BytesIO()
    pq.write_table(rows, content)
    s3.put_object(Bucket=RAW, Key=f"dms/shop/{table}/{name}", Body=content.getvalue())


def lake(table: str = "orders") -> ChangeLog:
    return ChangeLog(open_store(LAKE), LakeLayout(LAKE, "lakes/", TableName("shop", table)))


def test_arguments_are_parsed_like_glue() -> None:
    argv = command_line(primaryKey="id, code")
    argv[argv.index("--bucket") : argv.index("--bucket") + 2] = ["--bucket=raw-bucket"]
    glues_library = pytest.importorskip("awsglue.utils", reason="It is for Python 3.11 alone")
    glue = glues_library.getResolvedOptions(argv, [*WALKTHROUGH, "primaryKey"])
    ours = parse_arguments(argv, [*WALKTHROUGH, "primaryKey"])
    assert ours == {name: glue[name] for name in ours}


@pytest.mark.aws
def test_both_jobs_work_by_hand_with_the_walkthroughs_arguments(buckets: Any) -> None:
    argv = command_line(primaryKey="id")
    assert run_spark_job(JOB_LOAD_INITIAL, argv, InProcessBackend)["change"] == 1
    assert run_spark_job(JOB_LOAD_INCREMENTAL, argv, InProcessBackend)["change"] == 2
    assert run_spark_job(JOB_LOAD_INCREMENTAL, argv, InProcessBackend)["change"] is None
    record, snapshot = lake().record(2), lake().snapshot(2)
    assert (record.run_id, record.fencing_token) == ("jr_1", 0)
    assert (snapshot.primary_key, snapshot.partition_key, snapshot.watermark) == (("id",), ("day",), CHANGE)
    assert snapshot.rows == 1


@pytest.mark.aws
def test_the_items_settings_override_single_arguments(buckets: Any) -> None:
    item = json.dumps({"path": ORDERS, "PrimaryKey": "code"})
    run_spark_job(JOB_LOAD_INITIAL, command_line(primaryKey="id", item=item), InProcessBackend)
    assert (lake().snapshot(1).primary_key, lake().snapshot(1).partition_key) == (("code",), ("day",))


@pytest.mark.aws
def test_a_spark_that_cannot_start_is_the_fault_of_no_table(buckets: Any) -> None:
    def no_spark() -> NoReturn:
        raise RuntimeError("Java gateway process exited")

    create_state_table(boto3.client("dynamodb"), STATE_TABLE)
    states = DynamoState(boto3.client("dynamodb"), STATE_TABLE)
    settings = {"ActiveFlag": "true", "PrimaryKey": "id", "FullLoadQuietMinutes": "0"}
    states.register(TableState.new(RAW, "dms/shop/", "orders/").with_attributes(**settings))
    argv = ["load.py", "--JOB_RUN_ID", "jr_1", "--paths", paths_json([ORDERS]), "--out_bucket", LAKE]
    with pytest.raises(JobRunError, match="Spark could not start: RuntimeError"):
        run_spark_job(JOB_LOAD_INITIAL, [*argv, "--table_metrics", "false"], no_spark)
    state = states.get(ORDERS)
    assert state
    assert (state.deaths, state.item[Attribute.LAST_RUN_STATE]) == (0, "FAILED")


@pytest.mark.aws
def test_a_run_of_several_tables_takes_over_the_leases_and_writes_each_item(buckets: Any) -> None:
    write(buckets, "LOAD00000001.parquet", pa.table({"id": [3]}), "a")
    write(buckets, "20240305-101500000.parquet", pa.table({"Op": ["X"], "id": [1]}), "bad")
    create_state_table(boto3.client("dynamodb"), STATE_TABLE)
    states, now = DynamoState(boto3.client("dynamodb"), STATE_TABLE), datetime.now(timezone.utc)
    paths = [f"{RAW}/dms/shop/{table}/" for table in ("orders", "a", "bad", "busy")]
    for path in paths:
        new = TableState.new(RAW, "dms/shop/", f"{path.split('/')[-2]}/")
        settings = {"ActiveFlag": "true", "PrimaryKey": "id", "FullLoadQuietMinutes": "0", "MaxBadRows": "0"}
        assert states.register(new.with_attributes(**settings))
        states.acquire_lease(path, "other" if "busy" in path else "run-7", now, 300)
    argv = ["load.py", "--JOB_RUN_ID", "jr_1", "--paths", paths_json(paths), "--lease_holder", "run-7"]
    argv += ["--out_bucket", LAKE, "--out_prefix", "lakes/", "--table_metrics", "false"]
    summary = run_spark_job(JOB_LOAD_INITIAL, argv, InProcessBackend)
    assert "1 of 4 tables failed: shop.bad" in summary["error"]
    outcomes = [one["outcome"].partition(":")[0] for one in summary["tables"]]
    assert outcomes == ["done", "done", "failed", "busy"]
    items = [state.item for path in paths for state in [states.get(path)] if state]
    assert [one.get(Attribute.LAST_CHANGE_ID) for one in items] == ["2", "1", None, None]
    assert [one.get(Attribute.LAST_RUN_ID) for one in items] == ["jr_1", "jr_1", "jr_1", None]
    assert [Attribute.LEASE_HOLDER in one for one in items] == [False, False, False, True]
    assert [lake(table).record(1).fencing_token for table in ("orders", "a")] == [1, 1]
    assert "BadRowError" in items[2][Attribute.LAST_ERROR]


def test_the_watermarks_of_the_walkthrough_are_relative_to_the_tables_folder() -> None:
    assert relative_file(f"{ORDERS}0.parquet", RAW, "dms/shop/orders/") == ""
    assert relative_file(f"{ORDERS}{CHANGE}", RAW, "dms/shop/orders/") == CHANGE
    assert relative_file("null", RAW, "dms/shop/orders/") == ""


def test_an_out_path_without_schema_is_a_clear_error() -> None:
    with pytest.raises(ConfigurationError, match="out_path"):
        run_spark_job(JOB_LOAD_INITIAL, command_line(out_path="s3://lake-bucket"), InProcessBackend)


def test_a_full_disk_is_an_error_of_its_table() -> None:
    run = Mock(spec=TableRun, log=ChangeLog(MemoryStore(), LAYOUT))
    due = Mock(spec=DueLoad, job=JOB_LOAD_INITIAL, planned=Mock(spec=PlannedRound))
    full = patch("cdclake.lake.operations.job.replace_table", side_effect=OSError(errno.ENOSPC, "No space", "/tmp/x"))
    with full, pytest.raises(DiskFullError, match="A disk is full"):
        load_planned(run, due, InProcessBackend())


@pytest.mark.aws
def test_a_load_logs_its_start_and_end_and_names_its_table_in_between(
    buckets: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    logs.configure(run_id="jr_1")
    run_spark_job(JOB_LOAD_INITIAL, command_line(primaryKey="id"), lambda: InProcessBackend(parallelism=8))
    root.handlers[:] = handlers
    root.setLevel(level)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    first, last = lines[0], lines[-1]
    assert {(line["run_id"], line["table"]) for line in lines} == {("jr_1", "shop.orders")}
    assert [(line["message"], line["change"]) for line in (first, last)] == [("began", None), ("ended", 1)]
    assert (last["reason"], last["books"]["read_insert"], last["parallelism"]) == ("full load", 2, 8)


@pytest.mark.spark
def test_spark_goes_on_after_a_table_that_fails(tmp_path: Path, spark_backend: SparkBackend) -> None:
    columns = pa.schema([("id", pa.int64()), ("n", pa.int32())])
    tables = {name: Table(tmp_path / name, columns, {"PrimaryKey": "id"}, spark_backend) for name in "ab"}
    for name, table in tables.items():
        table.load([{"id": number, "n": number} for number in range(100)])
        changes = [("U", {"id": number, "n": 7}) for number in range(50)] + [("D", {"id": 99, "n": 0})]
        table.write_changes(CHANGE, [("Z", changes[0][1]), *changes[1:]] if name == "a" else changes)
    with pytest.raises(BadRowError):
        tables["a"].load_incremental()
    assert is_spark_alive(spark_backend)
    tables["b"].load_incremental()
    assert by_key(tables["b"].rows(), ("id",)) == merge(("id",), tables["b"].loads, tables["b"].changes)
    assert [row.row["n"] for row in by_key(tables["a"].rows(), ("id",))] == list(range(100))  # unchanged
