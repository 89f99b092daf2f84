"""How tables are compared with a source, and how fast. Pure, and quick to import."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

COUNTS, CHECKSUMS, ROWS = "counts", "checksums", "rows"
"""Ways to compare a table."""
BUCKET_ROWS = 10_000
"""Rows of a bucket: all that is read if one row of a table differs. Smaller ones cost the source more statements."""


class Pace:
    """Waits after each part of the rows, so that the source has at most so many rows a second to read.

    What was read slower than that gives no right to read faster later.

    Args:
        rows_per_second: The bound; None for none.
        clock: Seconds that pass.
        sleep: Waits for some seconds.
    """

    def __init__(
        self,
        rows_per_second: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rows_per_second, self._clock, self._sleep = rows_per_second, clock, sleep
        self._due = clock()

    @property
    def is_bounded(self) -> bool:
        """Whether there is a bound."""
        return self._rows_per_second is not None

    def rows_at_once(self, rows: int) -> int:
        """How many of these rows may be read before the next pause: those of a second, so that no server gives up."""
        return rows if self._rows_per_second is None else min(rows, self._rows_per_second)

    def spend(self, rows: int) -> None:
        """Wait until so many more rows may have been read."""
        if self._rows_per_second is None:
            return
        now = self._clock()
        self._due += rows / self._rows_per_second
        if self._due > now:
            self._sleep(self._due - now)
        else:
            self._due = now


@dataclass(frozen=True)
class Effort:
    """How tables are compared, and how fast.

    Attributes:
        by: `CHECKSUMS` where the source computes them, and rows elsewhere; or always `ROWS` or `COUNTS`. To compare
            rows, the temporary folder must have room for those that are read of both tables, compressed.
        bucket_rows: Rows that one checksum covers.
        pace: How fast the source is read.
    """

    by: str = CHECKSUMS
    bucket_rows: int = BUCKET_ROWS
    pace: Pace = field(default_factory=Pace)
