"""Lambda function that brings tables up to date: it loads small changes itself, and starts Spark jobs for the others.

It is the ProcessTable of deployments with `small_changes`, and works as that does, see
`cdclake.control.run.process_table`. The function of raw files calls it asynchronously. What exceeds `LIMITS`, or would
take longer than its time, goes to Spark before anything is committed.

The holder of the leases is the id of the request. If the function dies, Lambda calls it again with the same id.
https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from cdclake import logs
from cdclake.adapters.cloudwatch import metrics_in_log
from cdclake.adapters.stores import open_store
from cdclake.control.jobs.arguments import to_argv
from cdclake.control.run.process_table import process_tables
from cdclake.control.run.run_arguments import PASSED_ON, RunArguments
from cdclake.control.run.small_loads import SmallLoads
from cdclake.errors import JobRunError, LeaseLostError, NeedsSparkError, NoRoomError, RetryableError
from cdclake.lake.limits import EngineLimits
from cdclake.lake.operations.job import load_small
from cdclake.lake.spark.in_process import InProcessBackend, Room
from cdclake.model.change.place import Place
from cdclake.model.names import FUNCTION_SMALL_CHANGES, Argument
from cdclake.run_ports import dms_statistics, open_ports

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aws_lambda_powertools.utilities.typing import LambdaContext

    from cdclake.ports import Ports

LIMITS = EngineLimits(
    rewritten_bytes=256 << 20,
    held_bytes=256 << 20,
    looked_up_files=1000,
    read_group_bytes=64 << 20,
    part_bytes=16 << 20,
    sorted_bytes=128 << 20,
)
"""Rewriting takes 13 to 21 ms of CPU per MB. Two files of 125 MB at once take 650 MB of memory, and a change of 260 MiB
that merges into two takes 700 MB: measured. So many files take less than a minute, if each takes three requests of
30 ms. Data files may hold many times their bytes, so rows are read and sorted in smaller parts than by Spark."""
TASKS_AT_ONCE = 8
"""So a change of some rows waits once for the files that it reads. Their bytes are limited, however many there are."""
MERGED_BYTES = 256 << 20
"""But not what they hold, which may be a hundred times as much. So tasks merge files of so many uncompressed bytes at
once: all files of most changes, and one after the other of those that are compressed to almost nothing."""
TIME_TO_COMMIT_MS = 60_000
"""No task begins with less time than this left: committing and publishing takes some seconds."""


def handler(event: Mapping[str, Any], context: LambdaContext) -> dict[str, object]:
    """Entry point of Lambda; see `process`."""
    return process(event, context, LIMITS)


def process(event: Mapping[str, Any], context: LambdaContext, limits: EngineLimits) -> dict[str, object]:
    """Bring the tables of ProcessTable's argument `paths` up to date. Returns its report.

    Args:
        event: The argument, by its name.
        limits: Larger changes go to Spark.

    Raises:
        RetryableError: A service was busy. Lambda calls the function again, for all tables.
    """
    run_id = context.aws_request_id
    logs.configure(run_id=run_id)
    deployed = {name: value for name in PASSED_ON if (value := os.environ.get(name.upper()))}
    arguments = RunArguments.parse(to_argv({**deployed, Argument.PATHS: event[Argument.PATHS]}))
    ports = replace(_ports(arguments._replace(paths=())), statistics=dms_statistics())
    lake = arguments.out_bucket, arguments.out_prefix

    def check_time() -> None:
        left_ms = context.get_remaining_time_in_millis()
        if left_ms < TIME_TO_COMMIT_MS:
            message = f"the function had only {left_ms:,} ms left"
            raise NeedsSparkError(message, remedy="Nothing to do: a Spark run does the work")

    backend = InProcessBackend(tasks_at_once=TASKS_AT_ONCE, before_task=check_time, room=Room(MERGED_BYTES))
    place = Place(FUNCTION_SMALL_CHANGES, int(context.memory_limit_in_mb))
    load = partial(
        load_small, run_id=run_id, place=place, backend=backend, limits=limits, hash_secret=arguments.hash_secret
    )
    small = SmallLoads(run_id, load, context.get_remaining_time_in_millis() / 1000)
    report = process_tables(arguments.paths, *lake, run_id, ports, arguments.passed_on(), time.sleep, small)
    for table in report.tables:
        if table.failure and _may_succeed_later(table.failure):
            raise table.failure
    return report.to_json()


def _may_succeed_later(error: BaseException) -> bool:
    """Whether Lambda is to call again because of a table's error.

    If its lease was lost, another run does the work. If a Spark run of the table was stopped, or ended badly twice, the
    next raw file or the Controller starts another, not the function a minute later.
    """
    if isinstance(error, JobRunError):
        return isinstance(error, NoRoomError)
    return isinstance(error, RetryableError) and not isinstance(error, LeaseLostError)


@lru_cache(maxsize=1)
def _ports(arguments: RunArguments) -> Ports:
    """What the function works with; created once per container, but for what a run remembers."""
    return replace(open_ports(arguments, metrics_in_log), open_bucket=lru_cache(maxsize=None)(open_store))
