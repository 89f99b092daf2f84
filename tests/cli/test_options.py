"""Where a command finds the buckets and the state: options, environment, the deployed stack, defaults."""

import json

import boto3
import pytest
from botocore.exceptions import ClientError

from cdclake.adapters.dynamodb import DynamoState, create_state_table
from cdclake.model.table import TableState

PLACES = {"RawBucket": "my-raw", "RawPrefix": "dms/", "LakeBucket": "my-lake", "StateTable": "my-states"}


STACKS = {
    "CdclakePipeline": {**PLACES, "AlarmTopic": "arn:aws:sns:eu-central-1:123456789012:alarms"},
    "Another": {"AlarmTopic": "topic"},
}


def answer_for_stacks(monkeypatch):
    """Let CloudFormation, which the AWS of these tests does not have, answer as the service does."""
    make = boto3.Session.client

    def client(session, service, **options):
        made = make(session, service, **options)
        if service == "cloudformation":
            made.describe_stacks = describe
        return made

    def describe(StackName):
        if StackName not in STACKS:
            message = f"Stack with id {StackName} does not exist"
            raise ClientError({"Error": {"Code": "ValidationError", "Message": message}}, "DescribeStacks")
        outputs = [{"OutputKey": key, "OutputValue": value} for key, value in STACKS[StackName].items()]
        return {"Stacks": [{"StackName": StackName, "Outputs": outputs}]}

    monkeypatch.setattr(boto3.Session, "client", client)


@pytest.fixture
def deployed(cdclake, aws, monkeypatch):
    """A stack, and the state table that it names with tables in it."""
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


def test_places_come_from_the_stack(deployed):
    assert buckets(deployed("tables", "-o", "json", "--stack", "CdclakePipeline")) == ["my-raw"]
    assert buckets(deployed("tables", "-o", "json", CDCLAKE_STACK="CdclakePipeline")) == ["my-raw"]


def test_what_is_given_goes_before_the_stack(deployed):
    arguments = ("tables", "-o", "json", "--stack", "CdclakePipeline")
    assert buckets(deployed(*arguments, "--raw-bucket", "another-raw")) == ["another-raw"]
    assert buckets(deployed(*arguments, CDCLAKE_RAW_BUCKET="another-raw")) == ["another-raw"]


def test_a_stack_that_is_not_there_is_said_plainly(deployed):
    result = deployed("tables", "--stack", "Elsewhere")
    assert result.exit_code == 2
    assert "There is no CloudFormation stack Elsewhere in this account and region" in result.output


def test_a_stack_of_something_else_is_refused(deployed):
    result = deployed("tables", "--stack", "Another")
    assert result.exit_code == 2
    assert "CdclakePipeline by default" in result.output
