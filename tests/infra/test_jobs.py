"""The Glue jobs' definitions, and that their scripts accept the deployed arguments."""

from __future__ import annotations

import json
import logging
import re
import runpy
import signal
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from cdclake.adapters.aws import client
from cdclake.adapters.dynamodb import DynamoState, create_state_table
from cdclake.control.jobs.arguments import parse_arguments, paths_json
from cdclake.control.run.process_table import WAIT_FOR_ROOM
from cdclake.control.run.run_arguments import RunArguments
from cdclake.model.names import (
    JOB_CONTROLLER,
    JOB_LOAD_INCREMENTAL,
    JOB_LOAD_INITIAL,
    JOB_PROCESS_TABLE,
    STATE_TABLE,
    Argument,
)
from cdclake.model.table.state import TableState
from tests.infra.stacks import ACCOUNT, CODE_BUCKET, REGION, TASK, Stacks

if TYPE_CHECKING:
    from collections.abc import Iterator

SHELL = (JOB_CONTROLLER, JOB_PROCESS_TABLE)
SPARK = (JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL)
RAW, LAKE = f"cdclake-raw-{ACCOUNT}-{REGION}", f"cdclake-lake-{ACCOUNT}-{REGION}"
INSTALLS = ("--extra-py-files", "--additional-python-modules")
"""Glue's arguments that name files to install."""
OURS = {f"--{value}" for name, value in vars(Argument).items() if name.isupper()}
"""Every argument of cdclake; the others are Glue's."""


def job(deployed: Stacks, name: str) -> dict[str, Any]:
    properties: dict[str, Any] = deployed.one("AWS::Glue::Job", Name=name)["Properties"]
    return properties


def own_arguments(deployed: Stacks, name: str) -> dict[str, str]:
    return {key: value for key, value in job(deployed, name)["DefaultArguments"].items() if key in OURS}


def argv(deployed: Stacks, name: str, **more: str) -> list[str]:
    """The command line that Glue builds from the defaults and the run's own arguments."""
    arguments = {**job(deployed, name)["DefaultArguments"], **{f"--{key}": value for key, value in more.items()}}
    return ["script.py", *(word for pair in arguments.items() for word in pair)]


def script(deployed: Stacks, name: str) -> str:
    """The path of the script file that is uploaded."""
    return str(deployed.uploaded(job(deployed, name)["Command"]["ScriptLocation"].removeprefix(f"s3://{CODE_BUCKET}/")))


def test_the_jobs_have_the_names_that_operators_know(default: Stacks):
    names = {found["Properties"]["Name"] for found in default.all("AWS::Glue::Job").values()}
    assert names == {*SHELL, *SPARK}


@pytest.mark.parametrize("name", SHELL)
def test_a_python_shell_job_runs_on_3_9_with_two_wheels(default: Stacks, name: str):
    properties = job(default, name)
    assert properties["Command"]["Name"] == "pythonshell"
    assert properties["Command"]["PythonVersion"] == "3.9"
    assert (properties["GlueVersion"], properties["MaxCapacity"]) == ("3.0", 0.0625)
    arguments = properties["DefaultArguments"]
    assert arguments["library-set"] == "none"
    package, libraries = (url.rpartition("/")[2] for url in arguments["--extra-py-files"].split(","))
    assert (package.partition("-")[0], libraries.partition("-")[0]) == ("cdclake", "cdclake_libraries")
    for wheel in (package, libraries):
        assert wheel.endswith("-py3-none-any.whl")
        assert default.uploaded(wheel).name == wheel  # pip parses a wheel's file name


@pytest.mark.parametrize("name", SPARK)
def test_a_spark_job_runs_on_glue_6_0_with_the_package_and_a_zip_of_wheels(default: Stacks, name: str):
    properties = job(default, name)
    assert (properties["Command"]["Name"], properties["GlueVersion"]) == ("glueetl", "6.0")
    assert (properties["WorkerType"], properties["NumberOfWorkers"]) == ("G.1X", 10)
    arguments = properties["DefaultArguments"]
    assert arguments["--additional-python-modules"].endswith(".gluewheels.zip")
    assert arguments["--python-modules-installer-option"] == "--no-index"
    assert arguments["--enable-auto-scaling"] == "true"
    assert arguments["--enable-observability-metrics"] == "true"
    assert arguments["--enable-metrics"] == ""
    assert arguments["--extra-py-files"].endswith(".zip")


@pytest.mark.parametrize("name", [*SHELL, *SPARK])
def test_a_job_installs_only_uploaded_files_that_its_role_may_read(default: Stacks, tailored: Stacks, name: str):
    for deployed in (default, tailored):
        arguments = job(deployed, name)["DefaultArguments"]
        modules = [arguments[key] for key in INSTALLS if key in arguments]
        urls = [url for value in modules for url in value.split(",")]
        assert len(urls) == 2  # the package and its libraries
        urls.append(job(deployed, name)["Command"]["ScriptLocation"])
        for url in urls:
            assert deployed.uploaded(url.removeprefix(f"s3://{CODE_BUCKET}/")).is_file()
        may_read = deployed.role_of(deployed.one("AWS::Glue::Job", Name=name))["ReadCode"]
        assert set(may_read["Resource"]) == {url.replace("s3://", "arn:aws:s3:::") for url in urls}
        others = " ".join(value for key, value in arguments.items() if key not in {*INSTALLS, "--lineage_url"})
        assert not re.search(r"==|https?:|pypi|index-url|s3://", others)


@pytest.mark.parametrize("name", SPARK)
def test_spark_gets_the_setting_that_switches_quick_tasks_off(default: Stacks, tailored: Stacks, name: str):
    assert "--conf" not in job(default, name)["DefaultArguments"]
    assert job(tailored, name)["DefaultArguments"]["--conf"] == "spark.executorEnv.CDCLAKE_QUICK_TASKS=false"


@pytest.mark.parametrize("name", [*SHELL, *SPARK])
def test_jobs_log_continuously_and_are_not_retried(default: Stacks, name: str):
    properties = job(default, name)
    assert properties["DefaultArguments"]["--enable-continuous-cloudwatch-log"] == "true"
    assert properties["MaxRetries"] == 0


def test_runs_are_limited_to_concurrent_tables_and_others_queue(default: Stacks, tailored: Stacks):
    for deployed, tables in ((default, 50), (tailored, 7)):
        for name in (JOB_PROCESS_TABLE, *SPARK):
            assert job(deployed, name)["ExecutionProperty"] == {"MaxConcurrentRuns": tables}
            assert job(deployed, name)["JobRunQueuingEnabled"] is True
        assert job(deployed, JOB_CONTROLLER)["ExecutionProperty"] == {"MaxConcurrentRuns": 1}


def test_the_timeouts_of_the_spark_jobs_are_settings(default: Stacks, tailored: Stacks):
    assert [job(default, name)["Timeout"] for name in SPARK] == [480, 120]
    assert [job(tailored, name)["Timeout"] for name in SPARK] == [600, 90]


def test_process_table_has_more_time_than_it_waits_for_room(default: Stacks, tailored: Stacks):
    for deployed in (default, tailored):
        assert timedelta(minutes=job(deployed, JOB_PROCESS_TABLE)["Timeout"]) > 2 * WAIT_FOR_ROOM


def test_glue_version_worker_type_and_count_are_settings(tailored: Stacks):
    for name in SPARK:
        assert job(tailored, name)["GlueVersion"] == "5.1"
        assert (job(tailored, name)["WorkerType"], job(tailored, name)["NumberOfWorkers"]) == ("G.2X", 4)


def test_in_a_vpc_jobs_run_in_the_subnet_without_inbound_access(tailored: Stacks, default: Stacks):
    connection = tailored.one("AWS::Glue::Connection")["Properties"]["ConnectionInput"]
    ((group_id, group),) = tailored.all("AWS::EC2::SecurityGroup").items()
    assert (connection["Name"], connection["ConnectionType"]) == ("cdclake", "NETWORK")
    assert connection["PhysicalConnectionRequirements"] == {
        "AvailabilityZone": "eu-central-1a",
        "SecurityGroupIdList": [f"<{group_id}.GroupId>"],
        "SubnetId": "subnet-0123456789abcdef0",
    }
    (connection_id,) = tailored.all("AWS::Glue::Connection")
    for name in (*SHELL, *SPARK):
        assert job(tailored, name)["Connections"] == {"Connections": [f"<{connection_id}>"]}
        assert "Connections" not in job(default, name)
    assert group["Properties"]["VpcId"] == "vpc-0123456789abcdef0"
    assert "SecurityGroupIngress" not in group["Properties"]
    itself = f"<{group_id}.GroupId>"
    inward = tailored.one("AWS::EC2::SecurityGroupIngress")["Properties"]
    assert (inward["GroupId"], inward["SourceSecurityGroupId"]) == (itself, itself)
    (outward,) = group["Properties"]["SecurityGroupEgress"]
    assert (outward["CidrIp"], outward["FromPort"], outward["ToPort"]) == ("0.0.0.0/0", 443, 443)
    between = tailored.one("AWS::EC2::SecurityGroupEgress")["Properties"]
    assert (between["GroupId"], between["DestinationSecurityGroupId"]) == (itself, itself)
    assert default.all("AWS::EC2::SecurityGroup") == default.all("AWS::Glue::Connection") == {}


def test_the_jobs_get_their_default_arguments(default: Stacks, tailored: Stacks):
    both = {"--state_table": STATE_TABLE, "--table_metrics": "true"}
    assert own_arguments(default, JOB_CONTROLLER) == {"--bucket": RAW, **both}
    assert own_arguments(default, JOB_PROCESS_TABLE) == {
        "--out_bucket": LAKE,
        "--catalog_database": "cdclake",
        **both,
    }
    assert own_arguments(tailored, JOB_CONTROLLER) == {
        "--bucket": "acme-raw",
        "--prefix": "dms/erp/",
        "--new_table": json.dumps({"DmsTask": TASK}),
        "--state_table": STATE_TABLE,
        "--table_metrics": "false",
    }
    assert own_arguments(tailored, JOB_PROCESS_TABLE) == {
        "--out_bucket": LAKE,
        "--out_prefix": "tables/",
        "--catalog_database": "acme_lake",
        "--state_table": STATE_TABLE,
        "--table_metrics": "false",
        "--lineage_url": "http://marquez.internal:5000/api/v1/lineage",
        "--hash_secret": "acme/hashes",
    }
    for name in SPARK:  # ProcessTable passes the others
        own = {"--timeout_minutes": str(job(tailored, name)["Timeout"])}
        assert own_arguments(tailored, name) == own


def test_arguments_of_glue_are_ignored(tailored: Stacks):
    names = [Argument.BUCKET, Argument.PREFIX, Argument.STATE_TABLE]
    assert parse_arguments(argv(tailored, JOB_CONTROLLER), names) == {
        Argument.BUCKET: "acme-raw",
        Argument.PREFIX: "dms/erp/",
        Argument.STATE_TABLE: STATE_TABLE,
    }


@pytest.fixture
def account(aws: None, tailored: Stacks) -> Iterator[DynamoState]:
    """An account with the tailored buckets and state table; restores logging and signal handlers."""
    root = logging.getLogger()
    handlers, level, on_sigterm = list(root.handlers), root.level, signal.getsignal(signal.SIGTERM)
    for bucket in ("acme-raw", LAKE):
        client("s3").create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    create_state_table(client("dynamodb"), STATE_TABLE)
    yield DynamoState(client("dynamodb"), STATE_TABLE)
    root.handlers[:] = handlers
    root.setLevel(level)
    signal.signal(signal.SIGTERM, on_sigterm)


def run(path: str, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setattr(sys, "argv", words)
    runpy.run_path(path, run_name="__main__")
    return json.loads(capsys.readouterr().out)


@pytest.mark.aws
def test_the_deployed_scripts_run_with_the_deployed_arguments(
    account: DynamoState, tailored: Stacks, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    client("s3").put_object(Bucket="acme-raw", Key="dms/erp/shop/orders/LOAD00000001.parquet", Body=b"rows")
    summary = run(script(tailored, JOB_CONTROLLER), argv(tailored, JOB_CONTROLLER), monkeypatch, capsys)
    assert [(table["table"], table["outcome"]) for table in summary["tables"]] == [("shop.orders", "registered")]
    (state,) = account.all()
    words = argv(tailored, JOB_PROCESS_TABLE, item=json.dumps(state.item))
    report = run(script(tailored, JOB_PROCESS_TABLE), words, monkeypatch, capsys)
    assert (report["table"], report["outcome"]) == ("shop.orders", "inactive")


@pytest.mark.parametrize(("name", "minutes"), [(JOB_LOAD_INITIAL, 600), (JOB_LOAD_INCREMENTAL, 90)])
def test_a_spark_job_reads_process_tables_arguments_among_its_defaults(tailored: Stacks, name: str, minutes: int):
    paths = paths_json(["acme-raw/dms/erp/shop/orders/"])
    process_table = RunArguments.parse(argv(tailored, JOB_PROCESS_TABLE, paths=paths))
    handed = {**process_table.passed_on(), Argument.PATHS: paths, Argument.LEASE_HOLDER: "jr_1"}
    run = RunArguments.parse(argv(tailored, name, JOB_RUN_ID="jr_2", **handed))
    assert run == process_table._replace(lease_holder="jr_1", timeout_seconds=minutes * 60)
    assert (run.out_bucket, run.catalog_database, run.table_metrics) == (LAKE, "acme_lake", "false")


@pytest.mark.aws
@pytest.mark.parametrize("name", SPARK)
def test_a_spark_job_hands_nothing_on_for_tables_that_another_run_holds(
    account: DynamoState,
    tailored: Stacks,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    state = TableState.new("acme-raw", "dms/erp/shop/", "orders/")
    account.register(state)
    words = argv(
        tailored,
        name,
        JOB_RUN_ID="jr_2",
        paths=paths_json([state.path]),
        lease_holder="jr_1",
        out_bucket=LAKE,
        state_table=STATE_TABLE,
    )
    report = run(script(tailored, name), words, monkeypatch, capsys)
    assert (report["table"], report["outcome"]) == ("shop.orders", "busy: another run has taken it over")
