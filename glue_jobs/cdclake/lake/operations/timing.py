"""Measures the phases of a change."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake.model.change.record import Phase


@contextmanager
def timed(seconds: dict[str, float], phase: Phase) -> Iterator[None]:
    """Add the duration of a phase to the durations of a change."""
    start = time.perf_counter()
    yield
    seconds[phase] = round(time.perf_counter() - start, 3)
