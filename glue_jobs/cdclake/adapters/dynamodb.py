"""A DynamoDB table as the state store.

Every write is one conditional UpdateItem or PutItem, so that two callers can never both succeed. Times are text that
sorts by time, see `cdclake.model.times`. The fencing token is a number, so that DynamoDB can increment it. Everything
else is text, and the core sees only text.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from botocore.exceptions import ClientError, WaiterError

from cdclake.adapters.aws import Remedies, error_code, translated_errors
from cdclake.adapters.state_rules import (
    acquired_lease,
    check_outcome,
    check_settings,
    expiry_text,
    has_lease,
    lease_held,
    unknown_table,
    without_edited,
)
from cdclake.errors import RetryableError
from cdclake.model.names import Sentinel
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import LONGEST_LEASE, TableState
from cdclake.model.times import MAX_CLOCK_DIFFERENCE, iso_utc
from cdclake.ports import WorkRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager
    from datetime import datetime

    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import (
        AttributeValueTypeDef,
        ScanInputPaginateTypeDef,
        UniversalAttributeValueTypeDef,
        UpdateItemInputTypeDef,
    )

    from cdclake.model.table.state import Item
    from cdclake.ports import AcquiredLease

CONDITION_FAILED = "ConditionalCheckFailedException"
"""The error code. botocore's class of that name does not do: threads that share a new client may each create one."""
MAX_PARTITION_KEY_BYTES = 2048
"""Of DynamoDB, in UTF-8. https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html"""
_NAME = re.compile(r"#(\w+)")
_NUMBERS = frozenset({Attribute.FENCING_TOKEN})
"""Attributes stored as numbers."""
_REQUEST = "#WorkRequestedUtc"


class Condition(NamedTuple):
    """A condition expression, in which `#Name` stands for the attribute `Name`, and the values it compares with."""

    text: str
    values: Mapping[str, UniversalAttributeValueTypeDef]

    def __and__(self, other: Condition) -> Condition:
        return Condition(f"({self.text}) AND ({other.text})", {**self.values, **other.values})


IS_REGISTERED = Condition("attribute_exists(#path)", {})
"""The table is registered."""
TOKEN_IS_NUMBER = Condition(
    "attribute_not_exists(#FencingToken) OR attribute_type(#FencingToken, :N)", {":N": {"S": "N"}}
)
"""The fencing token can be increased."""
NO_REQUEST = Condition("attribute_not_exists(#WorkRequestedUtc)", {})
"""No request to process the table is recorded."""


def lease_is_free_for(holder: str, now: datetime) -> Condition:
    """`holder` may acquire the lease at `now`.

    The holder may acquire its own lease again, because the first response may have been lost.
    """
    #   A acquires(60 s)        A renews(60 s)                 B acquires
    #   |                       |                              |
    #   +--- token 7, A's ------+--- token 7, still A's -------+--- token 8, B's ------>  time
    #   10:00:00                10:00:40                       10:01:40
    #   LeaseExpiresUtc         LeaseExpiresUtc                ^ A's lease has expired.
    #     = 10:01:00              = 10:01:40                     If A continues now, its renewal fails on the token.
    #          B is refused: 10:01:00 is after now
    # A lease without an end that a lease can have is none, see `TableState.leased`.
    end = "attribute_type(#LeaseExpiresUtc, :text) AND #LeaseExpiresUtc > :now AND #LeaseExpiresUtc <= :last"
    return Condition(
        f"attribute_not_exists(#LeaseHolder) OR #LeaseHolder = :holder OR NOT ({end})",
        {
            ":holder": {"S": holder},
            ":now": {"S": iso_utc(now)},
            ":last": {"S": iso_utc(now + LONGEST_LEASE)},
            ":text": {"S": "S"},
        },
    )


def lease_is(holder: str, token: int) -> Condition:
    """The holder acquired the lease with this token, and it was neither released nor acquired by another one since."""
    values: dict[str, UniversalAttributeValueTypeDef] = {":holder": {"S": holder}, ":token": {"N": str(token)}}
    return Condition("#LeaseHolder = :holder AND #FencingToken = :token", values)


def is_unedited(name: str, text: str) -> Condition:
    """An attribute has the value that a run read, or is absent; empty: it is absent, or empty."""
    return Condition(f"attribute_not_exists(#{name}) OR #{name} = :known{name}", {f":known{name}": {"S": text}})


def no_request_pending(now: datetime, stale_after_seconds: int) -> Condition:
    """No request of the last seconds is pending. One of the future, or no text, is none.

    Nor is one that was left to the holder of a lease which has expired since: no run was started for it.
    """
    pending = "attribute_type(#WorkRequestedUtc, :text) AND #WorkRequestedUtc > :stale AND #WorkRequestedUtc <= :latest"
    left = "attribute_exists(#LeaseHolder) AND #LeaseExpiresUtc <= :now AND #WorkRequestedUtc < #LeaseExpiresUtc"
    values: dict[str, UniversalAttributeValueTypeDef] = {
        ":text": {"S": "S"},
        ":now": {"S": iso_utc(now)},
        ":stale": {"S": iso_utc(now - timedelta(seconds=stale_after_seconds))},
        ":latest": {"S": iso_utc(now + MAX_CLOCK_DIFFERENCE)},
    }
    return Condition(f"NOT ({pending}) OR ({left})", values)


class _Outcome(NamedTuple):
    """The outcome of a conditional update. If it was not applied, `item` is the unchanged item."""

    applied: bool
    item: Item


class DynamoState:
    """A `StateStore` on a DynamoDB table with the string key `path`.

    Args:
        client: DynamoDB client, see `cdclake.adapters.aws.client`.
        table: Name of the table, see `create_state_table`.
    """

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    def all(self, path_prefix: str = "") -> Iterator[TableState]:
        """The state of all tables whose path begins with `path_prefix`, through all pages, in any order."""
        request: ScanInputPaginateTypeDef = {"TableName": self._table, "ConsistentRead": True}
        if path_prefix:
            request["FilterExpression"] = "begins_with(#path, :prefix)"
            request["ExpressionAttributeNames"] = {"#path": Attribute.PATH}
            request["ExpressionAttributeValues"] = {":prefix": {"S": path_prefix}}
        with self._errors():
            for page in self._client.get_paginator("scan").paginate(**request):
                yield from (TableState(_to_item(attributes)) for attributes in page["Items"])

    def get(self, path: str) -> TableState | None:
        """The state of one table; None if it is not registered. A failed read is an error, never None."""
        if len(path.encode()) > MAX_PARTITION_KEY_BYTES:
            return None
        with self._errors(path):
            response = self._client.get_item(
                TableName=self._table, Key={Attribute.PATH: {"S": path}}, ConsistentRead=True
            )
        return TableState(_to_item(response["Item"])) if "Item" in response else None

    def register(self, state: TableState) -> bool:
        """Add a table if it is not registered yet, and return whether this call added it."""
        with self._errors(state.path):
            try:
                self._client.put_item(
                    TableName=self._table,
                    Item={name: _to_value(name, text) for name, text in state.item.items()},
                    ConditionExpression="attribute_not_exists(#path)",
                    ExpressionAttributeNames={"#path": Attribute.PATH},
                )
            except ClientError as error:
                if error_code(error) == CONDITION_FAILED:
                    return False
                raise
        return True

    def set_attributes(self, path: str, attributes: Mapping[str, str]) -> None:
        """Change the settings of a registered table, on behalf of an operator."""
        check_settings(attributes)
        self._set(path, attributes)

    def record_run(
        self,
        path: str,
        attributes: Mapping[str, str],
        lease: tuple[str, int] | None = None,
        *,
        clears_request: bool = False,
        unless_edited: Mapping[str, str] = MappingProxyType({}),
    ) -> TableState | None:
        """Write the outcome of a run (watermark, last change, error, ...) to a registered table's item.

        Returns:
            The state after it; None if the run no longer has the lease that it names, and nothing was written.
        """
        check_outcome(attributes)
        conditions = (lease_is(*lease),) if lease else ()
        unedited = (is_unedited(name, text) for name, text in unless_edited.items() if name in attributes)
        outcome = self._set(path, attributes, *conditions, *unedited, remove=_REQUEST if clears_request else "")
        if outcome.applied:
            return TableState(outcome.item)
        if lease and not has_lease(outcome.item, *lease):
            return None
        rest = without_edited(attributes, outcome.item, unless_edited)
        if not rest or rest == attributes:  # the first response may have been lost
            return TableState(outcome.item)
        return self.record_run(path, rest, lease, clears_request=clears_request, unless_edited=unless_edited)

    def request_work(self, path: str, now: datetime, stale_after_seconds: int) -> WorkRequest:
        """Record a request to process a table."""
        condition = no_request_pending(now, stale_after_seconds)
        outcome = self._update(path, "SET #WorkRequestedUtc = :now", {}, condition)
        return WorkRequest(outcome.applied, TableState(outcome.item))

    def acquire_lease(
        self, path: str, holder: str, now: datetime, seconds: int, *, clears_request: bool = False
    ) -> AcquiredLease:
        """Acquire the right to write a table for `seconds`."""
        outcome = self._update(
            path,
            "SET #LeaseHolder = :holder, #LeaseExpiresUtc = :end,"
            " #FencingToken = if_not_exists(#FencingToken, :none) + :one"
            + (f" REMOVE {_REQUEST}" if clears_request else ""),
            {
                ":holder": {"S": holder},
                ":end": {"S": expiry_text(now, seconds)},
                ":none": {"N": "0"},
                ":one": {"N": "1"},
            },
            lease_is_free_for(holder, now),
            TOKEN_IS_NUMBER,
            return_values="ALL_OLD",
        )
        before = TableState(outcome.item)
        if outcome.applied:
            return acquired_lease(before, holder, now, seconds, clears_request=clears_request)
        if outcome.item.get(Attribute.LEASE_HOLDER) != holder and before.leased(now):
            raise lease_held(before)
        raise before.invalid_token()

    def renew_lease(
        self, path: str, holder: str, token: int, now: datetime, seconds: int, *, to: str | None = None
    ) -> bool:
        """Extend the lease, and give it to another holder if there is one; False if this holder no longer has it."""
        values: dict[str, UniversalAttributeValueTypeDef] = {":end": {"S": expiry_text(now, seconds)}}
        update, is_held = "SET #LeaseExpiresUtc = :end", lease_is(holder, token)
        if to is None:
            return self._update(path, update, values, is_held).applied
        outcome = self._update(path, f"{update}, #LeaseHolder = :to", {**values, ":to": {"S": to}}, is_held)
        return outcome.applied or has_lease(outcome.item, to, token)  # the first response may have been lost

    def raise_token(self, path: str, holder: str, token: int, raised: int) -> bool:
        """Give the lease a greater fencing token; False if this holder no longer has it."""
        greater: dict[str, UniversalAttributeValueTypeDef] = {":raised": {"N": str(raised)}}
        outcome = self._update(path, "SET #FencingToken = :raised", greater, lease_is(holder, token))
        return outcome.applied or has_lease(outcome.item, holder, raised)  # the first response may have been lost

    def clear_request(self, path: str) -> TableState:
        """Remove the pending request before listing the raw files. A file that arrives later records a new one."""
        return TableState(self._update(path, f"REMOVE {_REQUEST}", {}).item)

    def release_lease(
        self,
        path: str,
        holder: str,
        token: int,
        *,
        even_if_requested: bool,
        attributes: Mapping[str, str] = MappingProxyType({}),
    ) -> bool:
        """Release the lease. False if the holder keeps it: a request is pending, and `even_if_requested` is false.

        One update releases the lease and checks for a pending request: either this update sees the request, or the
        requester finds the lease free.
        """
        conditions = [lease_is(holder, token), *([] if even_if_requested else [NO_REQUEST])]
        if attributes:
            check_outcome(attributes)
        outcome = self._set(path, attributes, *conditions, remove="#LeaseHolder, #LeaseExpiresUtc")
        return outcome.applied or not has_lease(outcome.item, holder, token)

    def _set(self, path: str, attributes: Mapping[str, str], *conditions: Condition, remove: str = "") -> _Outcome:
        values = {f":{name}": _to_value(name, text) for name, text in attributes.items()}
        assignments = ", ".join(f"#{name} = :{name}" for name in attributes)
        clauses = [f"SET {assignments}" if attributes else "", f"REMOVE {remove}" if remove else ""]
        return self._update(path, " ".join(filter(None, clauses)), values, *conditions)

    def _update(
        self,
        path: str,
        update: str,
        values: Mapping[str, UniversalAttributeValueTypeDef],
        *conditions: Condition,
        return_values: Literal["ALL_NEW", "ALL_OLD"] = "ALL_NEW",
    ) -> _Outcome:
        """Update a registered table's item if it meets all conditions.

        Raises:
            UnknownTableError: The table is not registered.
        """
        condition = IS_REGISTERED
        for another in conditions:
            condition &= another
        request: UpdateItemInputTypeDef = {
            "TableName": self._table,
            "Key": {Attribute.PATH: {"S": path}},
            "UpdateExpression": update,
            "ConditionExpression": condition.text,
            "ExpressionAttributeNames": {f"#{name}": name for name in _NAME.findall(f"{update} {condition.text}")},
            "ReturnValues": return_values,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        if values or condition.values:
            request["ExpressionAttributeValues"] = {**values, **condition.values}
        with self._errors(path):
            try:
                return _Outcome(True, _to_item(self._client.update_item(**request)["Attributes"]))
            except ClientError as error:
                if error_code(error) != CONDITION_FAILED:
                    raise
                item = cast("Mapping[str, Any]", error.response).get("Item")
                if not item:
                    raise unknown_table(path) from error
                return _Outcome(False, _to_item(item))

    def _errors(self, path: str | None = None) -> AbstractContextManager[None]:
        return translated_errors(_remedies(self._table), state_table=self._table, path=path)


def create_state_table(client: DynamoDBClient, name: str) -> None:
    """Create the state table with on-demand billing if it does not exist, and wait until it is usable.

    Raises:
        RetryableError: It did not become usable within five minutes.
    """
    with translated_errors(_remedies(name), state_table=name):
        with suppress(client.exceptions.ResourceInUseException):  # it exists, or is being created
            client.create_table(
                TableName=name,
                KeySchema=[{"AttributeName": Attribute.PATH, "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": Attribute.PATH, "AttributeType": "S"}],
                BillingMode="PAY_PER_REQUEST",
            )
        try:
            client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 5, "MaxAttempts": 60})
        except WaiterError as error:
            raise RetryableError("The state table is not ready yet", remedy="Run again", state_table=name) from error


def _remedies(table: str) -> Remedies:
    return Remedies(
        missing=f"Create the state table {table} in this region and account, or correct its name",
        denied=f"Grant the caller dynamodb:GetItem, PutItem, UpdateItem and Scan on the table {table}",
    )


def _to_value(name: str, text: str) -> UniversalAttributeValueTypeDef:
    return {"N": text} if name in _NUMBERS else {"S": text}


def _to_item(attributes: Mapping[str, AttributeValueTypeDef]) -> Item:
    return {name: _to_text(value) for name, value in attributes.items()}


def _to_text(value: AttributeValueTypeDef) -> str:
    """An attribute as text, whatever type an operator chose for it in the AWS console."""
    if "S" in value:
        return value["S"]
    if "N" in value:
        return value["N"]
    if "BOOL" in value:
        return Sentinel.ACTIVE if value["BOOL"] else Sentinel.INACTIVE
    if "NULL" in value:
        return Sentinel.NONE
    return json.dumps(value, default=repr)
