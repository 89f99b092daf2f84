"""What the embedded AWS is busy with, so that others can wait for the end of it."""

from __future__ import annotations

import itertools
import threading


class Activity:
    """Counts pieces of work from their start to their end.

    Work that starts further work does so before it ends itself, so there is no moment of false rest between the two.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._tokens = itertools.count()
        self._current: dict[int, str] = {}

    def begin(self, what: str) -> int:
        """Note that a piece of work has started; returns what `end` wants."""
        with self._changed:
            token = next(self._tokens)
            self._current[token] = what
            return token

    def end(self, token: int) -> None:
        """Note that it has ended."""
        with self._changed:
            del self._current[token]
            self._changed.notify_all()

    def wait_until_idle(self, timeout_seconds: float) -> list[str]:
        """Wait until nothing is going on; returns what still is when the time is over, empty if nothing."""
        with self._changed:
            self._changed.wait_for(lambda: not self._current, timeout_seconds)
            return list(self._current.values())
