"""The committed results of the last full run meet the promised performance, and the documents show them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from benchmarks.document import FORMATS, RESULTS, documents, with_section
from benchmarks.workloads import DEFAULT_ROWS, MEASURED_ONCE, workloads

CONTENT: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
SPARK = ("walkthrough", "iceberg-cow", "iceberg-mor")


def median_s(workload: str, contestant: str) -> float:
    (result,) = (r for r in CONTENT["results"] if (r["workload"], r["contestant"]) == (workload, contestant))
    assert result["checksum_ok"]
    median: float = result["median_s"]
    return median


def growth_of(kind: str) -> list[dict[str, Any]]:
    results = (result for result in CONTENT["growth"] if result["grows"] == kind)
    return sorted(results, key=lambda result: int(result["factor"]))


@pytest.mark.slow
def test_all_contestants_were_measured_three_times_at_the_default_size() -> None:
    assert (CONTENT["rows"], CONTENT["rounds"] >= 3) == (DEFAULT_ROWS, True)
    assert all(one["rounds"] >= 3 for one in CONTENT["results"] if one["contestant"] not in MEASURED_ONCE)
    measured = {result["workload"] for result in CONTENT["results"]}
    expected = {
        (workload.name, name)
        for workload in workloads(DEFAULT_ROWS)
        for name in workload.contestants
        if workload.name in measured
    }
    assert {(result["workload"], result["contestant"]) for result in CONTENT["results"]} == expected


@pytest.mark.parametrize(
    ("workload", "contestant", "times"),
    [
        ("spread", "walkthrough", 5),
        ("spread", "iceberg-cow", 4),
        ("newest", "walkthrough", 9),
        ("newest", "iceberg-cow", 3),
    ],
)
def test_small_changes_are_several_times_faster(workload: str, contestant: str, times: float) -> None:
    assert median_s(workload, contestant) >= times * median_s(workload, "cdclake")


@pytest.mark.parametrize("workload", ["spread", "newest"])
def test_small_changes_are_close_to_the_limit(workload: str) -> None:
    assert median_s(workload, "cdclake") <= 1.5 * median_s(workload, "limit") + 2


@pytest.mark.parametrize("workload", ["large", "initial"])
def test_large_changes_and_loads_are_faster_than_the_other_contestants_on_spark(workload: str) -> None:
    measured = [result["contestant"] for result in CONTENT["results"] if result["workload"] == workload]
    others = [name for name in SPARK if name in measured]
    assert "walkthrough" in others
    assert "iceberg-cow" in others
    assert all(median_s(workload, "cdclake") < median_s(workload, other) for other in others)


def test_the_time_of_a_change_hardly_depends_on_the_size_of_the_table() -> None:
    smallest, *_, largest = growth_of("table")
    assert largest["rows"] == 8 * smallest["rows"]
    assert largest["median_s"] < 1.3 * smallest["median_s"]
    assert largest["peak_rss_mb"] < 1.1 * smallest["peak_rss_mb"]


def test_time_grows_more_slowly_than_the_change() -> None:
    smallest, *_, largest = growth_of("change")
    assert largest["change_rows"] == 8 * smallest["change_rows"]
    assert largest["median_s"] < 8 * smallest["median_s"]


def test_memory_stays_below_two_gigabytes_in_growing_workloads() -> None:
    assert max(result["peak_rss_mb"] for result in CONTENT["growth"]) < 2000


def test_the_documents_contain_these_results() -> None:
    for path, section in documents(CONTENT).items():
        document = path.read_text(encoding="utf-8")
        assert document == with_section(document, section), path


def test_four_workloads_were_measured_with_every_table_format() -> None:
    lines = documents(CONTENT)[FORMATS].splitlines()[2:]
    assert [line.split("`")[1] for line in lines] == ["spread", "newest", "uuid", "large"]
