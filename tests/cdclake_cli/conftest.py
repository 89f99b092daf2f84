"""Runs the command in this process, against moto."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from typing import NamedTuple

import boto3
import pytest
from typer import testing
from typer.main import get_command

from cdclake.adapters.dynamodb import DynamoState, create_state_table
from cdclake.adapters.s3 import S3Store
from cdclake.commit.log import ChangeLog
from cdclake.model.change.record import ChangeKind
from cdclake.model.names import STATE_TABLE
from cdclake.model.table.name import TableName
from cdclake.model.table.state import TableState
from cdclake_cli import confirm
from cdclake_cli.main import assembled
from cdclake_cli.target import Target
from tests.builders import LakeBuilder
from tests.moto_buckets import Version, read_bucket, write_bucket

BAD_ROW = (
    b'{"file": "20240302-000000000.csv", "row": 0, "reason": "id is null", "columns": ["id"], "content": {"id": null}}'
)

# The runner builds all verbs again for each call, which takes longer than most of them run.
setattr(testing, "_get_command", cache(get_command))  # noqa: B010 - mypy refuses to assign to a function


class Command:
    """Runs `cdclake` with arguments."""

    def __init__(self) -> None:
        self._runner = testing.CliRunner()

    def __call__(self, *arguments, **environment):
        return self._runner.invoke(assembled(), arguments, env=environment)

    def ok(self, *arguments, **environment):
        """The result of a command that succeeds."""
        result = self(*arguments, **environment)
        assert result.exit_code == 0, result.output
        return result

    def refused(self, *arguments, **environment):
        """The message of a command that is refused, without a traceback."""
        result = self(*arguments, **environment)
        assert result.exit_code == 2, result.output
        assert "Traceback" not in result.output
        return result.stderr

    def records(self, *arguments, **environment):
        """The records that a successful command prints as JSON."""
        result = self.ok(*arguments, "--output", "json", **environment)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def record(self, *arguments, **environment):
        """The single record that a successful command prints as JSON."""
        (record,) = self.records(*arguments, **environment)
        return record

    def at_terminal(self, *arguments, answer):
        """Run it at a terminal.

        Args:
            answer: The text to type, or a function that returns it when asked.
        """
        terminal = io.TextIOWrapper(io.BufferedReader(Terminal(answer if callable(answer) else lambda: answer)))
        stdout, stderr = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(stdout), redirect_stderr(stderr):
            patch.setattr("sys.stdin", terminal)
            with pytest.raises(SystemExit) as end:
                assembled()(arguments, prog_name="cdclake")
        return TerminalResult(int(end.value.code or 0), stdout.getvalue(), stderr.getvalue())


class TerminalResult(NamedTuple):
    """The result of a command at a terminal."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self):
        return self.stdout + self.stderr


class Terminal(io.RawIOBase):
    """A terminal that types a line when it is read."""

    def __init__(self, typed):
        self._typed = typed

    def readable(self):
        return True

    def isatty(self):
        return True

    def readinto(self, buffer):
        data = f"{self._typed()}\n".encode()
        buffer[: len(data)] = data
        return len(data)


@pytest.fixture(autouse=True)
def _no_wait_for_leases(monkeypatch):
    monkeypatch.setattr(confirm, "LEASE_WAIT_SECONDS", 0)


@pytest.fixture
def cdclake(monkeypatch):
    """The command, in an environment with an AWS region and nothing else of AWS."""
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    return Command()


@pytest.fixture
def state(cdclake, aws):
    """A state table with two tables, and the buckets."""
    for bucket in ("cdclake-raw", "cdclake-lake"):
        boto3.client("s3").create_bucket(
            Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
        )
    client = boto3.client("dynamodb")
    create_state_table(client, STATE_TABLE)
    store = DynamoState(client, STATE_TABLE)
    for table in ("store", "product"):
        store.register(TableState.new("cdclake-raw", "shop/", f"{table}/"))
    return store


def content(staged_key):
    """The bytes of a data file; their number depends on the change."""
    change = int(staged_key.split("-run-")[1].split("/")[0])
    return f"rows of change {change}".encode() * change


@pytest.fixture
def store(state):
    """A lake table with three changes, in a versioned bucket; the table is registered and active."""
    client = boto3.client("s3")
    client.put_bucket_versioning(Bucket="cdclake-lake", VersioningConfiguration={"Status": "Enabled"})
    name = TableName("shop", "store")
    table = LakeBuilder(ChangeLog(S3Store(client, "cdclake-lake"), Target().installation.layout(name)), content=content)
    if BUILT:
        write_bucket("cdclake-lake", BUILT)
    else:
        _add_changes(table)
        BUILT.update(read_bucket("cdclake-lake"))
    state.set_attributes("cdclake-raw/shop/store/", {"ActiveFlag": "true"})
    state.record_run("cdclake-raw/shop/store/", {"LastChangeId": "3"})
    return table


BUILT: dict[str, list[Version]] = {}
"""What the lake of `store` contains, once it has been built."""


def _add_changes(table):
    seconds = {"read": 0.25, "rewrite": 1.5}
    first = table.change(rows=100, kind=ChangeKind.FULL_LOAD, seconds=seconds)
    table.change(rows=50, bad_rows=BAD_ROW, seconds=seconds)
    table.change(rows=20, retired=(first.added[0].path,), seconds=seconds)
