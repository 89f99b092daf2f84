"""Injects faults into the calls of a run.

Calls are counted 1, 2, 3, ... as the run makes them, reads and writes alike. A fault hits one of them. A test that
tries 1, 2, 3, ... until a run ends before its fault has tried every call.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast

from cdclake.concurrency import CALLS_AT_ONCE
from cdclake.errors import CommitStateUnknownError, JobRunError, RetryableError
from tests.dying_store import SECOND_HALF

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from pyarrow.fs import FileSystem

    from cdclake.adapters.filesystem import FileSystemSpec

Value = TypeVar("Value")
READS = frozenset({*SECOND_HALF, "all", "get", "list", "list_level", "not_retained", "open"})
"""Calls that change nothing. All others count as writes."""
_INJECTED = "injected by a test"


class Fault(Enum):
    """What happens at a call."""

    KILLED = "killed"
    """SIGKILL after the call was executed: the same as before the next call."""
    RAISES = "raises"
    """The call raises without being executed."""
    RESPONSE_LOST = "response lost"
    """The call is executed, and raises."""
    PAUSED = "paused"
    """The process pauses before the call for longer than its lease, while other runs continue."""
    CONNECTION_DROPPED = "connection dropped"
    """The request is executed, and the connection closed without a response. Clients then repeat the request."""

    @property
    def kills(self) -> bool:
        return self is Fault.KILLED

    @property
    def is_after_call(self) -> bool:
        """Whether the call is executed before the fault."""
        return self in {Fault.KILLED, Fault.RESPONSE_LOST, Fault.CONNECTION_DROPPED}


@dataclass(frozen=True)
class Point:
    """A fault at one call of a run.

    Attributes:
        call: Number of the call, from 1.
        writes_only: Whether reads are not counted.
    """

    fault: Fault
    call: int
    writes_only: bool


class Injector:
    """Counts a run's calls, and injects a fault into one of them.

    Args:
        point: The fault; None: none.
        before_kill: Called with the name of the call right before the process kills itself.
        meanwhile: What other runs do while the process is paused.

    Attributes:
        calls: Number of calls counted so far.
        hit: Name of the call that was hit; empty if none was hit yet.
    """

    def __init__(
        self,
        point: Point | None = None,
        before_kill: Callable[[str], object] = lambda _: None,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        self._point = point
        self._about_to_die = before_kill
        self._meanwhile = meanwhile
        self._lock = Lock()
        self.calls = 0
        self.hit = ""

    def call(self, name: str, target: str, do: Callable[[], Value], error: Callable[[Fault], Exception]) -> Value:
        """Make a call, with the fault if it is hit.

        Args:
            name: Name of the call.
            target: Its key or path, for messages.
            error: Creates the error for a failed call.
        """
        point = self._point
        with self._lock:
            is_counted = not (point and point.writes_only and name in READS)
            self.calls += is_counted
            is_hit = point is not None and is_counted and self.calls == point.call
            if is_hit:
                self.hit = f"{name} {target}".strip()
        if point is None or not is_hit:
            return do()
        if point.fault is Fault.PAUSED:
            self._meanwhile()
            return do()
        if point.fault.is_after_call:
            with suppress(Exception):  # such as that of a file that is not there: the fault hides it
                do()
        if point.fault.kills:
            self._about_to_die(self.hit)
            kill(os.getpid())
        raise error(point.fault)


def kill(pid: int) -> None:
    """Kill a process as the kernel does when memory is exhausted; does not return if it is this one."""
    os.kill(pid, signal.SIGKILL)
    if pid == os.getpid():
        time.sleep(60)


class FaultyPort:
    """A port with faults injected into its calls, of which a run makes as many at once as on S3."""

    calls_at_once = CALLS_AT_ONCE

    def __init__(self, port: object, injector: Injector) -> None:
        self._port = port
        self._injector = injector

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self._call(name, getattr(self._port, name))

    def _call(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            target = next((text for text in arguments if isinstance(text, str)), "")

            def do() -> Any:
                result = method(*arguments, **named)
                if name in SECOND_HALF:
                    return [self._call(SECOND_HALF[name], one) for one in result]
                return iter(list(result)) if hasattr(result, "__next__") else result  # a listing is one call

            return self._injector.call(name, target, do, lambda fault: _port_error(name, fault))

        return call


def _port_error(name: str, fault: Fault) -> Exception:
    """The error that the port's contract allows for the call."""
    if name == "put_if_absent" and fault is Fault.RESPONSE_LOST:
        return CommitStateUnknownError(f"The object may have been written or not, {_INJECTED}")
    if name == "start" and fault is Fault.RAISES:
        return JobRunError(f"The job was not started, {_INJECTED}")
    return RetryableError(f"No response to {name}, {_INJECTED}")


@dataclass(frozen=True)
class FaultyFiles:
    """A `FileSystemSpec` with faults injected into opening, writing and closing files."""

    root: Path
    spec: FileSystemSpec
    injector: Injector

    def open(self) -> FileSystem:
        """Replaces `FileSystemSpec.open`. The file system has the methods that tasks call."""
        return cast("FileSystem", _FaultyFileSystem(self))


class _FaultyFileSystem:
    def __init__(self, files: FaultyFiles) -> None:
        self._files = files
        self._fs = files.spec.open()

    def open_input_file(self, path: str) -> Any:
        return self._call("open", path, lambda: self._fs.open_input_file(path))

    def open_input_stream(self, path: str, compression: None) -> Any:
        return self._call("open", path, lambda: self._fs.open_input_stream(path, compression=compression))

    def open_output_stream(self, path: str) -> _FaultyOutput:
        def do() -> Any:
            (self._files.root / path).parent.mkdir(parents=True, exist_ok=True)
            return self._fs.open_output_stream(path)

        return _FaultyOutput(path, self._call("create", path, do), self._files.injector)

    def _call(self, name: str, path: str, do: Callable[[], Value]) -> Value:
        return self._files.injector.call(name, path, do, lambda _: OSError(f"{name} {path}: {_INJECTED}"))


_HIT_EVERY = 10


class _FaultyOutput:
    """A file being written. Every write goes to disk at once, so that a crashed run leaves half a file.

    Only the first write and every tenth after it count as calls, because each leaves the same: a part of a file.
    """

    def __init__(self, path: str, file: Any, injector: Injector) -> None:
        self._path, self._file, self._injector = path, file, injector
        self._writes = 0

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)

    def write(self, data: Any) -> int:
        def do() -> int:
            written = self._file.write(data)
            self._file.flush()
            return cast("int", written)

        self._writes += 1
        if self._writes % _HIT_EVERY != 1:
            return do()
        return self._injector.call("write", self._path, do, self._error)

    def tell(self) -> int:
        return cast("int", self._file.tell())

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        if not self.closed:
            self._injector.call("close", self._path, self._file.close, self._error)

    def __enter__(self) -> _FaultyOutput:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _error(self, _: Fault) -> Exception:
        return OSError(f"{self._path}: {_INJECTED}")
