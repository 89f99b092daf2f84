"""Simulates seeds: `python -m cdclake_devkit.simulate --help`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from cdclake_devkit.simulate.mutants import MUTANTS, by_name, put_in


def main() -> int:
    """Simulate seeds; the exit status is 1 if an invariant did not hold, or a mutant was not found."""
    parser = argparse.ArgumentParser(prog="python -m cdclake_devkit.simulate", description=__doc__)
    parser.add_argument("--seeds", default="200", help="how many, or a range: 100-299")
    parser.add_argument("--hours", type=float, default=0, help="simulated hours of steps and faults of each seed")
    parser.add_argument("--minutes", type=float, default=0, help="stop after so long")
    parser.add_argument("--show", action="store_true", help="print the time line of each seed")
    parser.add_argument("--keep-on", action="store_true", help="go on after a violation, and do not shrink it")
    parser.add_argument(
        "--mutants", nargs="*", metavar="NAME", help="put each fault in, and look for a seed that finds it"
    )
    parser.add_argument("--mutant", metavar="NAME", help="put one fault in")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what came of it to this file, too")
    options = parser.parse_args()
    if options.mutants is not None:
        return _try_mutants(options.mutants or [mutant.name for mutant in MUTANTS], options)
    if options.mutant:
        put_in(by_name(options.mutant))
    return _simulate(options)


def _simulate(options: argparse.Namespace) -> int:
    from cdclake_devkit.simulate.case import DEFAULT_HOURS, QUIET_HOURS, drawn
    from cdclake_devkit.simulate.shrink import shrink
    from cdclake_devkit.simulate.simulation import simulate
    from cdclake_devkit.simulate.timeline import report, time_line

    first, _, last = options.seeds.partition("-")
    seeds = range(int(first), int(last) + 1) if last else range(int(first))
    hours = options.hours or DEFAULT_HOURS
    began, counts, failed, done = time.monotonic(), Counter[str](), 0, 0
    for seed in seeds:
        outcome = simulate(drawn(seed, hours))
        counts.update(outcome.counts)
        done += 1
        if options.show:
            print(time_line(outcome.time_line))
        if outcome.violations:
            failed += 1
            name, text = outcome.violations[0]
            print(f"seed {seed}: {name}: {text}", flush=True)
            if not options.keep_on:
                if not options.mutant:
                    print(report(shrink(outcome)))
                break
        if options.json:
            so_far = {"seeds": done, "violations": failed, "hours": done * (hours + QUIET_HOURS), **counts}
            options.json.write_text(json.dumps(so_far, indent=1) + "\n", encoding="utf-8")
        if options.minutes and time.monotonic() - began > options.minutes * 60:
            break
    seconds, simulated = time.monotonic() - began, done * (hours + QUIET_HOURS)
    each = f"{seconds / done:.2f} s a seed, {seconds / simulated * 1000:.0f} ms a simulated hour"
    print(f"{done} seeds, {failed} with violations, {simulated:,.0f} simulated hours in {seconds:.0f} s: {each}")
    for name, count in sorted(counts.items()):
        print(f"  {count:10,}  {name}")
    return 1 if failed else 0


def _try_mutants(names: list[str], options: argparse.Namespace) -> int:
    """Each in a process of its own, as its modules must be loaded with the fault."""
    found: dict[str, str] = {}
    for name in names:
        program = [sys.executable, "-m", "cdclake_devkit.simulate"]
        command = [*program, "--mutant", name, "--seeds", options.seeds, "--hours", str(options.hours)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        line = next((one for one in done.stdout.splitlines() if one.startswith("seed ")), "")
        print(f"{name}: {line or f'not found in {options.seeds} seeds {done.stderr[-300:]}'}", flush=True)
        if line:
            found[name] = line.removeprefix("seed ").split(": ")[0]
        if options.json:
            options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"{len(found)} of {len(names)} mutants found")
    return 0 if len(found) == len(names) else 1


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # threads of libraries may end the process with SIGABRT while Python ends
