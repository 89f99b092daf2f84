"""Runs the function that loads small changes in this process, and measures what a call takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from resource import RUSAGE_CHILDREN, getrusage
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch

from costs.meter import in_sequence
from costs.recording import MEMORY_MB, FunctionWork
from small_changes import handler

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aws_lambda_powertools.utilities.typing import LambdaContext
    from mypy_boto3_lambda import LambdaClient

    from costs.meter import Meter, Request

TIMEOUT_MS = 300_000
_MB = 1e6


class InProcessFunction:
    """The deployed function.

    Args:
        meter: Counts its requests.
        environment: The function's environment variables.

    Attributes:
        works: What each call took whose requests were counted.
    """

    def __init__(self, meter: Meter, environment: Mapping[str, str]) -> None:
        self._meter, self._environment, self._calls = meter, environment, 0
        self._waiting: list[dict[str, Any]] = []
        self.works: list[FunctionWork] = []
        handler._ports.cache_clear()  # a new container

    @property
    def client(self) -> LambdaClient:
        """Stands for Lambda's."""
        return cast("LambdaClient", self)

    def invoke(self, *, FunctionName: str, InvocationType: str, Payload: bytes) -> dict[str, Any]:
        """Accept an asynchronous call."""
        assert FunctionName
        assert InvocationType == "Event"
        self._waiting.append(json.loads(Payload))
        return {"ResponseMetadata": {"RequestId": f"call-{self._calls + len(self._waiting)}"}}

    def run_waiting(self) -> None:
        """Do the work of the calls, which must load a change each."""
        while self._waiting:
            event = self._waiting.pop(0)
            self._calls += 1
            context = SimpleNamespace(
                aws_request_id=f"call-{self._calls}",
                get_remaining_time_in_millis=lambda: TIMEOUT_MS,
                memory_limit_in_mb=MEMORY_MB,
            )
            before, cpu = len(self._meter.requests), time.process_time()
            with patch.dict(os.environ, self._environment):
                report = handler.handler(event, cast("LambdaContext", context))
            cpu = time.process_time() - cpu
            assert [table["outcome"] for table in cast("Any", report)["tables"]] == ["done"], report
            if requests := self._meter.requests[before:]:
                self.works.append(work_of(requests, cpu))


def work_of(requests: list[Request], cpu_seconds: float) -> FunctionWork:
    """What the requests of a call are.

    Args:
        cpu_seconds: Of this process, with the embedded AWS.
    """
    visible = visible_at(requests)
    return FunctionWork(
        in_sequence=in_sequence(requests),
        until_visible=in_sequence(request for request in requests if request.end <= visible),
        cpu_seconds=cpu_seconds - sum(request.cpu_seconds for request in requests),
        written_mb=sum(request.sent_bytes for request in requests if request.operation == "PutObject") / _MB,
    )


def visible_at(requests: list[Request]) -> float:
    """When the rows of a change were visible: then it was marked as published."""
    return next(one.begin for one in requests if one.operation == "PutObject" and "/published/" in one.key)


def start_seconds() -> float:
    """CPU time until a new process has imported the function."""
    before = getrusage(RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", "import small_changes.handler"], check=True, env=environment)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
