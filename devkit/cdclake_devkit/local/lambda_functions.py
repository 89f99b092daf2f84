"""Runs Lambda functions as warm processes on this machine, one per function."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import select
import subprocess
import sys
import threading
import time
import uuid
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote

from cdclake_devkit.local import lambda_worker
from cdclake_devkit.local.processes import Child

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

logger = logging.getLogger(__name__)

_WORKER = str(Path(lambda_worker.__file__).resolve())
_READ_BYTES = 1 << 16
_CLOSE_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class FunctionSpec:
    """Code and configuration of a Lambda function; its process is restarted when they change."""

    arn: str
    name: str
    role: str
    version: str
    handler: str
    code_zip: bytes
    timeout_seconds: int
    memory_mb: int
    variables: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class InvocationResult:
    """Result of an invocation.

    Attributes:
        payload: The handler's result or Lambda's error object, as JSON.
        failed: Whether the payload is an error object.
        log: What the function wrote during the invocation.
    """

    payload: str
    failed: bool
    log: str


class _WorkerEndedError(Exception):
    """The process ended, or timed out, before it answered."""


class LambdaFunctions:
    """Invokes functions, each in its own process and one event at a time.

    Args:
        environment: The complete environment of every function, without its own variables.
        assume_role: Returns variables with credentials of a role, by its ARN.
        data_dir: Existing folder for logs and for the functions' code.
    """

    def __init__(
        self, *, environment: Mapping[str, str], assume_role: Callable[[str], Mapping[str, str]], data_dir: Path
    ) -> None:
        self._environment = environment
        self._assume_role = assume_role
        self._data_dir = data_dir
        self._lock = threading.Lock()
        self._slots: dict[str, _Slot] = {}
        self._closed = False

    def log_path(self, name: str) -> Path:
        """File with all output of a function."""
        return self._data_dir / "logs" / "lambda" / f"{quote(name, safe='')}.log"

    def invoke(self, function: FunctionSpec, event: str, request_id: str) -> InvocationResult:
        """Invoke a function and wait for its answer.

        Args:
            event: The event as JSON.
            request_id: Id of the request, the same for each try.
        """
        with self._lock:
            slot = self._slots.setdefault(function.arn, _Slot())
        with slot.lock:
            log_path = self.log_path(function.name)
            log_path.parent.mkdir(parents=True, exist_ok=True)
            start = log_path.stat().st_size if log_path.exists() else 0
            try:
                worker = self._worker(slot, function, log_path)
                answer = worker.call(json.loads(event), request_id, function.timeout_seconds)
            except _WorkerEndedError as ended:
                slot.drop()
                answer = {"error": {"errorMessage": str(ended), "errorType": "Runtime.ExitError"}}
            with log_path.open("rb") as log:
                log.seek(start)
                written = log.read().decode(errors="replace")
        failed = "error" in answer
        return InvocationResult(json.dumps(answer["error"] if failed else answer["result"]), failed, written)

    def close(self) -> None:
        """End the processes of all functions."""
        with self._lock:
            self._closed = True
            slots = list(self._slots.values())
        for slot in slots:
            while not slot.lock.acquire(timeout=_CLOSE_POLL_SECONDS):
                if slot.worker is not None:
                    slot.worker.kill()  # its current call fails and releases the lock
            slot.drop()
            slot.lock.release()

    def _worker(self, slot: _Slot, function: FunctionSpec, log_path: Path) -> _Worker:
        """The function's process, started if there is none or if the function has changed."""
        if self._closed:
            message = "The embedded AWS is stopping"
            raise _WorkerEndedError(message)
        if slot.worker is None or slot.function != function:
            slot.drop()
            slot.function = function
            environment = {**self._environment, **self._assume_role(function.role)}
            slot.worker = _Worker(function, self._unpack(function), environment, log_path)
            logger.debug("Lambda %s: process started", function.name)
        return slot.worker

    def _unpack(self, function: FunctionSpec) -> Path:
        folder = self._data_dir / "lambda" / quote(function.name, safe="") / uuid.uuid4().hex
        folder.mkdir(parents=True)
        with zipfile.ZipFile(io.BytesIO(function.code_zip)) as archive:
            archive.extractall(folder)
        return folder


class _Slot:
    """Holds one function's process. Callers must hold the lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.function: FunctionSpec | None = None
        self.worker: _Worker | None = None

    def drop(self) -> None:
        if self.worker is not None:
            self.worker.close()
        self.worker = None


class _Worker:
    """A running `lambda_worker`."""

    def __init__(self, function: FunctionSpec, code: Path, environment: Mapping[str, str], log_path: Path) -> None:
        with log_path.open("ab") as log:
            self._child = Child(
                [sys.executable, "-P", _WORKER],
                cwd=code,
                env={**environment, **dict(function.variables), **_runtime_variables(function)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )

    def call(self, event: Any, request_id: str, timeout_seconds: float) -> dict[str, Any]:  # noqa: ANN401  any JSON
        """Send one event and wait for the answer.

        Raises:
            _WorkerEndedError: The process ended, or did not answer in time.
        """
        deadline = time.monotonic() + timeout_seconds
        deadline_ms = round((time.time() + timeout_seconds) * 1000)
        request = {"request_id": request_id, "deadline_ms": deadline_ms, "event": event}
        try:
            requests = _pipe(self._child.stdin)
            requests.write(json.dumps(request).encode() + b"\n")
            requests.flush()
        except (OSError, ValueError) as error:  # the pipe is broken, or `close` has closed it
            message = f"RequestId: {request_id} Error: the process has ended"
            raise _WorkerEndedError(message) from error
        answer: dict[str, Any] = json.loads(self._read_line(request_id, deadline, timeout_seconds))
        return answer

    def _read_line(self, request_id: str, deadline: float, timeout_seconds: float) -> bytes:
        answers = _pipe(self._child.stdout).fileno()
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([answers], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                message = f"RequestId: {request_id} Error: Task timed out after {timeout_seconds:.2f} seconds"
                raise _WorkerEndedError(message)
            chunk = os.read(answers, _READ_BYTES)
            if not chunk:
                message = f"RequestId: {request_id} Error: Runtime exited with exit code {self._child.wait()}"
                raise _WorkerEndedError(message)
            line += chunk
        return line

    def kill(self) -> None:
        """Kill the process."""
        self._child.kill()

    def close(self) -> None:
        """Kill the process, wait for its end and close its pipes. No call may be in progress."""
        self._child.kill()
        self._child.wait()
        with contextlib.suppress(BrokenPipeError):  # the process did not read the last event
            _pipe(self._child.stdin).close()
        _pipe(self._child.stdout).close()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise AssertionError("the worker was started with pipes")
    return stream


def _runtime_variables(function: FunctionSpec) -> dict[str, str]:
    return {
        "_HANDLER": function.handler,
        "AWS_LAMBDA_FUNCTION_NAME": function.name,
        "AWS_LAMBDA_FUNCTION_VERSION": function.version,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_mb),
        "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{function.name}",
        "CDCLAKE_LAMBDA_ARN": function.arn,
    }
