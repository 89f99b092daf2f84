"""`cdclake verify` on a schedule: what it found is in a report and in metrics, whatever it was."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from cdclake.errors import ConfigurationError
from cdclake.model.metrics import Measure, Metric
from cdclake_cli.sources.report import ReportPlace, metrics_of, report_of
from cdclake_cli.sources.verify import TableVerification

if TYPE_CHECKING:
    from pathlib import Path

EQUAL = TableVerification("shop.a", 3, 5, 5, ())
DIFFERENT = TableVerification("shop.b", 3, 5, 7, ("2 rows missing",), differing_rows=2)
BEGUN = datetime(2026, 3, 5, 2, tzinfo=timezone.utc)


def test_a_report_has_all_tables_and_errors() -> None:
    error = ConfigurationError("Its column is odd", remedy="Exclude it")
    report = report_of([EQUAL, DIFFERENT], [("shop.c", error)], "mysql://db/shop", BEGUN, BEGUN + timedelta(minutes=4))
    assert (report["begun_utc"], report["ended_utc"]) == ("2026-03-05T02:00:00Z", "2026-03-05T02:04:00Z")
    assert (report["equal"], report["tables_compared"], report["tables_different"]) == (False, 2, 1)
    assert [(one["table"], one["equal"]) for one in report["tables"]] == [("shop.a", True), ("shop.b", False)]
    (failed,) = report["errors"]
    assert (failed["table"], failed["error"], failed["remedy"]) == ("shop.c", "ConfigurationError", "Exclude it")
    assert report_of([EQUAL], [], "", BEGUN, BEGUN)["equal"]
    assert not report_of([EQUAL], [("", error)], "", BEGUN, BEGUN)["equal"]


def test_metrics_count_tables_and_rows_that_differ() -> None:
    assert list(metrics_of([EQUAL, DIFFERENT])) == [
        Metric(Measure.DIFFERING_ROWS, 0, "shop.a"),
        Metric(Measure.DIFFERING_TABLES, 0, "shop.a"),
        Metric(Measure.DIFFERING_ROWS, 2, "shop.b"),
        Metric(Measure.DIFFERING_TABLES, 1, "shop.b"),
    ]


def test_a_place_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    for wrong in ("s3://bucket", "s3://bucket/", "s3:///key", f"{tmp_path}/none/report.json"):
        with pytest.raises(ConfigurationError):
            ReportPlace(wrong).check()
    ReportPlace("s3://bucket/a/report.json").check()
    ReportPlace(f"{tmp_path}/report.json").check()


def sums_of(table: str) -> dict[str, float]:
    """The sums of a table's metrics in CloudWatch."""
    client, now = boto3.client("cloudwatch"), datetime.now(timezone.utc)
    span = {"StartTime": now - timedelta(hours=1), "EndTime": now + timedelta(hours=1), "Period": 7200}
    found = {}
    dimensions = [{"Name": "Table", "Value": table}]
    for one in client.list_metrics(Namespace="cdclake", Dimensions=dimensions)["Metrics"]:
        named: dict[str, Any] = {"Namespace": "cdclake", "MetricName": one["MetricName"], "Dimensions": dimensions}
        points = client.get_metric_statistics(**named, **span, Statistics=["Sum"])
        found[one["MetricName"]] = points["Datapoints"][0]["Sum"]
    return found


def test_counts_that_differ_are_in_the_report_and_the_metrics(cdclake: Any, store: Any, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    scheduled = ("verify", "--expect", "shop.store=7", "--report", str(report), "--metrics")
    assert cdclake(*scheduled).exit_code == 6
    found = json.loads(report.read_text())
    (table,) = found["tables"]
    assert (found["equal"], found["tables_different"], table["table"]) == (False, 1, "shop.store")
    rows = abs(table["lake_rows"] - 7)
    assert table["differing_rows"] == rows > 0
    assert sums_of("shop.store") == {"DifferingRows": rows, "DifferingTables": 1}


def test_a_report_goes_to_s3_also_of_a_source_that_fails(cdclake: Any, state: Any, tmp_path: Path) -> None:
    place = ("--report", "s3://cdclake-lake/reports/nightly.json", "--metrics")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("create table tags (tag text)")
    known = f"sqlite:///{tmp_path}/shop.db"
    for source, status, message in (
        (f"{known}?timeout=5", 6, "differ from their source"),
        (f"sqlite:///{tmp_path}/none.db", 2, "refuses"),
    ):
        result = cdclake("verify", "--source", source, *place)
        assert (result.exit_code, message in result.stderr) == (status, True)
        stored = boto3.client("s3").get_object(Bucket="cdclake-lake", Key="reports/nightly.json")["Body"].read()
        report = json.loads(stored)
        assert (report["source"], len(report["errors"])) == (source.partition("?")[0], status == 2)
    result = cdclake("verify", "--source", known, "--report", "s3://no-such-bucket/report.json")
    assert result.exit_code != 0
    assert "NoSuchBucket" in result.stderr
    assert "main.tags" in result.stdout
    assert "The source has none of the registered tables that match" in cdclake.refused(
        "verify", "*", "--source", known
    )
