"""The table of targets shows what was measured, beside what it is compared with."""

from __future__ import annotations

from typing import Any

from benchmarks.targets import TARGETS, table, verdicts
from benchmarks.workloads import CONTESTANTS, DEFAULT_ROWS, workloads


def result(workload: str, contestant: str, median_s: float | None, peak_rss_mb: int = 1_000, **detail: Any) -> Any:
    return {
        "workload": workload,
        "contestant": contestant,
        "median_s": median_s,
        "peak_rss_mb": peak_rss_mb,
        "detail": detail,
    }


def growth(kind: str, factor: int, median_s: float) -> Any:
    return {"grows": kind, "factor": factor, "median_s": median_s, "peak_rss_mb": 1_700}


CONTENT = {
    "results": [
        result("spread", "cdclake", 4.0),
        result("spread", "limit", 3.0, peak_rss_mb=9_000),
        result("spread", "duckdb", 3.5),
        result("spread", "delta-rs", 5.0),
        result("newest", "cdclake", 1.0),
        result("newest", "delta-rs", None),
        result("tenant", "cdclake", 1.5),
        result("history", "cdclake", None),
        result("aged", "cdclake", 1.2, files_per_key=3.5),
        result("s3-newest", "cdclake", 1.7, requests=1_234),
    ],
    "growth": [growth("table", 1, 1.0), growth("table", 8, 1.1), growth("change", 1, 1.0), growth("change", 8, 9.0)],
}


def test_a_figure_is_compared_with_the_smallest_reference() -> None:
    shown = {(cells[0], cells[1]): cells[2:] for cells in (verdict.cells() for verdict in verdicts(CONTENT))}
    assert {key: cells for key, cells in shown.items() if cells != ("", "not measured")} == {
        ("spread", "≤ 1.4 x limit"): ("4.00 s (1.33 x)", "yes"),
        ("spread", "≤ 1 x the faster of duckdb and delta-rs"): ("4.00 s (1.14 x)", "no"),
        ("newest", "≤ 1.2 x delta-rs"): ("1.00 s", "nothing to compare"),
        ("tenant", "≤ 1.5 x newest"): ("1.50 s (1.50 x)", "yes"),
        ("aged", "≤ 1.3 x aged-fresh"): ("1.20 s", "nothing to compare"),
        ("aged", "≤ 3 files a key"): ("3.50 files a key", "no"),
        ("s3-newest", "≤ 1 x newest + 0.6 s"): ("1.70 s (1.70 x)", "no"),
        ("s3-newest", "shown"): ("1,234", ""),
        ("every workload", "≤ 1.6 GB"): ("1.70 GB", "no"),
        ("table x8", "≤ 1.2 times"): ("1.10 times", "yes"),
        ("change x8", "≤ 8 times"): ("9.00 times", "no"),
    }


def test_a_wrong_result_has_no_figure() -> None:
    (history,) = (verdict for verdict in verdicts(CONTENT) if verdict.target.workload == "history")
    assert (history.figure, history.met) == (None, "not measured")


def test_the_table_has_a_line_for_each_target() -> None:
    heading, *lines = table(CONTENT).splitlines()
    assert heading.split() == ["workload", "target", "figure", "met"]
    assert len(lines) == len(TARGETS)


def test_targets_name_workloads_with_the_contestants_that_they_are_compared_with() -> None:
    contestants = {workload.name: workload.contestants for workload in workloads(DEFAULT_ROWS // 100)}
    names = {target.workload for target in TARGETS} - {"every workload", "table x8", "change x8"}
    assert names <= set(contestants)
    for target in TARGETS:
        for reference in target.than:
            assert reference in (contestants[target.workload] if reference in CONTESTANTS else contestants)
