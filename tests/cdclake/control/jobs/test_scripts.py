"""The two entry scripts, run like in Glue, on the embedded AWS."""

from __future__ import annotations

import json
import logging
import runpy
import signal
import sys
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple

import pytest

from cdclake.adapters.aws import client
from cdclake.adapters.dynamodb import DynamoState, create_state_table
from cdclake.control.jobs.arguments import parse_paths
from cdclake.control.jobs.entry import JobExit
from cdclake.model.names import JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL, JOB_PROCESS_TABLE, STATE_TABLE
from cdclake.model.table.attributes import Attribute
from tests import ROOT
from tests.cdclake.control.world import LAKE, ORDERS, RAW

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.aws
SCRIPTS = ROOT / "glue_jobs"
CHANGE = "20240305-100001000.parquet"


@pytest.fixture(autouse=True)
def own_process() -> Iterator[None]:
    """Restore the process state that a script changes: logging, and the handler of SIGTERM."""
    root = logging.getLogger()
    handlers, level, on_sigterm = list(root.handlers), root.level, signal.getsignal(signal.SIGTERM)
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    signal.signal(signal.SIGTERM, on_sigterm)


@pytest.fixture
def states(aws: None) -> DynamoState:
    """Buckets, jobs and the state table."""
    for bucket in (RAW, LAKE):
        client("s3").create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    for job in (JOB_PROCESS_TABLE, JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL):
        client("glue").create_job(
            Name=job,
            Role="arn:aws:iam::123456789012:role/jobs",
            Command={"Name": "pythonshell", "ScriptLocation": f"s3://code/{job}.py"},
        )
    create_state_table(client("dynamodb"), STATE_TABLE)
    return DynamoState(client("dynamodb"), STATE_TABLE)


class Script:
    """Runs a script and captures its output."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, name: str, **arguments: str) -> tuple[dict[str, object], int, list[str]]:
        """Returns the summary, the exit code, and the lines on stderr."""
        words = [word for key, value in arguments.items() for word in (f"--{key}", value)]
        self._monkeypatch.setattr(sys, "argv", [name, "--JOB_NAME", "a-job", "--JOB_RUN_ID", "jr_1", *words])
        code = 0
        try:
            runpy.run_path(str(SCRIPTS / name), run_name="__main__")
        except JobExit as ended:
            assert isinstance(ended.code, int)
            code = ended.code
        out, err = self._capsys.readouterr()
        return (json.loads(out) if out else {}), code, err.splitlines()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Script:
    return Script(monkeypatch, capsys)


class Registered(NamedTuple):
    """The state table with an active table that has a change file, and what the Controller wrote to stderr."""

    states: DynamoState
    lines: list[str]


@pytest.fixture
def orders(states: DynamoState, run: Script) -> Registered:
    client("s3").put_object(Bucket=RAW, Key=f"dms/shop/orders/{CHANGE}", Body=b"rows")
    summary, code, lines = run("controller.py", bucket=RAW, prefix="dms")
    assert (summary["error"], code) == ("", 0)
    states.set_attributes(ORDERS, {Attribute.ACTIVE_FLAG: "true"})
    return Registered(states, lines)


ITEM = json.dumps({"path": ORDERS})


def test_the_controller_starts_the_run_of_a_table_that_it_registered(orders: Registered, run: Script):
    run("controller.py", bucket=RAW, prefix="dms/", tables=" shop.orders, ")
    (started,) = client("glue").get_job_runs(JobName=JOB_PROCESS_TABLE)["JobRuns"]
    assert parse_paths(started["Arguments"]["--paths"]) == [ORDERS]


def test_the_controller_reports_an_empty_raw_location_on_one_line(states: DynamoState, run: Script):
    summary, code, lines = run("controller.py", bucket=RAW, prefix="dms/")
    assert (summary, code) == ({}, 2)
    assert lines[-1].startswith(f"ConfigurationError: The raw location is empty (bucket {RAW}, prefix dms/)")


@pytest.mark.parametrize("name", ["controller.py", "process_table.py"])
def test_a_missing_argument_is_named_on_the_last_line(name: str, run: Script):
    _, code, lines = run(name)
    assert code == 2
    assert lines[-1].startswith("ConfigurationError: The argument --")


def test_the_controller_fails_when_a_table_cannot_be_started(orders: Registered, run: Script):
    client("glue").delete_job(JobName=JOB_PROCESS_TABLE)
    summary, code, lines = run("controller.py", bucket=RAW, prefix="dms/")
    assert code == 1
    assert lines[-1] == summary["error"]
    assert "1 of 1 tables failed: shop.orders" in lines[-1]


def test_process_table_leaves_a_busy_table_to_its_holder(orders: Registered, run: Script):
    orders.states.acquire_lease(ORDERS, "another-run", datetime.now(timezone.utc), 300)
    summary, code, _ = run("process_table.py", item=ITEM, out_bucket=LAKE, out_prefix="")
    assert str(summary["outcome"]).startswith("busy: leased by another-run until ")
    assert (summary["error"], code) == ("", 0)


def test_process_table_records_a_failure_and_all_lines_are_json_with_run_table_and_change_but_the_error_at_the_end(
    orders: Registered, run: Script
):
    client("glue").delete_job(JobName=JOB_LOAD_INCREMENTAL)
    _, code, (*failed, last) = run("process_table.py", item=ITEM, out_bucket=LAKE, out_prefix="lake")
    assert code == 2
    assert last.startswith("ConfigurationError: ")
    state = orders.states.get(ORDERS)
    assert state
    assert (state.item[Attribute.LAST_ERROR], state.item[Attribute.LAST_RUN_ID]) == (last, "jr_1")
    assert Attribute.LEASE_HOLDER not in state.item
    read = [json.loads(line) for line in [*orders.lines, *failed]]
    assert {(line["run_id"], line["table"], line["change"]) for line in read} == {("jr_1", "shop.orders", None)}
    assert [line["message"] for line in read if line["level"] == "ERROR"] == ["failed"]
