"""The measurement of a planning pass detects tables that need too many requests."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import boto3
import pytest
from benchmarks.controller import MAX_LIST_REQUESTS, check_target, list_large_tables
from benchmarks.simulated_aws import BUCKET, NEWEST, PREFIX, Lake, SimulatedAws

from cdclake.adapters.aws import client
from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.s3 import S3Store
from cdclake.control.controller import PlanInputs

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest

pytestmark = pytest.mark.slow

LAKE = Lake([6, 4060, 2500], 1)


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "made-up")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)


class Forgetful(SimulatedAws):
    """Forgets everything that is written."""

    def _update(self, request: AWSPreparedRequest) -> bytes:
        return b'{"Attributes": {}}'


def max_requests_by_pass(aws: SimulatedAws) -> dict[str, int]:
    s3, dynamodb = client("s3"), client("dynamodb")
    for connected in (s3, dynamodb):
        aws.connect(connected)
    inputs = PlanInputs(S3Store(s3, BUCKET), DynamoState(dynamodb, "DMSCDC_Controller"), BUCKET, PREFIX)
    return list_large_tables(LAKE, aws, inputs, NEWEST + timedelta(hours=1))


def test_large_idle_tables_are_listed_page_by_page_with_two_requests_per_pass():
    assert max_requests_by_pass(SimulatedAws(LAKE, request_seconds=0, throttled_every=10_000)) == dict.fromkeys(
        "123456", 2
    )


def test_a_controller_that_forgets_its_last_page_is_detected():
    with pytest.raises(SystemExit, match="objects of large idle tables were not listed in 6 passes"):
        max_requests_by_pass(Forgetful(LAKE, request_seconds=0, throttled_every=10_000))


def test_the_target_is_two_requests(capsys: pytest.CaptureFixture[str]):
    met, missed = ({"most_list_requests_per_idle_table": MAX_LIST_REQUESTS + more} for more in (0, 1))
    check_target({"some tables": met})
    assert capsys.readouterr().out == "No idle table needed more than 2 list requests in any pass.\n"
    with pytest.raises(SystemExit, match="more than 2 list requests in a pass: many tables: 3"):
        check_target({"some tables": met, "many tables": missed})
