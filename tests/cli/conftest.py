"""Tests of the command: run in this process, against AWS as moto plays it."""

import boto3
import pytest
from typer.testing import CliRunner

from cdclake.adapters.dynamodb import DynamoState, create_state_table
from cdclake.cli.main import app
from cdclake.model.names import STATE_TABLE
from cdclake.model.table import TableState


class Command:
    """Runs `cdclake` with arguments."""

    def __init__(self) -> None:
        self._runner = CliRunner()

    def __call__(self, *arguments, **environment):
        return self._runner.invoke(app, arguments, env=environment)


@pytest.fixture
def cdclake(monkeypatch):
    """The command, in an environment that knows nothing of AWS but a region."""
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
