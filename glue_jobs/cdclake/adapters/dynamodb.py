"""A DynamoDB table as the state store.

Every write is one conditional UpdateItem or PutItem, so that no two callers can both believe they did it. Times are
text whose order is the order of the times, see `cdclake.model.times`; the fencing token is a number, so that DynamoDB
can count it; everything else is text. The core sees text only.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from botocore.exceptions import ClientError, WaiterError

from cdclake.adapters.aws import Remedies, error_code, translated_errors
from cdclake.adapters.state_rules import check_outcome, check_settings, expiry_text, unknown_table
from cdclake.errors import LeaseHeldError, RetryableError
from cdclake.model.names import Attribute, Sentinel
from cdclake.model.table import TableState
from cdclake.model.times import iso_utc
from cdclake.ports import Acquired

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

    from cdclake.model.table import Item

_NAME = re.compile(r"#(\w+)")
_NUMBERS = frozenset({Attribute.FENCING_TOKEN})
"""Attributes stored as numbers."""


class Condition(NamedTuple):
    """A condition expression, `#Name` standing for the attribute `Name`, and the values it compares with."""

    text: str
    values: Mapping[str, UniversalAttributeValueTypeDef]

    def __and__(self, other: Condition) -> Condition:
        return Condition(f"({self.text}) AND ({other.text})", {**self.values, **other.values})


def is_registered() -> Condition:
    """The table has an item."""
    return Condition("attribute_exists(#path)", {})


def lease_is_free_for(holder: str, now: datetime) -> Condition:
    """`holder` may take the lease at `now`.

    The holder's own lease is free for it: an answer that got lost may then be asked for again.
    """
    #   A acquires(60 s)        A renews(60 s)                 B acquires
    #   |                       |                              |
    #   +--- token 7, A's ------+--- token 7, still A's -------+--- token 8, B's ------>  time
    #   10:00:00                10:00:40                       10:01:40
    #   LeaseExpiresUtc         LeaseExpiresUtc                ^ no longer after now: anybody's.
    #     = 10:01:00              = 10:01:40                     If A wakes up now, its renewal fails on the token.
    #          B is refused: 10:01:00 is after now
    return Condition(
        "attribute_not_exists(#LeaseHolder) OR #LeaseHolder = :holder OR #LeaseExpiresUtc <= :now",
        {":holder": {"S": holder}, ":now": {"S": iso_utc(now)}},
    )


def lease_has(token: int) -> Condition:
    """The lease was taken with this token, and neither given back nor taken by another since."""
    return Condition("attribute_exists(#LeaseHolder) AND #FencingToken = :token", {":token": {"N": str(token)}})


def lease_is_held_by(holder: str) -> Condition:
    """The lease names this holder."""
    return Condition("#LeaseHolder = :holder", {":holder": {"S": holder}})


def nobody_waits() -> Condition:
    """No mark of a request is there."""
    return Condition("attribute_not_exists(#WorkRequestedUtc)", {})


def nobody_waits_since(stale_utc: str) -> Condition:
    """No mark of a request is there, but perhaps one as old as `stale_utc` or older."""
    return Condition(
        "attribute_not_exists(#WorkRequestedUtc) OR #WorkRequestedUtc <= :stale", {":stale": {"S": stale_utc}}
    )


class _Outcome(NamedTuple):
    """Of a conditional update: whether it was applied, and the item after it or, if it was not, as it stood."""

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
        """See `StateStore.all`."""
        request: ScanInputPaginateTypeDef = {"TableName": self._table, "ConsistentRead": True}
        if path_prefix:
            request["FilterExpression"] = "begins_with(#path, :prefix)"
            request["ExpressionAttributeNames"] = {"#path": Attribute.PATH}
            request["ExpressionAttributeValues"] = {":prefix": {"S": path_prefix}}
        with self._errors():
            for page in self._client.get_paginator("scan").paginate(**request):
                yield from (TableState(_to_item(found)) for found in page["Items"])

    def get(self, path: str) -> TableState | None:
        """See `StateStore.get`."""
        with self._errors(path):
            answer = self._client.get_item(
                TableName=self._table, Key={Attribute.PATH: {"S": path}}, ConsistentRead=True
            )
        return TableState(_to_item(answer["Item"])) if "Item" in answer else None

    def register(self, state: TableState) -> bool:
        """See `StateStore.register`."""
        with self._errors(state.path):
            try:
                self._client.put_item(
                    TableName=self._table,
                    Item={name: _to_value(name, text) for name, text in state.item.items()},
                    ConditionExpression="attribute_not_exists(#path)",
                    ExpressionAttributeNames={"#path": Attribute.PATH},
                )
            except ClientError as error:
                if error_code(error) == "ConditionalCheckFailedException":
                    return False
                raise
        return True

    def set_by_person(self, path: str, attributes: Mapping[str, str]) -> None:
        """See `StateStore.set_by_person`."""
        check_settings(attributes)
        self._set(path, attributes)

    def record_run(self, path: str, attributes: Mapping[str, str]) -> None:
        """See `StateStore.record_run`."""
        check_outcome(attributes)
        self._set(path, attributes)

    def request_work(self, path: str, now: datetime, stale_after_seconds: int) -> bool:
        """See `StateStore.request_work`."""
        stale_utc = iso_utc(now - timedelta(seconds=stale_after_seconds))
        mark: dict[str, UniversalAttributeValueTypeDef] = {":now": {"S": iso_utc(now)}}
        return self._update(path, "SET #WorkRequestedUtc = :now", mark, nobody_waits_since(stale_utc)).applied

    def acquire_lease(self, path: str, holder: str, now: datetime, seconds: int) -> Acquired:
        """See `StateStore.acquire_lease`."""
        outcome = self._update(
            path,
            "SET #LeaseHolder = :holder, #LeaseExpiresUtc = :end,"
            " #FencingToken = if_not_exists(#FencingToken, :none) + :one",
            {
                ":holder": {"S": holder},
                ":end": {"S": expiry_text(now, seconds)},
                ":none": {"N": "0"},
                ":one": {"N": "1"},
            },
            lease_is_free_for(holder, now),
            return_values="ALL_OLD",
        )
        if not outcome.applied:
            raise LeaseHeldError(
                "Another run is writing the table",
                path=path,
                holder=outcome.item.get(Attribute.LEASE_HOLDER),
                until=outcome.item.get(Attribute.LEASE_EXPIRES_UTC),
            )
        held_by = outcome.item.get(Attribute.LEASE_HOLDER, holder)
        token = int(outcome.item.get(Attribute.FENCING_TOKEN, "0")) + 1
        # botocore sends the request again if the answer got lost, and then finds its own lease
        return Acquired(token, "" if held_by == holder else held_by)

    def renew_lease(self, path: str, holder: str, token: int, now: datetime, seconds: int) -> bool:
        """See `StateStore.renew_lease`."""
        end: dict[str, UniversalAttributeValueTypeDef] = {":end": {"S": expiry_text(now, seconds)}}
        held = (lease_has(token), lease_is_held_by(holder))
        return self._update(path, "SET #LeaseExpiresUtc = :end", end, *held).applied

    def clear_request(self, path: str) -> None:
        """See `StateStore.clear_request`."""
        self._update(path, "REMOVE #WorkRequestedUtc", {})

    def release_lease(self, path: str, token: int, *, even_if_requested: bool) -> bool:
        """See `StateStore.release_lease`.

        Giving back and looking for a mark are one update: a mark is either seen here, or left by somebody who finds
        the lease free.
        """
        conditions = [lease_has(token)] if even_if_requested else [lease_has(token), nobody_waits()]
        outcome = self._update(path, "REMOVE #LeaseHolder, #LeaseExpiresUtc", {}, *conditions)
        still_held = Attribute.LEASE_HOLDER in outcome.item and outcome.item.get(Attribute.FENCING_TOKEN) == str(token)
        return outcome.applied or not still_held

    def _set(self, path: str, attributes: Mapping[str, str]) -> None:
        values = {f":{name}": _to_value(name, text) for name, text in attributes.items()}
        assignments = ", ".join(f"#{name} = :{name}" for name in attributes)
        self._update(path, f"SET {assignments}", values)

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
            UnknownTableError: There is no item.
        """
        condition = is_registered()
        for further in conditions:
            condition &= further
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
            except self._client.exceptions.ConditionalCheckFailedException as error:
                item = cast("Mapping[str, Any]", error.response).get("Item")
                if not item:
                    raise unknown_table(path) from error
                return _Outcome(False, _to_item(item))

    def _errors(self, path: str | None = None) -> AbstractContextManager[None]:
        return translated_errors(_remedies(self._table), state_table=self._table, path=path)


def create_state_table(client: DynamoDBClient, name: str) -> None:
    """Create the state table, billed by request, unless there is one; returns when it can be used.

    Raises:
        RetryableError: It did not become usable within five minutes.
    """
    with translated_errors(_remedies(name), state_table=name):
        with suppress(client.exceptions.ResourceInUseException):  # there is one, or somebody is creating it right now
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
    """An attribute as text, whatever type a person chose for it in the console."""
    if "S" in value:
        return value["S"]
    if "N" in value:
        return value["N"]
    if "BOOL" in value:
        return Sentinel.ACTIVE if value["BOOL"] else Sentinel.INACTIVE
    if "NULL" in value:
        return Sentinel.NONE
    return json.dumps(value, default=repr)
