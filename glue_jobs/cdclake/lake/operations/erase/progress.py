"""Reports how far an erasure has come."""

from __future__ import annotations

from typing import Callable

OnProgress = Callable[[str, int, int], None]
"""Called with the current activity, its completed steps, and its total steps."""


class Progress:
    """Counts the steps of an activity and reports them.

    Args:
        on_progress: Called at each step.
    """

    def __init__(self, on_progress: OnProgress = lambda activity, done, count: None) -> None:  # noqa: ARG005 - names document the arguments
        self._on_progress = on_progress
        self._activity, self._done, self._count = "", 0, 0

    def expect(self, activity: str, count: int) -> None:
        """Start an activity of `count` steps."""
        self._activity, self._done, self._count = activity, 0, count
        self._on_progress(activity, 0, count)

    def step(self) -> None:
        """Report that one more step is done."""
        self._done += 1
        self._on_progress(self._activity, self._done, self._count)
