"""How a Spark job's command line becomes a table run."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from cdclake import logs
from cdclake.adapters.stores import open_store
from cdclake.control.jobs.arguments import item_json, parse_arguments
from cdclake.control.run.spark_batch import BatchProgress, batch_key, progress_key, read_progress
from cdclake.errors import BadRowError, ConfigurationError, DiskFullError
from cdclake.lake.operations.job import load_tables, relative_file, table_run
from cdclake.lake.spark.in_process import InProcessBackend

if TYPE_CHECKING:
    from collections.abc import Sequence

WALKTHROUGH = ["bucket", "prefix", "folder", "out_path", "partitionKey", "lastIncrementalFile", "newIncrementalFile"]


def command_line(raw: str, lake: str, **more: str) -> list[str]:
    arguments = {
        "JOB_NAME": "DMSCDC_LoadIncremental",
        "JOB_RUN_ID": "jr_1",
        "bucket": raw,
        "prefix": "dms/shop/orders/",
        "folder": "orders/",
        "out_path": f"{lake}/",
        "partitionKey": "day",
        "lastIncrementalFile": f"{raw}/dms/shop/orders/0.parquet",
        "newIncrementalFile": f"{raw}/dms/shop/orders/20240305-101500000.parquet",
        **more,
    }
    return ["load.py", *(text for name, value in arguments.items() for text in (f"--{name}", value))]


def test_arguments_are_parsed_like_glue() -> None:
    argv = command_line("raw-bucket", "s3://lake-bucket/shop", primaryKey="id, code")
    argv[argv.index("--bucket") : argv.index("--bucket") + 2] = ["--bucket=raw-bucket"]
    glues_library = pytest.importorskip("awsglue.utils", reason="It is for Python 3.11 alone")
    glue = glues_library.getResolvedOptions(argv, [*WALKTHROUGH, "primaryKey"])
    ours = parse_arguments(argv, [*WALKTHROUGH, "primaryKey"])
    assert ours == {name: glue[name] for name in ours}


def test_the_walkthroughs_arguments_alone_are_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "eu-central-1")
    run, arguments = table_run(command_line("raw-bucket", "s3://lake-bucket/lakes/shop", primaryKey="id"), WALKTHROUGH)
    assert run.settings.primary_key == ("id",)
    assert run.settings.partition_key == ("day",)
    assert (run.run_id, run.fencing_token) == ("jr_1", 0)
    assert run.layout.table_prefix == "lakes/shop/orders/"
    assert run.layout.control_prefix == "lakes/_cdclake/shop/orders/"
    assert run.raw_prefix == "dms/shop/orders/"
    last, new = arguments["lastIncrementalFile"], arguments["newIncrementalFile"]
    assert relative_file(last, "raw-bucket", run.raw_prefix) == ""
    assert relative_file(new, "raw-bucket", run.raw_prefix) == "20240305-101500000.parquet"


def test_the_items_settings_override_single_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "eu-central-1")
    item = item_json({"path": "raw-bucket/dms/shop/orders/", "PrimaryKey": "code", "Schema": "code int"})
    run, _ = table_run(command_line("raw-bucket", "s3://lake-bucket/shop", primaryKey="id", item=item))
    assert run.settings.primary_key == ("code",)
    assert run.settings.partition_key == ("day",)
    assert run.settings.schema is not None
    assert run.settings.schema.names == ["code"]


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize("error", [BadRowError("Op is X", file="a.csv", row=7), ZeroDivisionError("a defect")])
def test_a_single_table_that_fails_leaves_its_error_with_its_kind(error: Exception) -> None:
    def load(_argv: Sequence[str]) -> dict[str, Any]:
        raise error

    key = batch_key("lakes/", "run-1-1")
    boto3.client("s3").create_bucket(
        Bucket="lake-bucket", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
    )
    argv = command_line("raw-bucket", "s3://lake-bucket/shop", progress=f"s3://lake-bucket/{progress_key(key)}")
    with pytest.raises(type(error)):
        load_tables(argv, load, InProcessBackend)
    progress, path = read_progress(open_store("lake-bucket"), key), "raw-bucket/dms/shop/orders/"
    assert progress
    assert progress.done[path].startswith(type(error).__name__)
    known = progress.error_of(path)
    assert str(known) == ("Op is X (file a.csv, row 7)" if isinstance(error, BadRowError) else "None")


@pytest.mark.usefixtures("aws")
def test_a_run_of_a_table_at_which_one_died_names_each_file_before_it_reads_it() -> None:
    boto3.client("s3").create_bucket(
        Bucket="lake-bucket", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
    )
    key, path = batch_key("lakes/", "run-1-1"), "raw-bucket/dms/shop/orders/"
    argv = command_line(
        "raw-bucket", "s3://lake-bucket/shop", progress=f"s3://lake-bucket/{progress_key(key)}", name_files="true"
    )
    run, _ = table_run(argv)
    assert read_progress(open_store("lake-bucket"), key) == BatchProgress({}, at=path)
    assert run.note_file
    run.note_file("LOAD00000001.csv")
    assert read_progress(open_store("lake-bucket"), key) == BatchProgress({}, at=path, file="LOAD00000001.csv")


def test_a_full_disk_is_an_error_of_its_table() -> None:
    def load(_argv: Sequence[str]) -> dict[str, Any]:
        with Path("/dev/full").open("wb") as file:
            file.write(b"x")
        return {}

    with pytest.raises(DiskFullError, match="A disk is full"):
        load_tables(
            command_line("raw-bucket", "s3://lake-bucket/shop"), load, lambda: pytest.fail("no Spark is needed")
        )


def test_an_out_path_without_schema_is_a_clear_error() -> None:
    with pytest.raises(ConfigurationError, match="out_path"):
        table_run(command_line("raw-bucket", "s3://lake-bucket"))


def test_a_load_logs_its_start_and_end_and_names_its_table_in_between(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def load(argv: Sequence[str]) -> dict[str, Any]:
        logging.getLogger("cdclake.commit").warning("slow")
        return {"change": 4, "kind": "incremental", "books": {"read_insert": 2, "read_update": 0}}

    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    logs.configure(run_id="jr_1")
    load_tables(command_line("raw-bucket", "s3://lake-bucket/shop"), load, lambda: InProcessBackend(parallelism=8))
    root.handlers[:] = handlers
    root.setLevel(level)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["message"], line["run_id"], line["table"], line["change"]) for line in lines] == [
        ("began", "jr_1", "shop.orders", None),
        ("slow", "jr_1", "shop.orders", None),
        ("ended", "jr_1", "shop.orders", 4),
    ]
    assert (lines[-1]["reason"], lines[-1]["books"]) == ("incremental", {"read_insert": 2})
