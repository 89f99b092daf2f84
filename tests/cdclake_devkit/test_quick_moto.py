"""With and without the speed, moto answers the same."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from cdclake_devkit.quick_moto import _names, quick_moto

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

pytestmark = pytest.mark.aws
BUCKET = "lake-bucket"


def answers(speed: AbstractContextManager[None]) -> list[Any]:
    """What S3, Glue and DynamoDB answer to the requests that tests make most often."""
    found: list[Any] = []

    def note(parsed: dict[str, Any], **_: object) -> None:
        del parsed["ResponseMetadata"]
        found.append(parsed)

    session = boto3.session.Session("key", "secret", region_name="us-east-1")
    session.events.register("after-call", note)
    s3: Any = session.client("s3")
    glue: Any = session.client("glue")
    with mock_aws(), speed:
        s3.create_bucket(Bucket=BUCKET)
        s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        for name in ("orders/a b.parquet", "orders/city=Köln/1.parquet", "other"):
            s3.put_object(Bucket=BUCKET, Key=name, Body=name.encode(), ChecksumAlgorithm="SHA256")
        s3.delete_object(Bucket=BUCKET, Key="other")
        s3.list_objects_v2(Bucket=BUCKET, FetchOwner=True)
        s3.list_objects_v2(Bucket=BUCKET, Delimiter="/", Prefix="orders/", MaxKeys=1)
        list_versions(s3)
        s3.head_object(Bucket=BUCKET, Key="orders/a b.parquet")
        glue.create_database(DatabaseInput={"Name": "lake", "Parameters": {"a": "b"}})
        columns = [{"Name": "id", "Type": "int"}]
        glue.create_table(
            DatabaseName="lake",
            TableInput={"Name": "orders", "PartitionKeys": columns, "StorageDescriptor": {"Columns": columns}},
        )
        glue.get_tables(DatabaseName="lake")
        update_items(session.client("dynamodb"))
    return found


def list_versions(s3: Any) -> None:
    """List versions and delete markers: all, some, and page by page. What is listed can still be read."""
    s3.put_object(Bucket=BUCKET, Key="orders/a b.parquet", Body=b"newer")
    s3.list_object_versions(Bucket=BUCKET)
    s3.list_object_versions(Bucket=BUCKET, Delimiter="/")
    s3.list_object_versions(Bucket=BUCKET, Prefix="orders/city", KeyMarker="orders/a b.parquet")
    s3.list_object_versions(Bucket=BUCKET, Prefix="other", KeyMarker="nothing")
    for prefix in ("", "orders/", "none"):
        for page in s3.get_paginator("list_object_versions").paginate(
            Bucket=BUCKET, Prefix=prefix, PaginationConfig={"PageSize": 1}
        ):
            for one in page.get("Versions", ()):
                content = s3.get_object(Bucket=BUCKET, Key=one["Key"], VersionId=one["VersionId"])["Body"].read()
                assert len(content) == one["Size"]


UPDATES = (
    "SET #a = :a, #b.#c = :b, l[0] = :a, n = if_not_exists(n, :n) + :n REMOVE r ADD s :s",
    "SET #a = :a, #b.#c = :b, l[1] = list_append(:l, l), n = n - :n REMOVE l[2], l[0] DELETE s :s",
    "REMOVE #a, #b.#c",
    "SET #a = :a, #a = :b",
    "SET #a = :a SET #b = :b",
    "SET missing.x = :a",
    "SET path = :a",
    "SET n = :n + :b",
    "SET #a = ",
)


def update_items(dynamodb: Any) -> None:
    """Change items in all ways that DynamoDB knows, and in some that it refuses."""
    dynamodb.create_table(
        TableName="state",
        KeySchema=[{"AttributeName": "path", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "path", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    texts = [{"S": text} for text in "xyz"]
    item = {"path": {"S": "p"}, "b": {"M": {}}, "l": {"L": texts}, "r": {"S": "r"}}
    dynamodb.put_item(TableName="state", Item=item)
    names = {"#a": "a", "#b": "b", "#c": "c"}
    values = {":a": {"S": "1"}, ":b": {"S": "2"}, ":n": {"N": "3"}, ":s": {"SS": ["x"]}, ":l": {"L": texts[:1]}}
    for expression in 2 * UPDATES:
        request = {
            "UpdateExpression": expression,
            "ExpressionAttributeNames": {name: one for name, one in names.items() if name in expression},
            "ExpressionAttributeValues": {name: one for name, one in values.items() if name in expression},
            "ReturnValues": "ALL_NEW",
        }
        with suppress(ClientError):
            dynamodb.update_item(TableName="state", Key={"path": {"S": "p"}}, **{k: v for k, v in request.items() if v})


def test_the_answers_are_the_same() -> None:
    slow, quick = answers(nullcontext()), answers(quick_moto())
    assert len(slow) > 10 + 2 * len(UPDATES)
    assert sum("Error" in one for one in slow) == 12
    for one, other in zip(slow, quick, strict=True):
        assert without_chance(one) == without_chance(other)


def test_the_names_of_values_are_found_once() -> None:
    answers(quick_moto())
    found = _names.cache_info().misses
    answers(quick_moto())
    assert _names.cache_info().misses == found > 0


CHANCE = {
    "VersionId",
    "VersionIdMarker",
    "NextVersionIdMarker",
    "Body",
    "LastModified",
    "CreateTime",
    "UpdateTime",
    "CreatedTime",
    "CreationDateTime",
    "TableId",
}


def without_chance(value: Any) -> Any:
    """An answer with only the types of its times and random values."""
    if isinstance(value, dict):
        return {name: type(one) if name in CHANCE else without_chance(one) for name, one in value.items()}
    return [without_chance(one) for one in value] if isinstance(value, list) else value
