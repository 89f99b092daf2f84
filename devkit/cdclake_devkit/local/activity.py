"""Tracks what the embedded AWS is busy with, so that callers can wait until it is idle."""

from __future__ import annotations

import itertools
import threading


class Activity:
    """Tracks tasks from start to end.

    A task that starts another one does so before it ends, so the tracker never looks idle between the two.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._tokens = itertools.count()
        self._current: dict[int, str] = {}

    def begin(self, what: str) -> int:
        """Record the start of a task; returns the token for `end`."""
        with self._changed:
            token = next(self._tokens)
            self._current[token] = what
            return token

    def end(self, token: int) -> None:
        """Record the end of a task."""
        with self._changed:
            del self._current[token]
            self._changed.notify_all()

    def wait_until_idle(self, timeout_seconds: float) -> list[str]:
        """Wait until no task is active; returns the tasks that are still active when the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: not self._current, timeout_seconds)
            return list(self._current.values())
