"""CloudWatch refuses a whole request for one wrong metric."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from tests.cdclake_devkit.strict_aws.answers import answer
from tests.cdclake_devkit.strict_aws.conftest import ONCE

REFUSED = (400, "InvalidParameterValue")
METRIC = {"MetricName": "RowsRead", "Value": 1.0}


def put(*metrics: dict[str, Any], namespace: str = "cdclake") -> tuple[int, str]:
    client = boto3.client("cloudwatch", region_name="eu-central-1", config=ONCE)
    return answer(client, "put_metric_data", Namespace=namespace, MetricData=list(metrics))


def with_dimensions(*dimensions: tuple[str, str]) -> dict[str, Any]:
    return {**METRIC, "Dimensions": [{"Name": name, "Value": value} for name, value in dimensions]}


WRONG = [
    with_dimensions(("Table", "shop.größe")),
    with_dimensions(("Größe", "1")),
    with_dimensions((":Table", "orders")),
    with_dimensions(("Table", "two\nlines")),
    with_dimensions(("Table", " ")),
    with_dimensions(("Table", "x" * 1025)),
    with_dimensions(*((f"Name{number}", "1") for number in range(31))),
    {"MetricName": "m" * 256, "Value": 1.0},
    {"MetricName": "m", "Value": float("nan")},
    {"MetricName": "m", "Value": 2.0**361},
    {"MetricName": "m", "Values": [float(number) for number in range(151)]},
    {"MetricName": "m", "StatisticValues": {"SampleCount": 1, "Sum": float("inf"), "Minimum": 1, "Maximum": 1}},
]


@pytest.mark.usefixtures("aws")
def test_a_wrong_metric_is_refused():
    assert [metric for metric in WRONG if put(METRIC, metric) != REFUSED] == []


@pytest.mark.usefixtures("aws")
def test_the_limits_themselves_are_accepted_but_no_further_metric():
    assert put(with_dimensions(*((f"Name{number}", "x" * 1024) for number in range(30)))) == (200, "")
    assert put({"MetricName": "m", "Value": -(2.0**360)}) == (200, "")
    assert put(*[METRIC] * 1000) == (200, "")
    assert put(*[METRIC] * 1001) == REFUSED


@pytest.mark.usefixtures("aws")
def test_the_namespaces_of_aws_are_reserved():
    assert put(METRIC, namespace="AWS/S3") == REFUSED


@pytest.mark.usefixtures("moto")
def test_moto_alone_accepts_such_dimensions_and_numbers():
    assert put(with_dimensions(("Größe", "größe"))) == (200, "")
    assert put(*[METRIC] * 1001) == (200, "")
