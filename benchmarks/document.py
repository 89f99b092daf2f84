"""Writes the results of the last full run into docs/performance.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.results import fastest_first
from benchmarks.targets import verdicts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from benchmarks.results import Result

ROOT = Path(__file__).resolve().parents[1]
RESULTS, DOCUMENT = ROOT / "benchmarks" / "results.json", ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- written by make bench -->", "<!-- until here -->"


def markdown(content: Mapping[str, Any]) -> str:
    """The machine, the results (fastest first in each workload), the growth results and the targets."""
    sections = (_machine(content), _results(content["results"]), _growth(content["growth"]), _targets(content))
    return "\n\n".join("\n".join(section) for section in sections)


def with_results(document: str, content: Mapping[str, Any]) -> str:
    """The document with these results between its two markers."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{markdown(content)}\n\n{END}{after}"


def _machine(content: Mapping[str, Any]) -> Iterator[str]:
    machine, versions = content["machine"], content["versions"]
    once = dict.fromkeys(result["contestant"] for result in content["results"] if result["rounds"] < content["rounds"])
    yield (
        f"{content['rows']:,} rows, medians of {content['rounds']} rounds, on {machine['cores']} cores"
        f" ({machine['cpu']}) with {machine['memory_gb']:.0f} GB."
        f"{' ' + ', '.join(once) + ' ran once.' if once else ''}"
    )
    names = ("python", "pyspark", "pyarrow", "iceberg", "deltalake", "duckdb")
    yield "Versions: " + ", ".join(f"{name} {versions[name]}" for name in names) + "."


def _results(results: list[Result]) -> Iterator[str]:
    yield "| workload | contestant | seconds | x ours | start-up s | peak memory, all processes |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    for own in fastest_first(results):
        for i, result in enumerate(own):
            ratio = "" if result["ratio"] is None else f"{result['ratio']:.2f}"
            name = f"`{result['workload']}`" if i == 0 else ""
            start_up = f"{result['start_up_s']:.1f}"
            cells = (name, result["contestant"], _seconds(result), ratio, start_up, _memory(result))
            yield f"| {' | '.join(cells)} |"


def _growth(results: list[Result]) -> Iterator[str]:
    yield "| what grows | rows of the table | rows of the change | seconds | peak memory, all processes |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for result in results:
        cells = (f"{result['rows']:,}", f"{result['change_rows']:,}", _seconds(result), _memory(result))
        yield f"| the {result['grows']} | {' | '.join(cells)} |"


def _targets(content: Mapping[str, Any]) -> Iterator[str]:
    yield "| workload | target | cdclake | met |"
    yield "| --- | --- | --- | --- |"
    for workload, *cells in (verdict.cells() for verdict in verdicts(content)):
        name = workload if " " in workload else f"`{workload}`"
        yield f"| {' | '.join((name, *cells))} |"


def _seconds(result: Result) -> str:
    return "wrong or failed" if result["median_s"] is None else f"{result['median_s']:.2f}"


def _memory(result: Result) -> str:
    return f"{result['peak_rss_mb'] / 1000:.1f} GB"


def main() -> None:
    """Update the document."""
    content = json.loads(RESULTS.read_text(encoding="utf-8"))
    DOCUMENT.write_text(with_results(DOCUMENT.read_text(encoding="utf-8"), content), encoding="utf-8")


if __name__ == "__main__":
    main()
