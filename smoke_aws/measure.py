"""What only a real account shows about a run: how long it took to start, its cores, its log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LOG_GROUPS = ("/aws-glue/jobs/", "/aws-glue/python-jobs/")
"""Prefixes of Glue's log group names."""
BYTES_PER_EVENT = 26
"""CloudWatch counts them for each line. https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/cloudwatch_limits_cwl.html"""


class Measured(NamedTuple):
    """A run of a job.

    Attributes:
        job: Name of the job.
        run_id: Glue's id.
        start_up_s: From the start of the run to its first billed second; that includes waiting for a worker.
        billed_s: The billed time.
        dpu_seconds: What Glue bills; None if Glue does not say.
        parallelism: Tasks at a time of a Spark run; None for other jobs.
        log_bytes: Size of its logs, as CloudWatch counts it.
    """

    job: str
    run_id: str
    start_up_s: float
    billed_s: int
    dpu_seconds: float | None
    parallelism: int | None
    log_bytes: int


class LogStream(NamedTuple):
    """A run's log in one group."""

    group: str
    name: str


def measure(run: Mapping[str, Any], logs: Any) -> Measured:  # noqa: ANN401 - boto3's client
    """Measure a run that has ended.

    Args:
        run: A `JobRun` of Glue's API.
        logs: Client of CloudWatch Logs.
    """
    whole_s = (run["CompletedOn"] - run["StartedOn"]).total_seconds()
    lines = [event["message"] for stream in log_streams(run["Id"], logs) for event in _events(stream, logs)]
    return Measured(
        job=run["JobName"],
        run_id=run["Id"],
        start_up_s=round(max(0.0, whole_s - run["ExecutionTime"]), 1),
        billed_s=run["ExecutionTime"],
        dpu_seconds=run.get("DPUSeconds"),
        parallelism=_parallelism(lines),
        log_bytes=sum(len(line.encode()) + BYTES_PER_EVENT for line in lines),
    )


def log_streams(run_id: str, logs: Any) -> Iterator[LogStream]:  # noqa: ANN401 - boto3's client
    """The log streams of a run: their names begin with its id."""
    for prefix in LOG_GROUPS:
        for page in logs.get_paginator("describe_log_groups").paginate(logGroupNamePrefix=prefix):
            for group in page["logGroups"]:
                name = group["logGroupName"]
                streams = logs.get_paginator("describe_log_streams")
                for streams_page in streams.paginate(logGroupName=name, logStreamNamePrefix=run_id):
                    yield from (LogStream(name, stream["logStreamName"]) for stream in streams_page["logStreams"])


def table(runs: list[Measured]) -> str:
    """The runs as a table in Markdown."""
    lines = [
        "| job | start-up (s) | billed (s) | DPU-seconds | tasks at a time | log (bytes) |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for run in runs:
        unknown = "" if run.dpu_seconds is None else f"{run.dpu_seconds:g}"
        tasks = "" if run.parallelism is None else str(run.parallelism)
        lines.append(f"| {run.job} | {run.start_up_s:g} | {run.billed_s} | {unknown} | {tasks} | {run.log_bytes:,} |")
    return "\n".join(lines)


def _events(stream: LogStream, logs: Any) -> Iterator[Mapping[str, Any]]:  # noqa: ANN401 - boto3's client
    pages = logs.get_paginator("filter_log_events")
    for page in pages.paginate(logGroupName=stream.group, logStreamNames=[stream.name]):
        yield from page["events"]


def _parallelism(lines: list[str]) -> int | None:
    """What the job itself logs at the end of a table."""
    for line in lines:
        if '"parallelism"' in line:
            entry, _ = json.JSONDecoder().raw_decode(line[line.index("{") :])
            return int(entry["parallelism"])
    return None
