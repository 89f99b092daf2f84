"""Splits long lists into pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from flask import abort, request

Missing = TypeVar("Missing", int, None)
_MOST_DIGITS = 12


@dataclass(frozen=True)
class Window:
    """One page of a list.

    Attributes:
        count: Length of the list.
        size: Maximum length of a page.
        start: Index of the page's first entry, from 0.
    """

    count: int
    size: int
    start: int

    @classmethod
    def at(cls, count: int, size: int, start: int) -> Window:
        """The page that begins at `start`; the last one if the list ends before it, as an old address may say."""
        last = max(0, count - 1) // size * size
        return cls(count, size, start if start < count else last)

    @property
    def end(self) -> int:
        """Index after the page's last entry."""
        return min(self.count, self.start + self.size)

    @property
    def slice(self) -> slice:
        """The page as a slice of the list."""
        return slice(self.start, self.end)

    @property
    def before(self) -> int | None:
        """Start of the previous page; None if there is none."""
        return max(0, self.start - self.size) if self.start else None

    @property
    def after(self) -> int | None:
        """Start of the next page; None if there is none."""
        return self.end if self.end < self.count else None


def whole_number(name: str, missing: Missing) -> int | Missing:
    """A query parameter that is a whole number; `missing` if it is absent.

    Raises:
        HTTPException: 400: it is not a whole number.
    """
    text = request.args.get(name)
    if text is None:
        return missing
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        abort(400, f"'{name}' must be a whole number.")
    return int(text)
