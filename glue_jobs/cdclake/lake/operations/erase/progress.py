"""How far an erasure is, for whoever waits."""

from __future__ import annotations

from typing import Callable

Say = Callable[[str, int, int], None]
"""Called with what is being done, how many of it are done so far, and of how many."""


class Progress:
    """Counts steps and says so.

    Args:
        say: Is told at each step.
    """

    def __init__(self, say: Say = lambda what, done, count: None) -> None:  # noqa: ARG005 - named as callers see them
        self._say = say
        self._what, self._done, self._count = "", 0, 0

    def expect(self, what: str, count: int) -> None:
        """So many steps of something begin."""
        self._what, self._done, self._count = what, 0, count
        self._say(what, 0, count)

    def step(self) -> None:
        """One of them is done."""
        self._done += 1
        self._say(self._what, self._done, self._count)
