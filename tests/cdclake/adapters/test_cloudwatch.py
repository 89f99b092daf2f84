"""Metrics in CloudWatch's format."""

from __future__ import annotations

import json
import time
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from cdclake import logs
from cdclake.adapters.cloudwatch import (
    MAX_PER_REQUEST,
    CloudWatchMetrics,
    GatheredMetrics,
    cloudwatch_metrics,
    metric_data,
    metrics_in_log,
)
from cdclake.model.metrics import Measure, Metric
from tests.builders import eventually


def rows(value: float, table: str, op: str) -> Metric:
    return Metric(Measure.ROWS, value, table, op)


def statistics_of(data: list[dict[str, Any]]) -> dict[tuple[str, ...], tuple[float, ...]]:
    """Samples, sum, minimum and maximum of each entry, by name and dimensions."""
    return {
        (entry["MetricName"], *(f"{one['Name']}={one['Value']}" for one in entry["Dimensions"])): tuple(
            entry["StatisticValues"].values()
        )
        for entry in data
    }


def test_a_metric_counts_for_all_tables_and_for_its_own():
    data = list(metric_data([rows(3, "shop.orders", "I"), rows(5, "shop.items", "I")], per_table=True))
    assert statistics_of(data) == {
        ("Rows", "Op=I"): (2, 8, 3, 5),
        ("Rows", "Table=shop.orders", "Op=I"): (1, 3, 3, 3),
        ("Rows", "Table=shop.items", "Op=I"): (1, 5, 5, 5),
    }


def test_without_metrics_per_table_entries_do_not_grow_with_tables():
    metrics = [rows(1, f"shop.t{number}", op) for number in range(1000) for op in "IUD"]
    assert statistics_of(list(metric_data(metrics, per_table=False))) == {
        ("Rows", f"Op={op}"): (1000, 1000, 1, 1) for op in "IUD"
    }


@pytest.mark.parametrize(
    ("table", "value"),
    [
        ("shop.orders", "shop.orders"),
        ("shop.order items (2024)", "shop.order items (2024)"),
        ("shop.größe", "shop.gr%C3%B6%C3%9Fe"),
        ("shop.100%", "shop.100%25"),
        ("shop.a\tb", "shop.a%09b"),
        (":shop.a:b", "%3Ashop.a:b"),
        (f"shop.{'客' * 128}", f"{('shop.' + '%E5%AE%A2' * 128)[:1007]}~ec19dc538ce17e4c"),
    ],
    ids=["plain", "printable", "letters", "percent", "control", "colon", "long"],
)
def test_the_dimension_of_a_table_is_one_that_cloudwatch_takes(table: str, value: str):
    _, entry = metric_data([Metric(Measure.TABLES, 1, table)], per_table=True)
    assert entry["Dimensions"] == [{"Name": "Table", "Value": value}]
    assert value.isascii()
    assert value.isprintable()
    assert len(value) <= 1024


def test_a_metric_without_a_table_is_sent_once():
    assert statistics_of(list(metric_data([Metric(Measure.TABLES, 7)], per_table=True))) == {("Tables",): (1, 7, 7, 7)}


class Requests:
    """Records the sizes of requests, and refuses some of them."""

    def __init__(self, *refused: int) -> None:
        self.sizes: list[int] = []
        self._refused = refused

    def put_metric_data(self, *, Namespace: str, MetricData: Any) -> None:
        assert Namespace == "staging-cdclake"
        self.sizes.append(len(MetricData))
        if len(self.sizes) in self._refused:
            raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "slow down"}}, "PutMetricData")


def sink(requests: Requests) -> CloudWatchMetrics:
    return CloudWatchMetrics(requests, "staging-cdclake", per_table=True)


def test_many_metrics_are_split_into_requests_of_the_maximum_size():
    requests = Requests()
    sink(requests).put([rows(1, f"shop.t{number}", "I") for number in range(2000)])
    assert requests.sizes == [MAX_PER_REQUEST, MAX_PER_REQUEST, 1]


def test_refused_metrics_are_logged_and_the_others_are_sent(caplog: pytest.LogCaptureFixture):
    requests = Requests(1)
    sink(requests).put([rows(1, f"shop.t{number}", "I") for number in range(2000)])
    assert len(requests.sizes) == 3
    (record,) = caplog.records
    assert "ThrottlingException" in json.loads(logs.JsonFormatter().format(record))["traceback"]


def test_metrics_are_gathered_for_one_request_until_they_are_flushed_or_have_waited():
    requests = Requests()
    metrics = GatheredMetrics(sink(requests), delay_seconds=0.05)
    for number in range(3):
        metrics.put([rows(number, "shop.orders", "I")])
    metrics.flush()
    assert len(requests.sizes) == 1
    metrics.flush()
    assert len(requests.sizes) == 1
    metrics.put([rows(1, "shop.orders", "I")])
    assert eventually(lambda: len(requests.sizes) == 2)


@pytest.mark.parametrize(("per_table", "names"), [("true", {(), ("Table",)}), ("false", {()})])
@pytest.mark.parametrize("name_prefix", ["", "staging-"])
def test_cloudwatch_receives_the_metrics(aws: None, per_table: str, names: set[tuple[str, ...]], name_prefix: str):
    metrics = cloudwatch_metrics(per_table, name_prefix)
    metrics.put([Metric(Measure.LAG_SECONDS, 90.5, "shop.orders")])
    metrics.flush()
    stored = boto3.client("cloudwatch").list_metrics(Namespace=f"{name_prefix}cdclake")["Metrics"]
    assert {metric["MetricName"] for metric in stored} == {"LagSeconds"}
    assert {tuple(dimension["Name"] for dimension in metric["Dimensions"]) for metric in stored} == names


def logged(capsys: pytest.CaptureFixture[str], per_table: str, metrics: list[Metric]) -> list[dict[str, Any]]:
    """The lines that a function logs for metrics."""
    sink = metrics_in_log(per_table, "staging-")
    sink.put(metrics)
    sink.flush()
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_function_logs_metrics_with_the_same_dimensions_in_one_line(capsys: pytest.CaptureFixture[str]):
    now_ms = time.time() * 1000
    lines = logged(
        capsys,
        "true",
        [rows(3, "shop.größe", "I"), Metric(Measure.FAILURES, 0, "shop.größe"), Metric(Measure.DURATION_SECONDS, 1.5)],
    )
    assert all(abs(line["_aws"].pop("Timestamp") - now_ms) < 60_000 for line in lines)

    def line(dimensions: dict[str, str], values: dict[str, tuple[float, str]]) -> dict[str, Any]:
        metrics = [{"Name": name, "Unit": unit} for name, (_, unit) in values.items()]
        described = {"Namespace": "staging-cdclake", "Dimensions": [[*dimensions]], "Metrics": metrics}
        return {
            "_aws": {"CloudWatchMetrics": [described]},
            **dimensions,
            **{name: [one] for name, (one, _) in values.items()},
        }

    table = {"Table": "shop.gr%C3%B6%C3%9Fe"}
    assert lines == [
        line({"Op": "I"}, {"Rows": (3, "Count")}),
        line({**table, "Op": "I"}, {"Rows": (3, "Count")}),
        line({}, {"Failures": (0, "Count"), "DurationSeconds": (1.5, "Seconds")}),
        line(table, {"Failures": (0, "Count")}),
    ]


def test_a_function_logs_at_most_a_hundred_values_of_a_metric_in_a_line(capsys: pytest.CaptureFixture[str]):
    metrics = [rows(number, f"shop.t{number}", "I") for number in range(250)]
    lines = logged(capsys, "false", [*metrics, Metric(Measure.ROWS, 7, "shop.t", "D")])
    assert [len(line["Rows"]) for line in lines] == [100, 100, 50, 1]
    assert [one for line in lines[:3] for one in line["Rows"]] == list(range(250))
