"""Child processes that never outlive this one, not even when it is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, TYPE_CHECKING

from cdclake.devkit.local import launcher

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Stream = IO[bytes] | int | None

_LAUNCHER = str(Path(launcher.__file__).resolve())


class Child:
    """A command running under the launcher, in a session of its own.

    Args:
        command: Program and arguments; no shell is involved.
        cwd: Folder to run in.
        env: The whole environment.
        stdin: As `subprocess.Popen` takes it; so are the other two.
        stdout: Where output goes.
        stderr: Where error output goes.
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
        """Writing end of its input, if asked for as a pipe."""
        return self._process.stdin

    @property
    def stdout(self) -> IO[bytes] | None:
        """Reading end of its output, if asked for as a pipe."""
        return self._process.stdout

    def wait(self, timeout_seconds: float | None = None) -> int:
        """Exit code of the command once it has ended; 128 + n if signal n ended it.

        Raises:
            TimeoutError: It is still running after that time.
        """
        try:
            code = self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(str(error)) from error
        self.kill()  # nothing is left to kill: this closes the lifeline
        return code

    def kill(self) -> None:
        """End it and everything it started, soon; no error if it has ended. `wait` tells when that is done."""
        with self._lock:
            lifeline, self._lifeline = self._lifeline, -1
        if lifeline >= 0:
            os.close(lifeline)
