"""Buckets and state table come from options, environment, the deployed stack or defaults."""

import json

import boto3
import pytest
from botocore.exceptions import ClientError

from cdclake.adapters.dynamodb import DynamoState, create_state_table
from cdclake.errors import ConfigurationError
from cdclake.model.table.state import TableState
from cdclake_cli.options import change_or_time

LOCATIONS = {"RawBucket": "my-raw", "RawPrefix": "dms/", "LakeBucket": "my-lake", "StateTable": "my-states"}


STACKS = {
    "CdclakePipeline": {**LOCATIONS, "AlarmTopic": "arn:aws:sns:eu-central-1:123456789012:alarms"},
    "staging-CdclakePipeline": {**LOCATIONS, "NamePrefix": "staging-"},
    "Another": {"AlarmTopic": "topic"},
}


def answer_for_stacks(monkeypatch):
    """Make CloudFormation, which moto does not start here, answer like the service."""
    make = boto3.Session.client

    def client(session, service, **options):
        client = make(session, service, **options)
        if service == "cloudformation":
            client.describe_stacks = describe
        return client

    def describe(StackName):
        if StackName not in STACKS:
            message = f"Stack with id {StackName} does not exist"
            raise ClientError({"Error": {"Code": "ValidationError", "Message": message}}, "DescribeStacks")
        outputs = [{"OutputKey": key, "OutputValue": value} for key, value in STACKS[StackName].items()]
        return {"Stacks": [{"StackName": StackName, "Outputs": outputs}]}

    monkeypatch.setattr(boto3.Session, "client", client)


@pytest.fixture
def deployed(cdclake, aws, monkeypatch):
    """A stack, and its state table with two tables."""
    answer_for_stacks(monkeypatch)
    client = boto3.client("dynamodb")
    create_state_table(client, "my-states")
    states = DynamoState(client, "my-states")
    states.register(TableState.new("my-raw", "dms/shop/", "orders/"))
    states.register(TableState.new("another-raw", "dms/shop/", "orders/"))
    return cdclake


def buckets(result):
    assert result.exit_code == 0, result.output
    return [json.loads(line)["item"]["bucket"] for line in result.stdout.splitlines()]


@pytest.mark.parametrize("chosen", [("--stack", "staging-CdclakePipeline"), ("--name-prefix", "staging-")])
def test_jobs_have_the_prefix_of_their_deployment(deployed, chosen):
    for bucket in ("my-raw", "my-lake", "cdclake-raw", "cdclake-lake"):
        boto3.client("s3").create_bucket(
            Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
        )
    result = deployed("run", "--state-table", "my-states", *chosen)
    assert result.exit_code != 0
    assert "staging-DMSCDC_Controller" in result.output


def test_locations_come_from_the_stack(deployed):
    assert buckets(deployed("tables", "-o", "json", "--stack", "CdclakePipeline")) == ["my-raw"]
    assert buckets(deployed("tables", "-o", "json", CDCLAKE_STACK="CdclakePipeline")) == ["my-raw"]


def test_options_and_environment_override_the_stack(deployed):
    arguments = ("tables", "-o", "json", "--stack", "CdclakePipeline")
    assert buckets(deployed(*arguments, "--raw-bucket", "another-raw")) == ["another-raw"]
    assert buckets(deployed(*arguments, CDCLAKE_RAW_BUCKET="another-raw")) == ["another-raw"]


def test_an_unknown_stack_is_an_error(deployed):
    error = deployed.refused("tables", "--stack", "Elsewhere")
    assert "There is no CloudFormation stack Elsewhere in this account and region" in error


def test_a_stack_without_locations_is_refused(deployed):
    assert "CdclakePipeline by default" in deployed.refused("tables", "--stack", "Another")


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "9" * 5000, "²", ""])
def test_a_text_that_is_neither_a_change_nor_a_time_is_refused(text):
    with pytest.raises(ConfigurationError, match="is not a time"):
        change_or_time(text)
