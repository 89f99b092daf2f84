"""Puts the results of the last full run into the document about performance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from benchmarks.results import Result

ROOT = Path(__file__).resolve().parents[1]
RESULTS, DOCUMENT = ROOT / "benchmarks" / "results.json", ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- written by make bench -->", "<!-- until here -->"


def markdown(content: Mapping[str, Any]) -> str:
    """The machine, the table of results, fastest first in each workload, and that of growth."""
    return "\n".join([*_machine(content), "", *_results(content["results"]), "", *_growth(content["growth"])])


def with_results(document: str, content: Mapping[str, Any]) -> str:
    """The document with these results between its two marks."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{markdown(content)}\n\n{END}{after}"


def _machine(content: Mapping[str, Any]) -> Iterator[str]:
    machine, versions = content["machine"], content["versions"]
    yield (
        f"{content['rows']:,} rows, medians of {content['rounds']} rounds, on {machine['cores']} cores"
        f" ({machine['cpu']}) with {machine['memory_gb']:.0f} GB."
    )
    names = ("python", "pyspark", "pyarrow", "iceberg", "deltalake", "duckdb")
    yield "Versions: " + ", ".join(f"{name} {versions[name]}" for name in names) + "."


def _results(results: list[Result]) -> Iterator[str]:
    yield "| workload | contestant | seconds | x ours | start-up s | peak memory, all processes |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    for workload in dict.fromkeys(one["workload"] for one in results):
        own = [one for one in results if one["workload"] == workload]
        own.sort(key=lambda one: (one["median_s"] is None, one["median_s"]))
        for i, one in enumerate(own):
            told = "wrong or failed" if one["median_s"] is None else f"{one['median_s']:.2f}"
            ratio = "" if one["ratio"] is None else f"{one['ratio']:.2f}"
            name = f"`{workload}`" if i == 0 else ""
            memory = f"{one['peak_rss_mb'] / 1000:.1f} GB"
            yield f"| {name} | {one['contestant']} | {told} | {ratio} | {one['start_up_s']:.1f} | {memory} |"


def _growth(results: list[Result]) -> Iterator[str]:
    yield "| what grows | rows of the table | rows of the change | seconds | peak memory, all processes |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for one in results:
        told = "wrong or failed" if one["median_s"] is None else f"{one['median_s']:.2f}"
        memory = f"{one['peak_rss_mb'] / 1000:.1f} GB"
        yield f"| the {one['grows']} | {one['rows']:,} | {one['change_rows']:,} | {told} | {memory} |"


def main() -> None:
    """Write it."""
    content = json.loads(RESULTS.read_text(encoding="utf-8"))
    DOCUMENT.write_text(with_results(DOCUMENT.read_text(encoding="utf-8"), content), encoding="utf-8")


if __name__ == "__main__":
    main()
