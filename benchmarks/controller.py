"""Measures the cost of a planning pass of the Controller, of a large backlog, and the savings of packing.

`make bench-controller` prints the results and writes them to `benchmarks/controller.json`. The Controller's code runs
on real botocore, against a simulation that answers each request after 30 ms and throttles some (`simulated_aws.py`).
Each size runs in its own process, so that memory can be measured.

It fails if an idle table needs more than `MAX_LIST_REQUESTS` in a pass: in the first, measured pass, or in the later
ones, which list the folder of each large idle table page by page until they have listed all of it.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from datetime import timedelta
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.packing import line as packing_line
from benchmarks.packing import packing_costs
from benchmarks.simulated_aws import BUCKET, NEWEST, PREFIX, Lake, SimulatedAws
from cdclake.adapters.aws import client
from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.s3 import S3Store
from cdclake.control.controller import PlanInputs, execute, plan
from cdclake.control.plan.plan_table import plan_table
from cdclake.control.plan.planned_table import Action
from cdclake.control.plan.raw_scan import PAGE_OBJECTS
from cdclake.model.due_files import first_batch, mark_applied, pending_changes
from cdclake.model.raw.files import ListedObject, RawFiles, raw_files
from cdclake.model.schema import Column, Schema
from cdclake.model.snapshot import Snapshot
from cdclake_devkit.memory import MemoryJobs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

REPORT = Path(__file__).with_suffix(".json")
REQUEST_SECONDS = 0.030
THROTTLED_EVERY = 1000
SIZES = {
    "1,000 tables, 100,000 objects": (990, 60, 10, 4060),
    "10,000 tables, 100,000 objects": (9900, 6, 100, 406),
    "10,000 tables, 1,000,000 objects": (9900, 60, 100, 4060),
}
"""Small tables, objects of each, large tables, objects of each. The last two sizes should need equal memory."""
MAX_LIST_REQUESTS = 2
"""Per pass and idle table."""
WITH_WORK = 50
BACKLOG_FILES = 500_000
BACKLOG_STEP_SECONDS = 60


def main() -> None:
    """Measure everything, print it, and update the report."""
    if sys.argv[1:]:
        print(json.dumps(backlog() if sys.argv[1] == "backlog" else planning_pass(sys.argv[1])))
        return
    passes = {name: _in_own_process(name) for name in SIZES}
    for name, measured in passes.items():
        print(f"Planning pass, {name}: {_line(measured)}")
    backlog_result = _in_own_process("backlog")
    print(f"Backlog of one table: {_line(backlog_result)}")
    write_report(
        "planning", {**passes, "concurrent_listings": S3Store.calls_at_once, "request_seconds": REQUEST_SECONDS}
    )
    write_report("backlog", backlog_result)
    packed = packing_costs()
    print("\n".join(packing_line(row) for row in packed))
    write_report("packing", packed)
    check_target(passes)


def check_target(passes: Mapping[str, Mapping[str, Any]]) -> None:
    """Fail if an idle table needed too many list requests."""
    missed = [
        f"{name}: {measured['most_list_requests_per_idle_table']}"
        for name, measured in passes.items()
        if measured["most_list_requests_per_idle_table"] > MAX_LIST_REQUESTS
    ]
    if missed:
        message = f"An idle table needed more than {MAX_LIST_REQUESTS} list requests in a pass: {'; '.join(missed)}"
        raise SystemExit(message)
    print(f"No idle table needed more than {MAX_LIST_REQUESTS} list requests in any pass.")


def write_report(section: str, measured: object) -> None:
    """Replace a section of the report; other sections stay."""
    report = json.loads(REPORT.read_text(encoding="utf-8")) if REPORT.exists() else {}
    REPORT.write_text(json.dumps({**report, section: measured}, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def planning_pass(size: str) -> dict[str, Any]:
    """Plan all tables of a size once."""
    small, small_objects, large, large_objects = SIZES[size]
    # Large tables come first, so that some of them have work.
    lake = Lake([*([large_objects] * large), *([small_objects] * small)], WITH_WORK)
    aws = SimulatedAws(lake, REQUEST_SECONDS, THROTTLED_EVERY)
    os.environ.update(AWS_ACCESS_KEY_ID="made-up", AWS_SECRET_ACCESS_KEY="made-up", AWS_DEFAULT_REGION="eu-central-1")
    s3, dynamodb = client("s3"), client("dynamodb")
    for connected in (s3, dynamodb):
        aws.connect(connected)
    inputs = PlanInputs(S3Store(s3, BUCKET), DynamoState(dynamodb, "DMSCDC_Controller"), BUCKET, PREFIX)
    before = resource.getrusage(resource.RUSAGE_SELF)
    load = round(os.getloadavg()[0], 1)
    started = time.perf_counter()
    now = NEWEST + timedelta(hours=1)
    planned = plan(inputs, now).tables
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF)
    errors = [table.error for table in planned if table.error]
    if errors or sum(table.action is Action.START for table in planned) != WITH_WORK:
        message = f"The plan differs from the expected one: {errors[:1]}"
        raise SystemExit(message)
    idle = Counter(aws.listings[lake.folder(table)] for table in range(WITH_WORK, len(lake.objects)))
    requests, throttled = dict(sorted(aws.requests.items())), aws.throttled
    rounds = list_large_tables(lake, aws, inputs, now)
    return {
        "tables": len(lake.objects),
        "objects": sum(lake.objects),
        "requests": requests,
        "throttled": throttled,
        "list_requests_per_idle_table": round(sum(count * n for count, n in idle.items()) / sum(idle.values()), 3),
        "most_list_requests_per_idle_table": max([*idle, *rounds.values()]),
        "most_list_requests_of_large_idle_tables_by_pass": rounds,
        "idle_tables_by_list_requests": {str(count): idle[count] for count in sorted(idle)},
        "seconds": round(seconds, 1),
        "seconds_of_requests_alone": round(sum(requests.values()) * REQUEST_SECONDS / S3Store.calls_at_once, 1),
        "cpu_seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "others_on_this_machine": load,
        "peak_memory_mib": after.ru_maxrss // 1024,
        "memory_before_mib": before.ru_maxrss // 1024,
    }


def list_large_tables(lake: Lake, aws: SimulatedAws, inputs: PlanInputs, now: datetime) -> dict[str, int]:
    """Run as many passes as the Controller needs to list every object of the large idle tables.

    Returns:
        The maximum number of list requests per large table, by pass; empty if there are no large tables.
    """
    large = [table for table in range(lake.with_work, len(lake.objects)) if lake.objects[table] > PAGE_OBJECTS]
    if not large:
        return {}
    names = [lake.state(table).name for table in large]
    folders = [lake.folder(table) for table in large]
    maxima: dict[str, int] = {}
    aws.listed.clear()
    for number in range(1, ceil(max(lake.objects) / PAGE_OBJECTS) + 2):
        aws.listings.clear()
        summary = execute(plan(inputs, now, names), inputs.states, MemoryJobs(), lambda: now)
        if summary.failed or any(table.outcome for table in summary.tables):
            message = f"An idle table had work: {summary.to_json()['error']}"
            raise SystemExit(message)
        maxima[str(number)] = max(aws.listings[folder] for folder in folders)
    missing = sum(lake.objects[table] - len(aws.listed[lake.folder(table)]) for table in large)
    if missing:
        message = f"{missing} objects of large idle tables were not listed in {len(maxima)} passes"
        raise SystemExit(message)
    return maxima


def backlog() -> dict[str, Any]:
    """Process a table's backlog in the batches of the planner and the job, without moving rows."""
    start = NEWEST - timedelta(seconds=BACKLOG_FILES * BACKLOG_STEP_SECONDS)
    stamps = (start + timedelta(seconds=BACKLOG_STEP_SECONDS * number) for number in range(BACKLOG_FILES))
    prefix = f"{PREFIX}s0/t000000/"
    listed = (ListedObject(f"{prefix}{stamp:%Y%m%d-%H%M%S}000.parquet", 20_480, stamp) for stamp in stamps)
    changes = raw_files(listed, prefix).changes
    state = Lake([2], 0).state(0).with_attributes(LastIncrementalFile="null", LastSeen="")
    settings = state.settings
    lake = Snapshot(
        change=1, schema=Schema((Column("id", "bigint"),)), primary_key=("id",), full_load_utc="2020-01-01 00:00:00"
    )
    started, watermarks, largest = time.perf_counter(), [""], 0
    while True:
        seen = lake.ledger.recorded(changes, lambda _: ())
        decision = plan_table(state, RawFiles(changes=changes), NEWEST, lake, recorded=seen)
        if not decision.incremental:
            break
        due = pending_changes(lake, changes, settings.late_window_hours, seen).due
        batch = first_batch(due, settings.max_files_per_run, settings.max_bytes_per_run)
        if batch[-1].relative != decision.new_watermark or decision.new_watermark <= watermarks[-1]:
            raise SystemExit("Planner and job chose different files, or the watermark did not advance")
        lake = mark_applied(lake, batch, settings.late_window_hours)
        watermarks.append(decision.new_watermark)
        largest = max(largest, len(batch))
    return {
        "files": BACKLOG_FILES,
        "batches": len(watermarks) - 1,
        "largest_batch": largest,
        "planning_seconds_per_batch": round((time.perf_counter() - started) / len(watermarks), 2),
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def _in_own_process(measurement: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.controller", measurement]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        message = f"'{measurement}' failed; see its output above"
        raise SystemExit(message)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def _line(measured: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in measured.items())


if __name__ == "__main__":
    main()
