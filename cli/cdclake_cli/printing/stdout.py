"""Reports in one line that the output of a command cannot be written: to a full disk or a closed pipe."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO, cast

from cdclake.errors import CdclakeError

if TYPE_CHECKING:
    from collections.abc import Iterator


class OutputError(Exception):
    """Standard output cannot be written. No `OSError`: file errors have other remedies, and libraries catch some."""


class _Stdout:
    """Standard output that raises `OutputError`. Anything else is as in the stream.

    Args:
        stream: None if the process was started without standard output.
    """

    def __init__(self, stream: Any) -> None:  # noqa: ANN401 - text or bytes
        self._stream = stream

    def write(self, text: Any) -> int:  # noqa: ANN401 - a stream of bytes takes bytes
        """Write a text, or bytes.

        Raises:
            OutputError: That is impossible.
        """
        with _converted():
            if self._stream is None:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            return int(self._stream.write(text))

    def flush(self) -> None:
        """Write what is buffered.

        Raises:
            OutputError: That is impossible.
        """
        with _converted():
            if self._stream is not None:
                self._stream.flush()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute of a stream
        value = getattr(self._stream, name)
        return _Stdout(value) if name == "buffer" else value


@contextmanager
def _converted() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(error.strerror) from error


@contextmanager
def lost_output_reported() -> Iterator[None]:
    """Within the `with` block, a failed write to standard output ends the process with one line on stderr.

    Raises:
        SystemExit: With the status of `CdclakeError`, if output was lost.
    """
    stream = cast("TextIO | None", sys.stdout)
    guarded = _Stdout(stream)
    sys.stdout = cast("TextIO", guarded)
    try:
        try:
            yield
        finally:
            guarded.flush()
    except OutputError as error:
        if stream is not None:  # what is buffered would fail again when Python ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        with suppress(OSError, AttributeError):  # without stderr there is no other place to say it
            sys.stderr.write(f"Error: The output cannot be written: {error}. What the command did before stays done\n")
        raise SystemExit(CdclakeError.exit_code) from None
    finally:
        sys.stdout = cast("TextIO", stream)
