"""Measures what a raw file costs, and how soon its rows are visible, if a function loads small changes.

`make bench-events` prints the results beside their goals, and writes them to `benchmarks/events.json`; with `--quick`,
it only prints those of a small sample. The deployed code runs in this process, on the embedded AWS: the function of raw
files gets S3's event and calls the other one, which loads the file and commits. Each request waits for 30 ms, as in a
network.

Dollars are those of `costs/model.py`, with requests and time of the function as measured now, for old rows anywhere.
Seconds are those of this machine: from the begin of DMS's request that writes the file until readers see its 100 rows.
The embedded AWS needs some of them on the same cores. Neither the time that S3's event and the call take on AWS nor the
start of a function is in them.
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from costs.function import visible_at
from costs.meter import in_sequence
from costs.model import FRESHNESSES, USAGES, Costs
from costs.prices import Prices
from costs.recorded import Recorded
from costs.recording import REQUEST_SECONDS, FunctionWork
from costs.simulate import SETTLING_BURSTS, USUAL, Pipeline, Size, jobs_log, pipeline, simulate_function

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

RESULTS = Path(__file__).with_name("events.json")
ROW_BYTES, FILE_BYTES = 52, 6 << 20
"""Of rows with an integer and a text of 44 characters, in files like those of a table that changes all the time."""
DOLLARS = {"10": 25, "200": 250, "2,000": 1500, "10, a file a minute": 120}
"""The most that functions, storage and requests should cost a month."""
SECONDS = {1_000_000: 3.0, 8_000_000: 6.0}
"""The longest that 95 of 100 changes should take, by rows of the table."""
IN_SEQUENCE, UNTIL_VISIBLE = 22, 15
"""The most requests of which each waits for the one before it."""
CHANGES, QUICK_CHANGES = 20, 5
QUICK_SIZE = USUAL._replace(files=8)
BURSTS = 6
ON_LAMBDA, ON_SPARK = (next(one for one in FRESHNESSES if one.key == key) for key in ("on_lambda", "by_file"))


class Seen(NamedTuple):
    """One change.

    Attributes:
        seconds: From the begin of the request that writes the raw file until its rows are visible.
        in_sequence: Requests of which each waits for the one before it, without that one.
        until_visible: Likewise, until the rows are visible.
        aws_cpu_seconds: What the embedded AWS computed meanwhile and until the end, on the same cores.
        work: What the function took.
    """

    seconds: float
    in_sequence: int
    until_visible: int
    aws_cpu_seconds: float
    work: FunctionWork


def sized(rows: int) -> Size:
    """A table of so many rows."""
    return Size(max(1, rows * ROW_BYTES // FILE_BYTES), FILE_BYTES, ROW_BYTES)


def seen(size: Size, changes: int, request_seconds: float = REQUEST_SECONDS) -> list[Seen]:
    """Changes of 100 rows, one after the other, in a table that changed before."""
    with pipeline(size, request_seconds) as jobs:
        jobs.load()
        jobs.use_function()
        jobs.settle(SETTLING_BURSTS)
        return [_seen(jobs) for _ in range(changes)]


def _seen(jobs: Pipeline) -> Seen:
    jobs.meter.requests.clear()
    with jobs_log():
        jobs.notify(jobs.burst())
    put, *requests = jobs.meter.requests
    visible = visible_at(requests)
    assert jobs.function
    return Seen(
        visible - put.begin,
        in_sequence(requests),
        in_sequence(one for one in requests if one.end <= visible),
        sum(one.cpu_seconds for one in requests),
        jobs.function.works[-1],
    )


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that so many percent of all do not exceed."""
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]


def dollars_by_file(recorded: Recorded, prices: Prices) -> Iterator[dict[str, Any]]:
    """A row for each deployment: dollars a month."""
    for usage in USAGES:
        on_lambda, on_spark = (Costs(usage, one, recorded, prices) for one in (ON_LAMBDA, ON_SPARK))
        parts = {name: getattr(on_lambda, name) for name in ("functions", "storage", "requests")}
        measured = sum(parts.values())
        yield {
            "tables": str(usage),
            **{name: round(amount, 2) for name, amount in parts.items()},
            "sum": round(measured, 2),
            "goal": DOLLARS[str(usage)],
            "met": measured <= DOLLARS[str(usage)],
            "with_controller_and_metrics": round(on_lambda.total, 2),
            "on_spark": round(on_spark.total, 2),
        }


def bytes_by_file(recorded: Recorded) -> Iterator[dict[str, Any]]:
    """A row for each pattern of changes with a change for each file: what is stored and written, relative."""
    for one in recorded.stored:
        if one.changes == one.bursts:
            changes_a_day = 24 * one.changes
            yield {
                "old_rows": one.old_rows,
                "files_per_hour": one.bursts,
                "stored_by_live": round(one.gb / one.live_gb, 1),
                "written_mb_per_change": round(1000 * one.written_gb / changes_a_day, 1),
                "whole_files_mb_per_change": round(1000 * one.one_size_gb / changes_a_day, 1),
                "times_less": round(one.one_size_gb / one.written_gb, 1),
            }


def until_visible(rows: int, changes: Sequence[Seen]) -> dict[str, Any]:
    """A row for a table: seconds and requests."""
    seconds = [one.seconds for one in changes]
    work = FunctionWork.median([one.work for one in changes])
    waits, visible = (median(getattr(one, name) for one in changes) for name in ("in_sequence", "until_visible"))
    return {
        "rows": rows,
        "changes": len(changes),
        "p50_seconds": round(median(seconds), 2),
        "p95_seconds": round(percentile(seconds, 95), 2),
        "goal_seconds": SECONDS[rows],
        "seconds_met": percentile(seconds, 95) <= SECONDS[rows],
        "in_sequence": waits,
        "goal_in_sequence": IN_SEQUENCE,
        "in_sequence_met": waits <= IN_SEQUENCE,
        "until_visible": visible,
        "goal_until_visible": UNTIL_VISIBLE,
        "until_visible_met": visible <= UNTIL_VISIBLE,
        "function_cpu_seconds": work.cpu_seconds,
        "aws_cpu_seconds": round(median(one.aws_cpu_seconds for one in changes), 2),
        "written_mb": work.written_mb,
    }


def measure(*, quick: bool) -> dict[str, list[dict[str, Any]]]:
    """All results.

    Args:
        quick: Only an hour of the function, and few changes of the smaller table.
    """
    hours, works = simulate_function(BURSTS, hours=1 if quick else 2, size=QUICK_SIZE if quick else USUAL)
    recorded = Recorded.read()
    recorded = recorded._replace(
        hours={**recorded.hours, ON_LAMBDA.key: {BURSTS: hours}}, function=FunctionWork.median(works)
    )
    tables = list(SECONDS)[: 1 if quick else None]
    return {
        "dollars_a_month": list(dollars_by_file(recorded, Prices())),
        "bytes": list(bytes_by_file(recorded)),
        "machine": [{"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}],
        "visible": [until_visible(rows, seen(sized(rows), QUICK_CHANGES if quick else CHANGES)) for rows in tables],
    }


def lines(results: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """The results as text."""
    yield "Dollars a month, a run for each file:"
    for row in results["dollars_a_month"]:
        parts = f"functions ${row['functions']:,.0f}, storage ${row['storage']:,.0f}, requests ${row['requests']:,.0f}"
        yield (
            f"  tables {row['tables']}: {parts}: ${row['sum']:,.0f}, goal ${row['goal']:,}: {verdict(row['met'])}; "
            f"with Controller and metrics ${row['with_controller_and_metrics']:,.0f}, on Spark ${row['on_spark']:,.0f}"
        )
    yield "Bytes:"
    for row in results["bytes"]:
        yield (
            f"  {row['files_per_hour']} files an hour, old rows {row['old_rows']}: {row['stored_by_live']} times the "
            f"live bytes are kept; a change writes {row['written_mb_per_change']} MB, of whole files "
            f"{row['whole_files_mb_per_change']} MB, {row['times_less']} times as much"
        )
    (machine,) = results["machine"]
    yield f"From DMS's request to visible rows, on {machine['cores']} cores with a load of {machine['load']}:"
    for row in results["visible"]:
        yield (
            f"  {row['rows']:,} rows, {row['changes']} changes: median {row['p50_seconds']} s, of 95 % at most "
            f"{row['p95_seconds']} s, goal {row['goal_seconds']:g} s: {verdict(row['seconds_met'])}"
        )
        yield (
            f"    requests in sequence {row['in_sequence']:g}, goal {row['goal_in_sequence']}: "
            f"{verdict(row['in_sequence_met'])}; until visible {row['until_visible']:g}, "
            f"goal {row['goal_until_visible']}: {verdict(row['until_visible_met'])}; "
            f"CPU of the function {row['function_cpu_seconds']} s "
            f"for {row['written_mb']} MB, of the embedded AWS {row['aws_cpu_seconds']} s"
        )


def verdict(met: bool) -> str:
    """Whether a goal was met, in words."""
    return "met" if met else "not met"


def main() -> None:
    """Measure, print, and write the results of a full run."""
    quick = "--quick" in sys.argv
    results = measure(quick=quick)
    print("\n".join(lines(results)))
    if not quick:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
