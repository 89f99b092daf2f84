"""Child processes that never outlive this process, even when it is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, TYPE_CHECKING

from cdclake_devkit.local import launcher

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Stream = IO[bytes] | int | None

_LAUNCHER = str(Path(launcher.__file__).resolve())


class Child:
    """A command that runs under the launcher, in its own session.

    Args:
        command: Program and arguments, without a shell.
        cwd: Working folder.
        stdin: Standard input, as in `subprocess.Popen`.
        stdout: Standard output, as in `subprocess.Popen`.
        stderr: Standard error, as in `subprocess.Popen`.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: Stream = subprocess.DEVNULL,
        stdout: Stream = None,
        stderr: Stream = None,
    ) -> None:
        self._lock = threading.Lock()
        lifeline, self._lifeline = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", _LAUNCHER, str(lifeline), *command],
                cwd=cwd,
                env=dict(env),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                pass_fds=(lifeline,),
            )
        except BaseException:
            os.close(self._lifeline)
            raise
        finally:
            os.close(lifeline)

    @property
    def stdin(self) -> IO[bytes] | None:
        """Write end of its input, if that is a pipe."""
        return self._process.stdin

    @property
    def stdout(self) -> IO[bytes] | None:
        """Read end of its output, if that is a pipe."""
        return self._process.stdout

    def wait(self, timeout_seconds: float | None = None) -> int:
        """Wait for the end of the command; returns its exit code, or 128 + n if signal n ended it.

        Raises:
            TimeoutError: The command is still running after this time.
        """
        try:
            code = self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(str(error)) from error
        self.kill()  # closes the lifeline; there is no process left to kill
        return code

    def has_ended(self) -> bool:
        """Whether the command has ended."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """Request the end of the command and its descendants; `wait` returns when they have ended."""
        with self._lock:
            lifeline, self._lifeline = self._lifeline, -1
        if lifeline >= 0:
            os.close(lifeline)
