"""The results of the last full run, as they are committed, meet what we promise, and the document tells them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from benchmarks.document import DOCUMENT, RESULTS, with_results
from benchmarks.workloads import DEFAULT_ROWS, workloads

CONTENT: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
SPARK = ("walkthrough", "iceberg-cow", "iceberg-mor")


def median_s(workload: str, contestant: str) -> float:
    (found,) = (r for r in CONTENT["results"] if (r["workload"], r["contestant"]) == (workload, contestant))
    assert found["checksum_ok"]
    median: float = found["median_s"]
    return median


def growing(what: str) -> list[dict[str, Any]]:
    return sorted((one for one in CONTENT["growth"] if one["grows"] == what), key=lambda one: int(one["factor"]))


def test_everybody_took_part_at_the_default_size_three_times() -> None:
    assert (CONTENT["rows"], CONTENT["rounds"] >= 3) == (DEFAULT_ROWS, True)
    expected = {(workload.name, name) for workload in workloads(DEFAULT_ROWS) for name in workload.contestants}
    assert {(one["workload"], one["contestant"]) for one in CONTENT["results"]} == expected


@pytest.mark.parametrize(
    ("workload", "contestant", "times"),
    [
        ("spread", "walkthrough", 5),
        ("spread", "iceberg-cow", 4),
        ("newest", "walkthrough", 9),
        ("newest", "iceberg-cow", 3),
    ],
)
def test_small_changes_are_so_many_times_faster(workload: str, contestant: str, times: float) -> None:
    assert median_s(workload, contestant) >= times * median_s(workload, "cdclake")


@pytest.mark.parametrize("workload", ["spread", "newest"])
def test_small_changes_are_close_to_the_limit(workload: str) -> None:
    assert median_s(workload, "cdclake") <= 1.5 * median_s(workload, "limit") + 2


@pytest.mark.parametrize("workload", ["large", "initial"])
def test_large_changes_and_loads_are_faster_than_everybody_on_spark(workload: str) -> None:
    there = [one["contestant"] for one in CONTENT["results"] if one["workload"] == workload]
    rivals = [name for name in SPARK if name in there]
    assert "walkthrough" in rivals
    assert "iceberg-cow" in rivals
    assert all(median_s(workload, "cdclake") < median_s(workload, rival) for rival in rivals)


def test_a_change_takes_hardly_longer_in_a_larger_table() -> None:
    smallest, *_, largest = growing("table")
    assert largest["rows"] == 8 * smallest["rows"]
    assert largest["median_s"] < 1.3 * smallest["median_s"]
    assert largest["peak_rss_mb"] < 1.1 * smallest["peak_rss_mb"]


def test_a_larger_change_takes_less_than_its_share_longer() -> None:
    smallest, *_, largest = growing("change")
    assert largest["change_rows"] == 8 * smallest["change_rows"]
    assert largest["median_s"] < 8 * smallest["median_s"]


def test_no_change_that_grows_takes_two_gigabytes() -> None:
    assert max(one["peak_rss_mb"] for one in CONTENT["growth"]) < 2000


def test_the_document_tells_these_results() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    assert document == with_results(document, CONTENT)
