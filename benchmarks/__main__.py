"""`python -m benchmarks`: measures, prints a table and writes the results."""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import results, targets
from benchmarks.bench import ROOT, Bench
from benchmarks.workloads import CONTESTANTS, DEFAULT_ROWS, OURS, growth_of_change, growth_of_table, workloads

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.workloads import Workload

_NAMES = [workload.name for workload in workloads(DEFAULT_ROWS)]


def main() -> int:
    """Run the selected measurements; the exit code is 1 if a contestant failed or its table is wrong."""
    options = _parser().parse_args()
    started = time.monotonic()

    def progress(line: str) -> None:
        print(f"{time.monotonic() - started:6.0f} s  {line}", flush=True)

    machine = results.machine()
    bench = Bench(options.cache, progress)
    measured = []
    for runs in _runs(options):
        measured += bench.measure(runs, options.rounds)
    summary = results.summarize(measured)
    growth = _growth(bench, options.rows, options.rounds) if options.growth else []
    content = {
        "machine": machine,
        "versions": results.versions(ROOT),
        "rows": options.rows,
        "rounds": options.rounds,
        "results": summary,
        "growth": growth,
    }
    options.results.parent.mkdir(parents=True, exist_ok=True)
    results.write(options.results, content)
    if growth and options.plot:
        from benchmarks.plots import plot_growth

        plot_growth(growth, options.plot)
    print(results.table(summary))
    if growth:
        print(results.growth_table(growth))
    print(f"\n{targets.table(content)}")
    print(
        f"\n{options.rows:,} rows, {options.rounds} rounds, {time.monotonic() - started:.0f} s in total; "
        f"see {options.results}"
    )
    return 0 if all(result["checksum_ok"] for result in (*summary, *growth)) else 1


def _runs(options: argparse.Namespace) -> Iterable[list[tuple[Workload, str]]]:
    """The selected workloads with their contestants; those that share rounds together."""
    together: dict[str, list[tuple[Workload, str]]] = defaultdict(list)
    for workload in workloads(options.rows):
        if workload.name in options.workloads:
            names = (name for name in workload.contestants if name in options.contestants)
            together[workload.beside or workload.name] += [(workload, name) for name in names]
    return filter(None, together.values())


def _growth(bench: Bench, rows: int, rounds: int) -> list[results.Result]:
    growth = []
    for kind, by_factor in (("table", growth_of_table(rows)), ("change", growth_of_change(rows))):
        measured = bench.measure([(workload, OURS) for workload in by_factor.values()], rounds)
        growth += results.growth(kind, by_factor, results.summarize(measured))
    return growth


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=int, default=DEFAULT_ROWS, help="rows of the table (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="measurements per workload (default: %(default)s)")
    parser.add_argument(
        "--workloads", nargs="*", choices=_NAMES, default=_NAMES, metavar="NAME", help=", ".join(_NAMES)
    )
    parser.add_argument(
        "--contestants",
        nargs="*",
        choices=CONTESTANTS,
        default=CONTESTANTS,
        metavar="NAME",
        help=", ".join(CONTESTANTS),
    )
    parser.add_argument("--growth", action="store_true", help="also measure growing tables and changes (only cdclake)")
    parser.add_argument("--cache", type=Path, default=ROOT / ".bench", help="folder for test data (default: .bench)")
    parser.add_argument("--results", type=Path, default=ROOT / ".bench" / "results.json", help="JSON file to write")
    parser.add_argument("--plot", type=Path, help="PNG file to write; needs --growth")
    return parser


if __name__ == "__main__":
    sys.exit(main())
