"""Helpers that create jobs and functions in an embedded AWS, and read their results.

Only the embedded AWS has these tests; no lake is involved.
"""

from __future__ import annotations

import io
import json
import os
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from textwrap import dedent
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from cdclake_devkit.local.deploy import create_role

if TYPE_CHECKING:
    from collections.abc import Callable

    from cdclake_devkit.local import EmbeddedAws

BUCKET = "bucket-of-tests"
ACTIONS = ["s3:GetObject", "s3:PutObject", "s3:ListBucket"]
WAIT_SECONDS = 30


class Workbench:
    """An embedded AWS with a bucket and a role."""

    def __init__(self, aws: EmbeddedAws) -> None:
        self.aws = aws
        self.s3 = aws.client("s3")
        self.glue = aws.client("glue")
        self.functions = aws.client("lambda")
        self.s3.create_bucket(Bucket=BUCKET)
        everything = {"Sid": "Buckets", "Effect": "Allow", "Action": ACTIONS, "Resource": "arn:aws:s3:::*"}
        self.role = create_role(aws.client("iam"), "tests", [everything])

    def job(self, script: str, command: str = "pythonshell", **settings: Any) -> str:
        """Create a job with this script; returns its name."""
        name = f"job-{uuid4()}"
        self.put(f"{name}.py", dedent(script).encode())
        location = f"s3://{BUCKET}/{name}.py"
        self.glue.create_job(
            Name=name, Role=self.role, Command={"Name": command, "ScriptLocation": location}, **settings
        )
        return name

    def start(self, job: str, **settings: Any) -> str:
        run_id: str = self.glue.start_job_run(JobName=job, **settings)["JobRunId"]
        return run_id

    def run(self, job: str, run_id: str) -> dict[str, Any]:
        run: dict[str, Any] = self.glue.get_job_run(JobName=job, RunId=run_id)["JobRun"]
        return run

    def state(self, job: str, run_id: str) -> str:
        return str(self.run(job, run_id)["JobRunState"])

    def finished(self, job: str, run_id: str) -> dict[str, Any]:
        """The run, after everything has ended."""
        self.aws.wait_until_idle(WAIT_SECONDS)
        return self.run(job, run_id)

    def function(self, code: str, *, timeout_seconds: int = 20, **variables: str) -> tuple[str, str]:
        """Create a function `handler.handler` with this code; returns name and ARN."""
        name = f"function-{uuid4()}"
        function = self.functions.create_function(
            FunctionName=name,
            Role=self.role,
            Runtime="python3.11",
            Handler="handler.handler",
            Timeout=timeout_seconds,
            Code={"ZipFile": zip_of(code)},
            Environment={"Variables": {"BUCKET": BUCKET, **variables}},
        )
        return name, function["FunctionArn"]

    def may(self, *actions: str) -> None:
        """Let the role do more."""
        more = {"Sid": "More", "Effect": "Allow", "Action": actions, "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [more]})
        self.aws.client("iam").put_role_policy(RoleName="tests", PolicyName="More", PolicyDocument=policy)

    def notified_bucket(self, function_arn: str, **configuration: Any) -> str:
        """Create a bucket that notifies the function of new objects."""
        bucket = f"notified-{uuid4()}"
        self.s3.create_bucket(Bucket=bucket)
        notification = {"LambdaFunctionArn": function_arn, "Events": ["s3:ObjectCreated:*"], **configuration}
        self.s3.put_bucket_notification_configuration(
            Bucket=bucket, NotificationConfiguration={"LambdaFunctionConfigurations": [notification]}
        )
        return bucket

    def deliver(self, bucket: str, *keys: str) -> None:
        """Write objects to a bucket that notifies, and wait until everything has ended."""
        for key in keys:
            self.s3.put_object(Bucket=bucket, Key=key, Body=b"")
        self.aws.wait_until_idle(WAIT_SECONDS)

    def put(self, key: str, content: bytes = b"") -> None:
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=content)

    def get(self, key: str) -> bytes:
        content: bytes = self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        return content

    def has(self, key: str) -> bool:
        return key in self.keys()

    def keys(self, prefix: str = "") -> list[str]:
        objects = self.s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
        return [item["Key"] for item in objects]


def zip_of(code: str) -> bytes:
    """A function's code as a zip archive."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("handler.py", dedent(code))
    return content.getvalue()


def alive(pid: int) -> bool:
    """Whether the process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def at_once(count: int, work: Callable[[int], object]) -> None:
    """Run `work` in many threads that start together."""
    barrier = threading.Barrier(count)

    def run(number: int) -> None:
        barrier.wait()
        work(number)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(run, range(count)))
