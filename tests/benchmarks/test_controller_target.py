"""The measurement of a planning pass notices a table that costs too much."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import boto3
import pytest
from benchmarks.controller import MOST_LIST_REQUESTS, check_target, go_round
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
    """Keeps nothing that is written."""

    def _update(self, request: AWSPreparedRequest) -> bytes:
        return b'{"Attributes": {}}'


def most_by_pass(aws: SimulatedAws) -> dict[str, int]:
    s3, dynamodb = client("s3"), client("dynamodb")
    for one in (s3, dynamodb):
        aws.answer_for(one)
    inputs = PlanInputs(S3Store(s3, BUCKET), DynamoState(dynamodb, "DMSCDC_Controller"), BUCKET, PREFIX)
    return go_round(LAKE, aws, inputs, NEWEST + timedelta(hours=1))


def test_a_page_goes_round_large_idle_tables_in_two_requests_a_pass():
    assert most_by_pass(SimulatedAws(LAKE, request_seconds=0, throttled_every=10_000)) == dict.fromkeys("123456", 2)


def test_a_controller_that_cannot_remember_where_its_page_ended_is_noticed():
    with pytest.raises(SystemExit, match="objects of large idle tables were not seen in 6 passes"):
        most_by_pass(Forgetful(LAKE, request_seconds=0, throttled_every=10_000))


def test_the_target_is_two_requests(capsys: pytest.CaptureFixture[str]):
    met, missed = ({"most_list_requests_per_idle_table": MOST_LIST_REQUESTS + more} for more in (0, 1))
    check_target({"some tables": met})
    assert capsys.readouterr().out == "No idle table took more than 2 list requests in any pass.\n"
    with pytest.raises(SystemExit, match="more than 2 list requests in a pass: many tables: 3"):
        check_target({"some tables": met, "many tables": missed})
