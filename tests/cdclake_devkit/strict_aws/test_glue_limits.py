"""Glue refuses what exceeds the limits of its API."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto.moto_api import state_manager

from tests.cdclake_devkit.strict_aws.answers import answer
from tests.cdclake_devkit.strict_aws.conftest import ONCE

if TYPE_CHECKING:
    from mypy_boto3_glue import GlueClient

WHERE: dict[str, Any] = {"DatabaseName": "lake", "TableName": "t"}
REFUSED = (400, "ValidationException")


def with_table() -> GlueClient:
    client = boto3.client("glue", config=ONCE)
    client.create_database(DatabaseInput={"Name": "lake"})
    client.create_table(DatabaseName="lake", TableInput={"Name": "t", "PartitionKeys": [{"Name": "p", "Type": "int"}]})
    command: Any = {"Name": "glueetl", "ScriptLocation": "s3://code/job.py"}
    client.create_job(
        Name="job", Role="role", Command=command, ExecutionProperty={"MaxConcurrentRuns": 1}, GlueVersion="5.1"
    )
    return client


@pytest.fixture
def glue(aws: None) -> GlueClient:
    return with_table()


def values(count: int) -> list[Any]:
    return [{"Values": [str(number)]} for number in range(count)]


def entries(count: int) -> list[dict[str, Any]]:
    return [{"PartitionValueList": one["Values"], "PartitionInput": one} for one in values(count)]


LARGEST = [
    ("batch_create_partition", "PartitionInputList", values, 100),
    ("batch_update_partition", "Entries", entries, 100),
    ("batch_delete_partition", "PartitionsToDelete", values, 25),
    ("batch_get_partition", "PartitionsToGet", values, 1000),
]


@pytest.mark.parametrize(("operation", "parameter", "make", "largest"), LARGEST)
def test_a_batch_has_at_most_so_many_partitions(
    glue: GlueClient, operation: str, parameter: str, make: Any, largest: int
):
    assert answer(glue, operation, **WHERE, **{parameter: make(largest)}) == (200, "")
    assert answer(glue, operation, **WHERE, **{parameter: make(largest + 1)}) == REFUSED


def test_the_message_is_that_of_aws(glue: GlueClient):
    with pytest.raises(
        ClientError, match=r"1 validation error detected: .* at 'partitionsToDelete' failed to satisfy "
    ):
        glue.batch_delete_partition(**WHERE, PartitionsToDelete=values(26))


@pytest.mark.parametrize(
    ("operation", "parameters"),
    [
        ("start_job_run", {"JobName": "j" * 256}),
        ("start_job_run", {"JobName": "job", "ExecutionClass": "SOON"}),
        ("get_table", {"DatabaseName": "lake", "Name": "ü" * 128}),
        ("get_table", {"DatabaseName": "lake", "Name": "two\nlines"}),
        ("get_partitions", {**WHERE, "MaxResults": 1001}),
        ("create_partition", {**WHERE, "PartitionInput": {"Values": ["x" * 1025]}}),
    ],
)
def test_parameters_have_limits(glue: GlueClient, operation: str, parameters: dict[str, Any]):
    assert answer(glue, operation, **parameters) == REFUSED


def test_characters_beyond_16_bits_are_accepted(glue: GlueClient):
    assert answer(glue, "get_table", DatabaseName="lake", Name="🐟") == (400, "EntityNotFoundException")


def test_a_run_too_many_is_refused(glue: GlueClient, request: pytest.FixtureRequest):
    state_manager.set_transition("glue::job_run", {"progression": "manual", "times": 1})  # otherwise it ends at once
    request.addfinalizer(partial(state_manager.unset_transition, "glue::job_run"))
    assert answer(glue, "start_job_run", JobName="job") == (200, "")
    assert answer(glue, "start_job_run", JobName="job") == (400, "ConcurrentRunsExceededException")


def test_partitions_come_in_pages(glue: GlueClient):
    glue.batch_create_partition(**WHERE, PartitionInputList=values(5))
    pages = glue.get_paginator("get_partitions").paginate(**WHERE, PaginationConfig={"PageSize": 2})
    assert [[one["Values"] for one in page["Partitions"]] for page in pages] == [
        [["0"], ["1"]],
        [["2"], ["3"]],
        [["4"]],
    ]
    assert len(glue.get_partitions(**WHERE)["Partitions"]) == 5


def test_moto_alone_returns_all_partitions_at_once(moto: None):
    glue = with_table()
    glue.batch_create_partition(**WHERE, PartitionInputList=values(5))
    assert len(glue.get_partitions(**WHERE, MaxResults=2)["Partitions"]) == 5


def test_moto_alone_accepts_any_number(moto: None):
    glue = with_table()
    assert answer(glue, "batch_create_partition", **WHERE, PartitionInputList=values(101)) == (200, "")
    assert answer(glue, "batch_delete_partition", **WHERE, PartitionsToDelete=values(26)) == (200, "")
    assert answer(glue, "get_partitions", **WHERE, MaxResults=1001) == (200, "")
