"""Writes the results of the last full run into the documents that show them."""

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
RESULTS = ROOT / "benchmarks" / "results.json"
PERFORMANCE, FORMATS = ROOT / "docs" / "performance.md", ROOT / "docs" / "migrate-from-table-formats.md"
_FORMATS = ("cdclake", "iceberg-cow", "iceberg-mor", "delta-rs")
BEGIN, END = "<!-- written by make bench -->", "<!-- until here -->"


def documents(content: Mapping[str, Any]) -> dict[Path, str]:
    """What each document shows of these results, between its two markers."""
    results = content["results"]
    sections = (_machine(content), _results(results), _growth(content["growth"]), _targets(content))
    return {
        PERFORMANCE: "\n\n".join("\n".join(section) for section in sections),
        FORMATS: "\n".join(_formats(results)),
    }


def with_section(document: str, section: str) -> str:
    """The document with this text between its two markers."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{section}\n\n{END}{after}"


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


def _formats(results: list[Result]) -> Iterator[str]:
    """The workloads that were measured with every table format."""
    yield f"| workload | {' | '.join(_FORMATS)} |"
    yield f"| --- |{' ---: |' * len(_FORMATS)}"
    for own in fastest_first(results):
        seconds = {result["contestant"]: _seconds(result) for result in own}
        if seconds.keys() >= set(_FORMATS):
            yield f"| `{own[0]['workload']}` | {' | '.join(seconds[name] for name in _FORMATS)} |"


def _seconds(result: Result) -> str:
    return "wrong or failed" if result["median_s"] is None else f"{result['median_s']:.2f}"


def _memory(result: Result) -> str:
    return f"{result['peak_rss_mb'] / 1000:.1f} GB"


def main() -> None:
    """Update the documents."""
    for path, section in documents(json.loads(RESULTS.read_text(encoding="utf-8"))).items():
        path.write_text(with_section(path.read_text(encoding="utf-8"), section), encoding="utf-8")


if __name__ == "__main__":
    main()
