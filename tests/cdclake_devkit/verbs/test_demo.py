"""How `cdclake demo` prints a report; the demo itself has an end-to-end test."""

import json
from dataclasses import replace

import pytest

from cdclake.commit.report import ChangeSummary
from cdclake_cli.printing.output import OutputFormat
from cdclake_devkit.shop.checksum import ChecksumComparison
from cdclake_devkit.shop.demo import EVENT, HOURLY, DemoReport, TableStep
from cdclake_devkit.shop.event_times import EventTimes
from cdclake_devkit.shop.iceberg_reader import CountReport
from cdclake_devkit.verbs.demo import QUERY, show
from cdclake_devkit.verbs.query import Answer

READER = CountReport("cdclake.shop_product", 48, 3, 0, 0, "")
ANSWER = Answer("│ 2024-03-05 │\n", [{"orderdate": "2024-03-05"}])


def step(table, name, started_by, *differences):
    change = ChangeSummary(1, "incremental", 1, 10, 301_265, 1, 2, 3, 0, 0, 4, 9, 5, 900, 800, 0.5, {})
    proof = ChecksumComparison(301_265, 301_265, "a" * 32, "b" * 32 if differences else "a" * 32, differences)
    return TableStep(table, name, started_by, (change,), proof)


@pytest.fixture
def report():
    by_event = replace(step("shop.productorder", "round two", EVENT), times=EventTimes(1.2, 3.4, 15.6))
    steps = (step("shop.productorder", "round one", HOURLY), by_event)
    return DemoReport(("shop.productorder",), steps, READER, 99.5)


def test_text_has_a_table_for_each_step_and_the_verdict(report, capsys):
    show(report, ANSWER, OutputFormat.TABLE)
    out = capsys.readouterr().out
    assert "Round one (hourly run)" in out
    assert "Round two (file event)" in out
    assert "4 of 9" in out
    assert out.count("a" * 32) == 2
    assert "shop.productorder           1.2        3.4     15.6" in out
    assert "48 counts during 3 changes, 0 wrong" in out
    assert "Equal to the source: yes" in out
    assert f"{QUERY}\n│ 2024-03-05 │\n" in out


def test_text_fits_80_columns(report, capsys):
    show(report, ANSWER, OutputFormat.TABLE)
    tables = [line.rstrip() for line in capsys.readouterr().out.splitlines() if "registered" not in line]
    assert max(map(len, tables)) <= 80


def test_a_difference_is_prominent(capsys):
    steps = (step("shop.store", "round one", HOURLY, "checksums differ"),)
    show(DemoReport(("shop.store",), steps, READER, 1.0), ANSWER, OutputFormat.TABLE)
    out = capsys.readouterr().out
    assert "Equal to the source: NO" in out
    assert "b" * 32 in out


def test_a_read_that_failed_is_prominent(report, capsys):
    show(replace(report, reader=replace(READER, wrong=1, failed=2, error="file gone")), ANSWER, OutputFormat.TABLE)
    assert "1 wrong, 2 failed (file gone)" in " ".join(capsys.readouterr().out.split())


def test_json_is_one_object(report, capsys):
    show(report, ANSWER, OutputFormat.JSON)
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {**report.to_json(), "query": {"sql": QUERY, "rows": ANSWER.records}}
