"""What is particular to DynamoDB: attribute types, retries, the table itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from botocore.errorfactory import ClientExceptionsFactory

from cdclake.adapters import aws as aws_clients
from cdclake.adapters.dynamodb import DynamoState, create_state_table
from cdclake.errors import ConfigurationError, UnknownTableError
from cdclake.model.names import STATE_TABLE
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState
from tests.cdclake.adapters.network_faults import Faults

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from cdclake_devkit.memory import ManualClock

TABLE = TableState.new("raw", "dms/shop/", "product/")
PATH = TABLE.path


@pytest.fixture
def client(aws: None) -> DynamoDBClient:
    return aws_clients.client("dynamodb")


@pytest.fixture
def registered(client: DynamoDBClient) -> DynamoState:
    create_state_table(client, STATE_TABLE)
    state = DynamoState(client, STATE_TABLE)
    state.register(TABLE)
    return state


def item(state: DynamoState) -> dict[str, str]:
    found = state.get(PATH)
    assert found is not None
    return dict(found.item)


def store(client: DynamoDBClient, expression: str, **values: Any) -> None:
    """Set attributes of any type, as others may."""
    client.update_item(
        TableName=STATE_TABLE,
        Key={"path": {"S": PATH}},
        UpdateExpression=f"SET {expression}",
        ExpressionAttributeValues={f":{name}": value for name, value in values.items()},
    )


def test_the_state_table_is_created_with_on_demand_billing_and_the_key_path(client: DynamoDBClient) -> None:
    create_state_table(client, STATE_TABLE)
    table = client.describe_table(TableName=STATE_TABLE)["Table"]
    assert table["KeySchema"] == [{"AttributeName": "path", "KeyType": "HASH"}]
    assert table["AttributeDefinitions"] == [{"AttributeName": "path", "AttributeType": "S"}]
    assert table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"


def test_creating_the_state_table_again_leaves_it_alone(client: DynamoDBClient, registered: DynamoState) -> None:
    create_state_table(client, STATE_TABLE)
    assert item(registered) == dict(TABLE.item)


def test_the_first_eight_attributes_are_stored_as_text(client: DynamoDBClient, registered: DynamoState) -> None:
    stored = client.get_item(TableName=STATE_TABLE, Key={"path": {"S": PATH}})["Item"]
    assert stored == {
        "path": {"S": "raw/dms/shop/product/"},
        "bucket": {"S": "raw"},
        "prefix": {"S": "dms/shop/"},
        "folder": {"S": "product/"},
        "PrimaryKey": {"S": "null"},
        "PartitionKey": {"S": "null"},
        "LastFullLoadDate": {"S": "1900-01-01 00:00:00"},
        "LastIncrementalFile": {"S": "raw/dms/shop/product/0.parquet"},
        "ActiveFlag": {"S": "false"},
    }


def test_attributes_of_any_type_are_read_as_text(client: DynamoDBClient, registered: DynamoState) -> None:
    values = {"true": {"BOOL": True}, "null": {"NULL": True}, "number": {"N": "1048576"}, "list": {"L": [{"S": "a"}]}}
    store(client, "ActiveFlag = :true, PrimaryKey = :null, TargetFileBytes = :number, Tags = :list", **values)
    (found,) = registered.all()
    assert found.active
    assert found.settings.primary_key == ()
    assert found.settings.target_file_bytes == 1048576
    assert found.item["Tags"] == '{"L": [{"S": "a"}]}'
    assert item(registered) == dict(found.item)


@pytest.mark.parametrize("value", [{"N": "5"}, {"BOOL": True}, {"L": [{"S": "a"}]}, {"M": {}}, {"NULL": True}])
def test_a_lease_end_or_a_request_that_is_no_text_holds_nobody_up(
    client: DynamoDBClient, registered: DynamoState, clock: ManualClock, value: Any
) -> None:
    names = "LeaseHolder = :ghost, LeaseExpiresUtc = :value, WorkRequestedUtc = :value"
    store(client, names, ghost={"S": "ghost"}, value=value)
    assert registered.request_work(PATH, clock(), 300).is_new
    assert registered.acquire_lease(PATH, "a", clock(), 60).taken_over_from == "ghost"


@pytest.mark.parametrize("value", [{"S": "5"}, {"BOOL": True}, {"L": [{"N": "5"}]}, {"NULL": True}])
def test_a_fencing_token_of_another_type_is_named_and_no_lease_is_taken(
    client: DynamoDBClient, registered: DynamoState, clock: ManualClock, value: Any
) -> None:
    store(client, "FencingToken = :value", value=value)
    with pytest.raises(ConfigurationError, match=r"FencingToken is .* not a whole number"):
        registered.acquire_lease(PATH, "a", clock(), 60)
    assert Attribute.LEASE_HOLDER not in item(registered)


def test_a_retry_acquires_the_lease_if_the_response_was_lost(
    client: DynamoDBClient, registered: DynamoState, clock: ManualClock
) -> None:
    updates = Faults(client, "UpdateItem")
    updates.lose_response()
    token = registered.acquire_lease(PATH, "a", clock(), 60).token
    assert updates.sent == 2
    assert item(registered)[Attribute.FENCING_TOKEN] == str(token)
    assert registered.renew_lease(PATH, "a", token, clock(), 60)


def test_a_retry_raises_the_token_if_the_response_was_lost(
    client: DynamoDBClient, registered: DynamoState, clock: ManualClock
) -> None:
    token = registered.acquire_lease(PATH, "a", clock(), 60).token
    Faults(client, "UpdateItem").lose_response()
    assert registered.raise_token(PATH, "a", token, 5_000)
    assert registered.renew_lease(PATH, "a", 5_000, clock(), 60)


def test_a_retry_releases_the_lease_if_the_response_was_lost(
    client: DynamoDBClient, registered: DynamoState, clock: ManualClock
) -> None:
    token = registered.acquire_lease(PATH, "a", clock(), 60).token
    Faults(client, "UpdateItem").lose_response()
    assert registered.release_lease(PATH, "a", token, even_if_requested=False)
    assert Attribute.LEASE_HOLDER not in item(registered)


def test_a_missing_state_table_is_an_error_that_says_what_to_do(client: DynamoDBClient, clock: ManualClock) -> None:
    state = DynamoState(client, "no_such_table")
    for use in (
        lambda: list(state.all()),
        lambda: state.get(PATH),
        lambda: state.register(TABLE),
        lambda: state.acquire_lease(PATH, "a", clock(), 60),
    ):
        with pytest.raises(ConfigurationError, match="Create the state table no_such_table") as raised:
            use()
        assert not isinstance(raised.value, UnknownTableError)


def test_a_failed_condition_is_recognized_when_threads_create_the_exceptions_of_the_client_twice(
    client: DynamoDBClient, registered: DynamoState, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_thread = property(lambda one: ClientExceptionsFactory().create_client_exceptions(one._service_model))
    monkeypatch.setattr(type(client), "exceptions", other_thread)
    with pytest.raises(UnknownTableError):
        registered.set_attributes("raw/dms/shop/nosuch/", {Attribute.ACTIVE_FLAG: "true"})
