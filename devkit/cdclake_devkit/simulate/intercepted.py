# ruff: noqa: ANN401 - it forwards whatever the ports take
"""The ports of a process: each call is a moment at which others may go on, and at which something may go wrong."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import fs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cdclake.ports import ObjectStore
    from cdclake_devkit.simulate.scheduler import Process

_LISTS = frozenset({"list", "list_level", "all", "partitions", "old_versions"})
_PREPARES = frozenset({"begin_retiring", "begin_restoring", "begin_discarding", "begin_removing"})
_PURE = frozenset({"url", "key_fault", "database"})
READS = frozenset(
    {*_LISTS, "get", "is_retained", "not_retained", "get_version", "table", "open_input_file", "open_input_stream"}
)
"""Calls that change nothing, besides the calls that only prepare others."""


@dataclass(frozen=True)
class Call:
    """One call of a port.

    Attributes:
        port: Of which one: `lake`, `raw`, `states`, `jobs` or `catalog`.
        method: Name of the method.
        subject: Its first argument, for people.
    """

    port: str
    method: str
    subject: str = ""

    @property
    def may_be_repeated(self) -> bool:
        """Whether it is one request, which the client may make twice."""
        return (self.port == "states" and self.method != "request_work") or self.method == "put"

    @property
    def is_fenced(self) -> bool:
        """Whether the store refuses it if others did the same meanwhile. Not if they also took it back."""
        lasting = "/changes/" in self.subject or self.subject.endswith("version-hint.text")
        return self.method == "put_if_unchanged" or (self.method == "put_if_absent" and lasting)

    @property
    def changes(self) -> bool:
        """Whether it may change something."""
        return self.method not in READS and self.method not in _PREPARES

    def __str__(self) -> str:
        return f"{self.port}.{self.method}({self.subject})"


class Intercepted:
    """A port of a process.

    Args:
        target: What does the calls.
        port: Its name, see `Call`.
        make: Makes a call at its time, or lets it go wrong.
    """

    def __init__(self, target: object, port: str, process: Process, make: Callable[..., Any]) -> None:
        self._target, self._port, self._process, self._make = target, port, process, make

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if name in _PURE or not callable(found):
            return found
        if name in _LISTS:
            return self._listing(name, found)
        if name in _PREPARES:
            return self._preparing(name, found)

        def call(*arguments: Any, **named: Any) -> Any:
            described = Call(self._port, name, _text(arguments))
            return self._make(self._process, described, lambda: found(*arguments, **named))

        return call

    def _listing(self, name: str, found: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
        """As on S3, the request is made when the first entry is asked for."""

        def call(*arguments: Any, **named: Any) -> Iterator[Any]:
            described = Call(self._port, name, _text(arguments))
            yield from self._make(self._process, described, lambda: list(found(*arguments, **named)))

        return call

    def _preparing(self, name: str, found: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> list[Callable[[], None]]:
            prepared = self._make(self._process, Call(self._port, name), lambda: found(*arguments))
            return [self._prepared(name.removeprefix("begin_"), one) for one in prepared]

        return call

    def _prepared(self, name: str, move: Callable[[], None]) -> Callable[[], None]:
        return lambda: self._make(self._process, Call(self._port, name), move)


def _text(arguments: tuple[Any, ...]) -> str:
    first = arguments[0] if arguments else ""
    return first if isinstance(first, str) else ", ".join(map(str, first)) if isinstance(first, list) else ""


class Files:
    """The files of a store, as the engine opens them: what `FileSystemSpec` describes, and what that opens.

    Args:
        store: Without faults: each file is one call, whose content is there at once.
        port, process, make: As for `Intercepted`.
        was_read: Called with the key and the content of each file.
    """

    def __init__(
        self,
        store: ObjectStore,
        port: str,
        process: Process,
        make: Callable[..., Any],
        was_read: Callable[[str, bytes], None] = lambda _key, _content: None,
    ) -> None:
        self._store, self._port, self._process, self._make, self._was_read = store, port, process, make, was_read

    def open(self) -> Files:
        """The files."""
        return self

    def open_input_file(self, path: str) -> pa.NativeFile:
        """A file in memory."""
        return self._read(path)

    def _read(self, path: str) -> pa.NativeFile:
        content = self._make(self._process, Call(self._port, "open_input_file", path), lambda: self._store.get(path))
        if content is None:
            raise FileNotFoundError(2, "No such file or directory", path)
        self._was_read(path, content)
        return pa.BufferReader(content)

    def open_input_stream(self, path: str, compression: None = None) -> pa.NativeFile:  # noqa: ARG002 - its name
        """A file in memory."""
        return self._read(path)

    def get_file_info(self, path: str) -> fs.FileInfo:
        """What is at a path."""
        described = Call(self._port, "list", path)
        entries = self._make(self._process, described, lambda: list(self._store.list(path)))
        if any(entry.key == path for entry in entries):
            return fs.FileInfo(path, fs.FileType.File)
        is_folder = any(entry.key.startswith(f"{path}/") for entry in entries)
        return fs.FileInfo(path, fs.FileType.Directory if is_folder else fs.FileType.NotFound)

    def open_output_stream(self, path: str) -> _Output:
        """A new file, which appears when it is closed."""
        described = Call(self._port, "put", path)
        return _Output(
            self._process,
            lambda data: self._make(self._process, described, lambda: self._store.put(path, data)),
        )


class _Output(io.BytesIO):
    def __init__(self, process: Process, put: Callable[[bytes], None]) -> None:
        super().__init__()
        self._process, self._put = process, put

    def close(self) -> None:
        if self.closed:
            return
        data = self.getvalue()
        super().close()
        if not self._process.is_dead:
            self._put(data)
