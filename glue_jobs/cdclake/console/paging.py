"""Long lists, a part at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from flask import abort, request

Missing = TypeVar("Missing", int, None)
_MOST_DIGITS = 12


@dataclass(frozen=True)
class Window:
    """A part of a list.

    Attributes:
        count: How long the list is.
        size: How much of it a page shows.
        start: Where the part begins, from 0.
    """

    count: int
    size: int
    start: int

    @property
    def end(self) -> int:
        """Where it ends."""
        return min(self.count, self.start + self.size)

    @property
    def slice(self) -> slice:
        """The part itself."""
        return slice(self.start, self.end)

    @property
    def before(self) -> int | None:
        """Where the part before begins; None if there is none."""
        return max(0, self.start - self.size) if self.start else None

    @property
    def after(self) -> int | None:
        """Where the next part begins; None if there is none."""
        return self.end if self.end < self.count else None


def whole_number(name: str, missing: Missing) -> int | Missing:
    """A whole number of the address's query; `missing` if it is not there.

    Raises:
        HTTPException: 400: it is something else.
    """
    text = request.args.get(name)
    if text is None:
        return missing
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        abort(400, f"'{name}' must be a whole number.")
    return int(text)
