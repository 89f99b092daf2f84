"""The measurement of file events: what it takes from requests, and that goals which are not met are shown as such."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from benchmarks.events import RESULTS, Seen, bytes_by_file, dollars_by_file, lines, percentile, seen, until_visible
from costs.prices import Prices
from costs.recorded import Recorded
from costs.recording import FunctionWork
from costs.simulate import Size

RECORDED, PRICES = Recorded.read(), Prices()
WORK = FunctionWork(in_sequence=20, until_visible=14, cpu_seconds=0.5, written_mb=30)


def results(changes: list[Seen], recorded: Recorded = RECORDED) -> dict[str, list[dict[str, Any]]]:
    return {
        "dollars_a_month": list(dollars_by_file(recorded, PRICES)),
        "bytes": list(bytes_by_file(recorded)),
        "machine": [{"cores": 2, "load": 0.0}],
        "visible": [until_visible(1_000_000, changes)],
    }


def test_of_a_hundred_changes_the_fifth_slowest_counts() -> None:
    assert percentile(range(1, 101), 95) == 95
    assert percentile([7.0], 95) == 7.0
    assert percentile([1.0, 2.0, 9.0], 95) == 9.0


def test_a_goal_is_met_if_nearly_all_changes_meet_it() -> None:
    fast, slow = Seen(2.9, 22, 15, 1.0, WORK), Seen(3.1, 23, 16, 1.0, WORK)
    met, missed = until_visible(1_000_000, [fast] * 19 + [slow]), until_visible(1_000_000, [fast] * 8 + [slow] * 12)
    for goal in ("seconds_met", "in_sequence_met", "until_visible_met"):
        assert (met[goal], missed[goal]) == (True, False), goal


def test_dollars_are_those_of_functions_storage_and_requests() -> None:
    for row in dollars_by_file(RECORDED, PRICES):
        assert row["sum"] == pytest.approx(row["functions"] + row["storage"] + row["requests"], abs=0.02)
        assert row["sum"] < row["with_controller_and_metrics"] < row["on_spark"]
        assert row["met"] == (row["sum"] <= row["goal"])


def test_a_goal_that_is_not_met_is_shown_as_not_met() -> None:
    dear = RECORDED._replace(function=replace(RECORDED.function, cpu_seconds=100.0))
    text = "\n".join(lines(results([Seen(4.0, 30, 20, 1.0, WORK)], dear)))
    assert text.count("not met") == 4 + 3
    assert ": met" not in text


def test_the_committed_results_are_of_a_full_run() -> None:
    committed = json.loads(RESULTS.read_text(encoding="utf-8"))
    counts = {"dollars_a_month": 4, "bytes": 3, "machine": 1, "visible": 2}
    assert {name: len(rows) for name, rows in committed.items()} == counts
    assert all(row["changes"] == 20 for row in committed["visible"])
    assert "\n".join(lines(committed))


@pytest.mark.aws
@pytest.mark.slow
@pytest.mark.long
def test_changes_are_seen_after_their_requests() -> None:
    """In a tiny table, with requests that wait for 10 ms."""
    for change in seen(Size(4, 1 << 16, 52), 2, request_seconds=0.01):
        assert 10 <= change.until_visible < change.in_sequence < 40
        assert change.seconds > (1 + change.until_visible) * 0.01
        assert change.work.until_visible < change.until_visible
