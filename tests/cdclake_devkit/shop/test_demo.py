"""`cdclake demo` end to end: real jobs, real events, and a comparison after every step."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from cdclake.commit.report import ChangeSummary
from cdclake_devkit.shop.checksum import ChecksumComparison
from cdclake_devkit.shop.demo import EVENT, HOURLY, DemoReport, TableStep
from cdclake_devkit.shop.iceberg_reader import Count, CountReport, compare_counts

ORDERS = 5_000
TABLES = ["shop.product", "shop.productorder", "shop.store"]


@pytest.fixture(scope="module")
def demo():
    command = [sys.executable, "-c", "from cdclake_cli.main import main; main()", "demo", "--output", "json"]
    return subprocess.run([*command, "--orders", str(ORDERS)], capture_output=True, text=True, check=False)


@pytest.mark.spark
@pytest.mark.aws
@pytest.mark.long
def test_demo_succeeds_with_one_json_object(demo):
    assert demo.returncode == 0, demo.stderr
    (line,) = demo.stdout.splitlines()
    assert json.loads(line)["equal"] is True


@pytest.mark.spark
@pytest.mark.aws
@pytest.mark.long
def test_demo_applies_and_compares_each_round(demo):
    report = json.loads(demo.stdout)
    assert sorted(report["registered_inactive"]) == TABLES
    assert sorted(report["tables"]) == TABLES
    for table in report["tables"].values():
        assert table["equal"]
        assert table["checksum"] == table["source_checksum"]
        assert table["rows"] == table["source_rows"]
        steps = [(step["step"], step["started_by"], step["equal"]) for step in table["steps"]]
        assert steps == [("full load", HOURLY, True), ("round one", HOURLY, True), ("round two", EVENT, True)]


@pytest.mark.spark
@pytest.mark.aws
@pytest.mark.long
def test_a_reader_of_the_demo_sees_each_change_and_never_counts_wrong(demo):
    reader = json.loads(demo.stdout)["reader"]
    assert (reader["table"], reader["changes"], reader["error"]) == ("cdclake.shop_product", 3, "")
    assert reader["counts"] >= 10
    assert (reader["wrong"], reader["failed"]) == (0, 0)


@pytest.mark.spark
@pytest.mark.aws
@pytest.mark.long
def test_demo_reports_the_figures_of_each_round(demo):
    full, one, two = json.loads(demo.stdout)["tables"]["shop.productorder"]["steps"]
    assert (full["rows"], full["inserted"]) == (ORDERS, ORDERS)
    assert (one["inserted"], one["updated"], one["deleted"], one["files_rewritten"]) == (1_345, 0, 0, 0)
    # Updates: 240 corrections, 40 moves, 20 deletes with a new insert. Deletes: 80, and 20 after an update.
    assert (two["inserted"], two["updated"], two["deleted"]) == (20, 300, 100)
    assert two["files_rewritten"] == two["files_before"] == 91
    assert two["rows"] == ORDERS + 1_345 + 20 - 100


@pytest.mark.spark
@pytest.mark.aws
@pytest.mark.long
def test_demo_queries_the_newest_days_of_the_lake(demo):
    rows = json.loads(demo.stdout)["query"]["rows"]
    days = [row["orderdate"] for row in rows]
    assert len(days) == 5
    assert days == sorted(days, reverse=True)
    assert rows[0]["orders"] == 1_341  # round one brought 1,345, and round two took four away
    assert all(float(row["revenue"]) > 0 for row in rows)


@pytest.mark.spark
@pytest.mark.aws
@pytest.mark.long
def test_demo_measures_how_long_a_file_takes_to_be_visible(demo):
    for table in json.loads(demo.stdout)["tables"].values():
        full, one, two = table["steps"]
        assert "event_times" not in {**full, **one}
        times = two["event_times"]
        assert 0 < times["process_table"] < times["spark"] < times["visible"]


def change(number, **figures):
    start = ChangeSummary(number, "incremental", 1, 10, 100, 1, 2, 3, 0, 0, 4, 9, 5, 900, 800, 0.5, {})
    return replace(start, **figures)


def comparison(*differences):
    return ChecksumComparison(100, 100, "aa", "aa" if not differences else "bb", differences)


def test_figures_of_a_step_sum_up_all_its_changes():
    step = TableStep("shop.store", "round two", EVENT, (change(2), change(3, files_before=10)), comparison())
    figures = step.to_json()
    assert (figures["changes"], figures["inserted"], figures["updated"], figures["deleted"]) == (2, 2, 4, 6)
    assert (figures["files_rewritten"], figures["files_before"], figures["seconds"]) == (8, 9, 1.0)


def test_a_difference_in_any_step_makes_the_report_unequal():
    steps = (
        TableStep("shop.store", "round one", HOURLY, (change(2),), comparison("checksums differ")),
        TableStep("shop.store", "round two", EVENT, (change(3),), comparison()),
    )
    report = DemoReport(("shop.store",), steps, CountReport("cdclake.shop_product", 1, 1, 0, 0, ""), 1.0)
    assert not report.equal
    assert report.to_json()["equal"] is False
    assert report.to_json()["tables"]["shop.store"]["equal"] is False


def test_counts_of_what_no_change_shows_are_wrong():
    counts = [Count(1, 10, 10), Count(1, 11, 10), Count(2, 10, 10), Count(2, 9, 9), Count(3, 9, 9)]
    report = compare_counts("shop.store", counts, [OSError("file gone")], {1: 10, 2: 9})
    assert (report.counts, report.changes, report.wrong, report.failed, report.error) == (5, 3, 3, 1, "file gone")
    assert not report.right
    assert compare_counts("shop.store", counts[:1], [], {1: 10}).right
    assert not compare_counts("shop.store", [], [], {1: 10}).right, "a reader that never counted shows nothing"
