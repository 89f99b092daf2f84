"""Faults at the calls of a run: where they strike, and what they do.

A run's calls are counted 1, 2, 3, ... as it makes them, reads and writes alike. A fault strikes at one of them, so a
test that tries 1, 2, 3, ... until a run ends without having been struck has tried every call there is.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from enum import Enum
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast

from cdclake.errors import CommitStateUnknownError, JobRunError, RetryableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from pyarrow.fs import FileSystem

    from cdclake.adapters.filesystem import FileSystemSpec
    from cdclake.ports import ObjectStore

Value = TypeVar("Value")
READS = frozenset({"all", "get", "is_retained", "list", "list_folders", "open"})
"""Calls that change nothing. One that is not named here is taken to change something."""
_INJECTED = "injected by a test"


class Fault(Enum):
    """What happens at a call."""

    KILLED_BEFORE = "killed before"
    """SIGKILL; the call is not carried out."""
    KILLED_AFTER = "killed after"
    """SIGKILL once the call has been carried out."""
    RAISES = "raises"
    """The call is not carried out and raises."""
    ANSWER_LOST = "answer lost"
    """The call is carried out, and raises."""
    PAUSED = "paused"
    """The process stands still before the call for longer than its lease lasts, while others go on without it."""
    CONNECTION_DROPPED = "connection dropped"
    """The request is carried out and the connection closed without an answer, whereupon clients send it again."""

    @property
    def kills(self) -> bool:
        return self in {Fault.KILLED_BEFORE, Fault.KILLED_AFTER}

    @property
    def strikes_after(self) -> bool:
        """Whether the call has been carried out by then."""
        return self in {Fault.KILLED_AFTER, Fault.ANSWER_LOST, Fault.CONNECTION_DROPPED}


@dataclass(frozen=True)
class Point:
    """A fault at one call of a run.

    Attributes:
        call: Number of the call, from 1.
        changes_only: Whether only calls that change something are counted.
    """

    fault: Fault
    call: int
    changes_only: bool


class Injector:
    """Counts a run's calls and strikes at one of them.

    Args:
        point: Where; None: nowhere.
        about_to_die: Called with the name of the call right before the process kills itself.
        meanwhile: What others do while the process is paused.

    Attributes:
        calls: So many were counted.
        struck: Name of the call that was struck; empty if none was yet.
    """

    def __init__(
        self,
        point: Point | None = None,
        about_to_die: Callable[[str], object] = lambda _: None,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        self._point = point
        self._about_to_die = about_to_die
        self._meanwhile = meanwhile
        self._lock = Lock()
        self.calls = 0
        self.struck = ""

    def call(self, name: str, place: str, do: Callable[[], Value], error: Callable[[Fault], Exception]) -> Value:
        """Make a call, or what the fault makes of it.

        Args:
            name: Of the call.
            place: The key or path that it is for, for people.
            do: Carries the call out.
            error: What it raises if it fails.
        """
        point = self._point
        with self._lock:
            is_counted = not (point and point.changes_only and name in READS)
            self.calls += is_counted
            is_struck = point is not None and is_counted and self.calls == point.call
            if is_struck:
                self.struck = f"{name} {place}".strip()
        if point is None or not is_struck:
            return do()
        if point.fault is Fault.PAUSED:
            self._meanwhile()
            return do()
        if point.fault.strikes_after:
            do()
        if point.fault.kills:
            self._about_to_die(self.struck)
            kill(os.getpid())
        raise error(point.fault)


def kill(pid: int) -> None:
    """End a process as the kernel does when memory runs out; does not return if it is this one."""
    os.kill(pid, signal.SIGKILL)
    if pid == os.getpid():
        time.sleep(60)


class FaultyPort:
    """A port whose every call may be struck."""

    def __init__(self, port: object, injector: Injector) -> None:
        self._port = port
        self._injector = injector

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._port, name)

        def call(*arguments: Any, **named: Any) -> Any:
            def do() -> Any:
                result = method(*arguments, **named)
                return iter(list(result)) if hasattr(result, "__next__") else result  # a listing is one call

            place = next((text for text in arguments if isinstance(text, str)), "")
            return self._injector.call(name, place, do, lambda fault: _port_error(name, fault))

        return call


def _port_error(name: str, fault: Fault) -> Exception:
    """What the ports say that the call raises."""
    if name == "put_if_absent" and fault is Fault.ANSWER_LOST:
        return CommitStateUnknownError(f"It cannot be told whether it was written, {_INJECTED}")
    if name == "start" and fault is Fault.RAISES:
        return JobRunError(f"The job was not started, {_INJECTED}")
    return RetryableError(f"No answer to {name}, {_INJECTED}")


@dataclass(frozen=True)
class FaultyFiles:
    """A folder as tasks see it, where opening, writing and closing a file may be struck."""

    root: Path
    spec: FileSystemSpec
    injector: Injector

    def open(self) -> FileSystem:
        """In place of `FileSystemSpec.open`; has the methods that tasks call."""
        return cast("FileSystem", _FaultyFileSystem(self))


class _FaultyFileSystem:
    def __init__(self, files: FaultyFiles) -> None:
        self._files = files
        self._fs = files.spec.open()

    def open_input_file(self, path: str) -> Any:
        return self._call("open", path, lambda: self._fs.open_input_file(path))

    def open_input_stream(self, path: str) -> Any:
        return self._call("open", path, lambda: self._fs.open_input_stream(path))

    def open_output_stream(self, path: str) -> _FaultyOutput:
        def do() -> Any:
            (self._files.root / path).parent.mkdir(parents=True, exist_ok=True)
            return self._fs.open_output_stream(path)

        return _FaultyOutput(path, self._call("create", path, do), self._files.injector)

    def _call(self, name: str, path: str, do: Callable[[], Value]) -> Value:
        return self._files.injector.call(name, path, do, lambda _: OSError(f"{name} {path}: {_INJECTED}"))


class _FaultyOutput:
    """A file being written; each piece goes to disk at once, so that a run which dies leaves half a file."""

    def __init__(self, path: str, file: Any, injector: Injector) -> None:
        self._path, self._file, self._injector = path, file, injector

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)

    def write(self, data: Any) -> int:
        def do() -> int:
            written = self._file.write(data)
            self._file.flush()
            return cast("int", written)

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


class DiedError(Exception):
    """The run is dead."""


class DiesAtCommit:
    """A lake store under which a run gets as far as its commit; after that nothing gets through.

    Args:
        store: The store.
        committed: Whether the change record is still written.
    """

    def __init__(self, store: ObjectStore, *, committed: bool) -> None:
        self._store, self._committed, self._dead = store, committed, False

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if self._dead:
                raise DiedError(name)
            if name == "put_if_absent":
                self._dead = True
                if self._committed:
                    self._store.put_if_absent(*arguments, **named)
                raise DiedError(name)
            return getattr(self._store, name)(*arguments, **named)

        return call
