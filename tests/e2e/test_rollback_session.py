"""An operator's session: apply 1,000 updates and 1,000 deletes, count, roll back, count, reapply, count.

The real commands run on the embedded AWS, with real jobs and a versioned lake bucket. Jobs and function have the roles
of the stacks, and the commands and a reader have roles with the policies in the documents. Commands at a terminal and
on Spark are processes of their own. The others run in this one, where no module needs to be imported anew.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pty
import random
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

import boto3
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from typer.testing import CliRunner

from cdclake.adapters.dynamodb import DynamoState
from cdclake.errors import ConfigurationError
from cdclake.model.names import JOB_CONTROLLER, STATE_TABLE, Sentinel
from cdclake.model.table.attributes import Attribute
from cdclake_cli.main import assembled
from cdclake_devkit.local import EmbeddedAws, deploy
from cdclake_devkit.local.deploy import DEFAULT_DEPLOYMENT, create_role, place_of
from cdclake_devkit.local.roles import ON_RAW_FILE, policies
from tests import ROOT
from tests.builders import parquet_bytes
from tests.infra.calls import Recorder, unused
from tests.infra.documented import documented_policy
from tests.infra.reasons import JOBS, REASONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake_devkit.strict_aws.access.policies import Permission


pytestmark = [pytest.mark.spark, pytest.mark.aws, pytest.mark.long]

TABLE, FOLDER = "cdc.sales_order_fact", "cdc/sales_order_fact/"
COMMAND = [sys.executable, "-c", "from cdclake_cli.main import main; main()"]
ORDERS, TOUCHED = 20_000, 1_000
CHANGE_FILE = "20240305-100000000.parquet"
WAIT_SECONDS = 240
REGION, ROLE_PREFIX = "eu-central-1", "cdclake-"
OPERATOR, READER = "operator", "reader"
"""Roles of the commands, and of a reader of the lake."""
PLACE = place_of(DEFAULT_DEPLOYMENT, REGION)
OTHER_COMMANDS = (
    ("status",),
    ("plan",),
    ("tables", "list"),
    ("doctor", TABLE),
    ("repair", TABLE, "--yes"),
    ("clean-up", TABLE, "--retention-days", "0", "--yes"),
)


class Counts(NamedTuple):
    """Number of rows, how many of the orders to delete and to update exist, and the quantity of the latter."""

    rows: int
    to_delete: int
    to_update: int
    quantity: int


class Session:
    """A lake with one table of orders, and the commands on it."""

    def __init__(self, aws: EmbeddedAws) -> None:
        self._environment = {**aws.environment(), **aws.assume_role(OPERATOR)}
        self._s3 = aws.client("s3")
        sample = random.Random(7).sample(range(ORDERS), 2 * TOUCHED)
        self.deletes, self.updates = sample[:TOUCHED], sample[TOUCHED:]

    def cdclake(self, *arguments: str) -> list[dict[str, Any]]:
        """Run a command that must succeed; returns the JSON objects that it prints."""
        done = self.run(*arguments, "--output", "json")
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command in this process."""
        done = CliRunner().invoke(assembled(arguments[0]), arguments, env=self._environment)
        return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)

    def process(self, *arguments: str, stdin: int = subprocess.DEVNULL) -> subprocess.CompletedProcess[str]:
        command = [*COMMAND, *arguments]
        return subprocess.run(
            command,
            stdin=stdin,
            capture_output=True,
            text=True,
            env=self._environment,
            check=False,
            timeout=WAIT_SECONDS,
        )

    def at_a_terminal(self, *arguments: str, answer: str) -> subprocess.CompletedProcess[str]:
        """Run the command at a terminal, and type an answer."""
        operator, terminal = pty.openpty()
        try:
            os.write(operator, f"{answer}\n".encode())
            return self.process(*arguments, stdin=terminal)
        finally:
            os.close(operator)
            os.close(terminal)

    def put_raw(self, name: str, rows: pa.Table) -> None:
        """Write a raw file as DMS does."""
        stamps = pa.repeat(pa.scalar("2024-03-05 10:00:00.000000"), rows.num_rows)
        content = parquet_bytes(rows.append_column("dms_timestamp", stamps))
        self._s3.put_object(Bucket=DEFAULT_DEPLOYMENT.raw_bucket, Key=FOLDER + name, Body=content)

    def files(self) -> dict[str, bytes]:
        """The files that a reader of the table's folder sees."""
        bucket = DEFAULT_DEPLOYMENT.lake_bucket
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=FOLDER)
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
        return {key: self._s3.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}

    def hashes(self) -> dict[str, str]:
        return {key: hashlib.sha256(data).hexdigest() for key, data in self.files().items()}

    def counts(self) -> Counts:
        orders = pa.concat_tables([pq.read_table(io.BytesIO(data)) for data in self.files().values()])
        deleted = orders.filter(pc.is_in(orders["order_id"], pa.array(self.deletes)))
        updated = orders.filter(pc.is_in(orders["order_id"], pa.array(self.updates)))
        return Counts(orders.num_rows, deleted.num_rows, updated.num_rows, pc.sum(updated["quantity"]).as_py())


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    """Records what callers need, from the start of the session."""
    return Recorder()


@pytest.fixture(scope="module")
def aws(recorder: Recorder) -> Iterator[EmbeddedAws]:
    """An embedded AWS whose calls are recorded."""
    with EmbeddedAws(region=REGION, middleware=recorder.around) as aws:
        yield aws


@pytest.fixture(scope="module")
def session(aws: EmbeddedAws) -> Session:
    """The loaded table, in several files. Only `cdclake run` starts work."""
    deploy(aws)
    aws.client("s3").put_bucket_notification_configuration(
        Bucket=DEFAULT_DEPLOYMENT.raw_bucket, NotificationConfiguration={}
    )
    for name, heading in {OPERATOR: "Operators", READER: "Readers"}.items():
        create_role(aws.client("iam"), name, documented_policy(heading, PLACE))
    session = Session(aws)
    orders = pa.table({"order_id": pa.array(range(ORDERS)), "quantity": pa.array([1] * ORDERS)})
    session.put_raw("LOAD00000001.parquet", orders)
    session.cdclake("run")
    session.cdclake("tables", "set", TABLE, "--primary-key", "order_id", "--set", "TargetFileBytes=50000")
    session.cdclake("tables", "activate", TABLE)
    (loaded,) = session.cdclake("run")
    assert loaded["steps"][0]["inserted"] == ORDERS
    return session


def orders_changed(session: Session) -> pa.Table:
    """1,000 updates that make a quantity 3, and 1,000 deletes."""
    return pa.table(
        {
            "Op": ["U"] * TOUCHED + ["D"] * TOUCHED,
            "order_id": pa.array([*session.updates, *session.deletes]),
            "quantity": pa.array([3] * TOUCHED + [1] * TOUCHED),
        }
    )


def test_counts_and_files_are_right_after_apply_rollback_and_reapply(session: Session) -> None:
    """At the end, after another rollback and activation, the next run applies the raw file again."""
    began = datetime.now(timezone.utc)
    files_before = session.hashes()
    assert len(files_before) > 1
    assert session.counts() == Counts(ORDERS, TOUCHED, TOUCHED, TOUCHED)
    before, after = session.counts(), Counts(ORDERS - TOUCHED, 0, TOUCHED, 3 * TOUCHED)

    session.put_raw(CHANGE_FILE, orders_changed(session))
    (applied,) = session.cdclake("run")
    assert (applied["steps"][0]["updated"], applied["steps"][0]["deleted"]) == (TOUCHED, TOUCHED)
    assert session.counts() == after
    files_after = session.hashes()
    assert not files_after.keys() & files_before.keys()

    (plan,) = session.cdclake("rollback", TABLE, "--dry-run")
    assert (plan["rows_before"], plan["rows_after"], plan["done"]) == (after.rows, before.rows, False)
    assert session.at_a_terminal("rollback", TABLE, answer="n").returncode == 1
    assert session.hashes() == files_after

    rolled_back = session.at_a_terminal("rollback", TABLE, "--reason", "a look back", answer="y")
    assert rolled_back.returncode == 0, rolled_back.stderr
    assert f"Done, as change 3: {TABLE} is as it was after change 1; rows: {ORDERS:,}." in rolled_back.stdout
    assert session.counts() == before
    assert session.hashes() == files_before

    (hourly,) = session.cdclake("run")
    assert (hourly["outcome"], hourly["steps"]) == ("inactive", [])
    assert session.hashes() == files_before

    (reapplied,) = session.cdclake("reapply", TABLE, "--yes")
    assert (reapplied["done"], reapplied["as_of"]) == (True, 2)
    assert session.counts() == after
    assert session.hashes() == files_after

    session.cdclake("tables", "activate", TABLE)
    (hourly,) = session.cdclake("run")
    assert (hourly["outcome"], hourly["steps"]) == ("nothing new", [])
    assert session.hashes() == files_after

    changes = session.cdclake("changes", TABLE)
    assert [(change["kind"], change["as_of"], change["shown"]) for change in changes] == [
        ("full load", None, False),
        ("incremental", None, True),
        ("rollback", 1, False),
        ("reapply", 2, False),
    ]
    times = [datetime.fromisoformat(change["created_utc"]) for change in changes]
    assert times == sorted(times)
    assert times[0] < began - timedelta(seconds=1) < times[1]  # records have whole seconds
    assert times[3] <= datetime.now(timezone.utc)
    (shown,) = session.cdclake("changes", "show", TABLE, "3")
    assert (shown["reason"], len(shown["restored"])) == ("a look back", len(files_before))
    assert shown["run_id"].startswith("by-hand-")

    session.cdclake("rollback", TABLE, "--yes")
    session.cdclake("tables", "activate", TABLE)
    (hourly,) = session.cdclake("run")
    assert [step["change"] for step in hourly["steps"]] == [6]
    assert session.counts() == after
    assert session.run("reapply", TABLE, "--yes").returncode == ConfigurationError.exit_code


def new_file_event(*keys: str) -> dict[str, Any]:
    """S3's event of raw files that were just written."""
    (record,) = json.loads((ROOT / "tests" / "events" / "change_file.json").read_text())["Records"]
    record["eventTime"] = datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")
    s3 = {**record["s3"], "bucket": {"name": DEFAULT_DEPLOYMENT.raw_bucket}}
    return {"Records": [{**record, "s3": {**s3, "object": {"key": key}}} for key in keys]}


@pytest.fixture(scope="module")
def needed(session: Session, aws: EmbeddedAws, recorder: Recorder) -> dict[str, set[Permission]]:
    """What jobs and function need to do the work that the schedule and a file's event start."""
    session.put_raw("20240306-100000000.parquet", orders_changed(session))
    glue = aws.client("glue")
    glue.start_job_run(JobName=JOB_CONTROLLER)
    event = json.dumps(new_file_event("shop/new/20240306-100000000.parquet"))
    for _ in range(2):  # the first registers the table, the second processes it
        answer = aws.client("lambda").invoke(FunctionName=DEFAULT_DEPLOYMENT.on_raw_file, Payload=event)
        assert "FunctionError" not in answer, answer["Payload"].read()
        path = f"{DEFAULT_DEPLOYMENT.raw_bucket}/shop/new/"
        DynamoState(aws.client("dynamodb"), STATE_TABLE).set_attributes(path, {Attribute.ACTIVE_FLAG: Sentinel.ACTIVE})
    aws.wait_until_idle(WAIT_SECONDS)
    for job in JOBS:
        states = {run["JobRunState"] for run in glue.get_job_runs(JobName=job)["JobRuns"]}
        assert states == {"SUCCEEDED"}, job
    return {name.removeprefix(ROLE_PREFIX): needed for name, needed in recorder.needed.items()}


@pytest.mark.parametrize("caller", [*JOBS, ON_RAW_FILE])
def test_a_role_allows_only_what_a_call_or_a_reason_needs(needed: dict[str, set[Permission]], caller: str) -> None:
    granted = policies(PLACE)[caller]
    assert unused(granted, needed[caller]) - REASONS[caller].keys() == set()
    assert REASONS[caller].keys() <= unused(granted, ())


def test_the_documented_policy_of_operators_allows_a_command_on_spark(session: Session) -> None:
    assert_allowed(session.process("diff", TABLE, "1", "2"))


@pytest.mark.parametrize("command", OTHER_COMMANDS, ids=" ".join)
def test_the_documented_policy_of_operators_allows_the_commands(session: Session, command: tuple[str, ...]) -> None:
    assert_allowed(session.run(*command))


def assert_allowed(done: subprocess.CompletedProcess[str]) -> None:
    assert "Denied" not in done.stderr
    assert done.returncode in (0, 1), done.stderr  # 1: there are findings, or differences


def test_the_documented_policy_of_readers_allows_reading_and_nothing_else(session: Session, aws: EmbeddedAws) -> None:
    bucket, keys = DEFAULT_DEPLOYMENT.lake_bucket, aws.assume_role(READER)
    access_key, secret_key, token = keys.values()
    reader = fs.S3FileSystem(
        access_key=access_key,
        secret_key=secret_key,
        session_token=token,
        endpoint_override=aws.endpoint,
        region=aws.region,
        force_virtual_addressing=False,
    )
    assert ds.dataset(f"{bucket}/{FOLDER}", filesystem=reader).count_rows() > 0
    with pytest.raises(OSError, match="ACCESS_DENIED"), reader.open_output_stream(f"{bucket}/{FOLDER}new") as sink:
        sink.write(b"new")
    read_session = boto3.session.Session(access_key, secret_key, token, aws.region)
    glue = read_session.client("glue", endpoint_url=aws.endpoint)
    table = glue.get_table(DatabaseName=DEFAULT_DEPLOYMENT.catalog_database, Name=TABLE.replace(".", "_"))["Table"]
    assert table["StorageDescriptor"]["Location"] == f"s3://{bucket}/{FOLDER}"
