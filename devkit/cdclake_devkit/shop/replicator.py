"""Runs the stand-in for DMS as a process, which can be killed and restarted."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cdclake.errors import JobRunError
from cdclake_devkit.local.processes import Child

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from cdclake_cli.sources.positions import Position
    from cdclake_devkit.replicate.progress import ProgressFile

_POLL_SECONDS = 0.1
_LAST_LINES = 10


@dataclass(frozen=True)
class ReplicationCommand:
    """A command that replicates until it is killed.

    Attributes:
        arguments: Program and arguments.
        environment: The complete environment, including the password.
    """

    arguments: Sequence[str]
    environment: Mapping[str, str]


class Replicator:
    """Runs a replication for the duration of the `with` block.

    Args:
        progress: The replication's saved progress.
        log: File for its output.
    """

    def __init__(self, command: ReplicationCommand, progress: ProgressFile, log: Path) -> None:
        self._command = command
        self._progress = progress
        self._log = log
        self._child: Child | None = None

    def __enter__(self) -> Replicator:
        """Start the process."""
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Kill the process."""
        self._kill()

    def kill_and_restart(self) -> None:
        """Kill the process with SIGKILL, whatever it is doing, and start a new one."""
        self._kill()
        self._start()

    def position(self) -> Position | None:
        """Position up to which the changes are in the raw bucket; None before the end of the full load."""
        progress = self._progress.read()
        return progress.position if progress else None

    def wait_for_full_load(self, timeout_seconds: float) -> None:
        """Wait until all `LOAD` files are written.

        Raises:
            JobRunError: The time is over, or the process has ended.
        """
        self._wait(lambda: self.position() is not None, "the full load", timeout_seconds)

    def wait_for(self, end: Position, timeout_seconds: float) -> None:
        """Wait until the changes up to a position are in the raw bucket.

        Raises:
            JobRunError: The time is over, or the process has ended.
        """

        def has_arrived() -> bool:
            position = self.position()
            return position is not None and not position.is_before(end)

        self._wait(has_arrived, str(end), timeout_seconds)

    def _wait(self, condition: Callable[[], bool], goal: str, timeout_seconds: float) -> None:
        deadline = time.monotonic() + timeout_seconds
        while not condition():
            if self._child is None or self._child.has_ended() or time.monotonic() > deadline:
                lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
                message = f"The replication did not reach {goal}: {' | '.join(lines)}"
                raise JobRunError(message, remedy=f"Its log is {self._log}")
            time.sleep(_POLL_SECONDS)

    def _start(self) -> None:
        with self._log.open("ab") as log:
            command = self._command
            self._child = Child(command.arguments, cwd=Path.cwd(), env=command.environment, stdout=log, stderr=log)

    def _kill(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None
