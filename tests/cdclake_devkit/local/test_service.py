"""`serve` prints one line of JSON, serves other processes, and leaves no process behind however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from cdclake_devkit.local.deploy import create_role
from tests.builders import eventually
from tests.cdclake_devkit.local.workbench import alive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_glue import GlueClient
    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.aws

END_SECONDS = 20

# A job with a child in its own session, and a function with a warm process: everything that could be left behind.
JOB = b"""
import boto3, os, subprocess, time
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
boto3.client("s3").put_object(Bucket="cdclake-assets", Key="pids/job", Body=f"{os.getpid()} {child.pid}")
time.sleep(1000)
"""


@contextmanager
def served() -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A serving process and the line it printed."""
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", "from cdclake_devkit.local import serve; serve(0)"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def session() -> boto3.session.Session:
    return boto3.session.Session("any", "thing", region_name=os.environ.get("AWS_DEFAULT_REGION", "us-east-1"))


def clients(endpoint: str) -> tuple[S3Client, GlueClient]:
    return session().client("s3", endpoint_url=endpoint), session().client("glue", endpoint_url=endpoint)


def busy_pids(ready: dict[str, Any]) -> list[int]:
    """Start work on the server; returns its processes."""
    s3, glue = clients(ready["endpoint"])
    s3.put_object(Bucket="cdclake-assets", Key="job.py", Body=JOB)
    command = {"Name": "pythonshell", "ScriptLocation": "s3://cdclake-assets/job.py"}
    may_write = {"Effect": "Allow", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::cdclake-assets/*"}
    role = create_role(session().client("iam", endpoint_url=ready["endpoint"]), "busy", [may_write])
    glue.create_job(Name="busy", Role=role, Command=command)  # type: ignore[arg-type]  # a plain dict
    glue.start_job_run(JobName="busy")
    s3.put_object(Bucket=ready["raw_bucket"], Key="hr/emp/LOAD00000001.csv", Body=b"1\n")
    assert eventually(lambda: s3.list_objects_v2(Bucket="cdclake-assets", Prefix="pids/")["KeyCount"] == 1)
    script, child = s3.get_object(Bucket="cdclake-assets", Key="pids/job")["Body"].read().split()
    return [int(script), int(child)]


def descendants(pid: int) -> list[int]:
    """All descendants of a process."""
    table = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(line.split()[0]): int(line.split()[1]) for line in table.splitlines()}
    processes = [pid]
    for process in processes:
        processes += [child for child, parent in parents.items() if parent == process]
    return processes[1:]


@pytest.mark.long
def test_another_process_needs_only_the_endpoint() -> None:
    with served() as (process, ready):
        assert ready == {
            "endpoint": ready["endpoint"],
            "raw_bucket": "cdclake-raw",
            "lake_bucket": "cdclake-lake",
            "state_table": "DMSCDC_Controller",
        }
        assert ready["endpoint"].startswith("http://127.0.0.1:")
        code = """
import boto3
s3 = boto3.client("s3")
s3.put_object(Bucket="cdclake-raw", Key="x", Body=b"from another process")
print(s3.get_bucket_versioning(Bucket="cdclake-lake")["Status"])
print(boto3.client("dynamodb").describe_table(TableName="DMSCDC_Controller")["Table"]["KeySchema"])
for job in boto3.client("glue").get_jobs()["Jobs"]:
    print(job["Name"], job["Command"]["Name"], job["ExecutionProperty"], job.get("DefaultArguments"))
"""
        region = os.environ.get("AWS_DEFAULT_REGION", "us-east-1")
        environment = {
            "PATH": os.environ["PATH"],
            "AWS_ENDPOINT_URL": ready["endpoint"],
            "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "thing",
            "AWS_DEFAULT_REGION": region,
        }
        result = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        lake = {"--out_bucket": "cdclake-lake", "--out_prefix": "", "--state_table": "DMSCDC_Controller"}
        catalog = {"--catalog_database": "cdclake"}
        raw = {"--bucket": "cdclake-raw", "--prefix": "", "--new_table": '{"FullLoadQuietMinutes": "0"}'}
        assert result.stdout.splitlines() == [
            "Enabled",
            "[{'AttributeName': 'path', 'KeyType': 'HASH'}]",
            f"DMSCDC_Controller pythonshell {{'MaxConcurrentRuns': 1}} {raw | lake}",
            f"DMSCDC_ProcessTable pythonshell {{'MaxConcurrentRuns': 100}} {lake | catalog}",
            "DMSCDC_LoadInitial glueetl {'MaxConcurrentRuns': 50} {}",
            "DMSCDC_LoadIncremental glueetl {'MaxConcurrentRuns': 50} {}",
        ]
        s3, _ = clients(ready["endpoint"])
        assert s3.get_object(Bucket="cdclake-raw", Key="x")["Body"].read() == b"from another process"
        process.send_signal(signal.SIGINT)
        assert process.wait(END_SECONDS) == 0


@pytest.mark.usefixtures("hangup")
@pytest.mark.sampled(ci=1)
@pytest.mark.long
@pytest.mark.parametrize("stop_signal", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_signal_ends_it_cleanly_and_leaves_no_process(stop_signal: signal.Signals) -> None:
    with served() as (process, ready):
        pids = busy_pids(ready)
        everything = {*descendants(process.pid), *pids}
        assert len(everything) >= 4  # the job and the function each have a launcher
        process.send_signal(stop_signal)
        output, errors = process.communicate(timeout=END_SECONDS)
        assert process.returncode == 0
        assert output == ""
        assert "Traceback" not in errors
        assert "GET /" not in errors
        assert [pid for pid in everything if alive(pid)] == []


@pytest.mark.long
def test_a_kill_leaves_no_process_either() -> None:
    with served() as (process, ready):
        everything = {*descendants(process.pid), *busy_pids(ready), *descendants(process.pid)}
        assert all(alive(pid) for pid in everything)
        process.kill()
        process.wait(END_SECONDS)
        assert eventually(lambda: not any(alive(pid) for pid in everything), within_seconds=5)
