"""How many examples a property test draws: enough for every day, or as many as one has time for."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

THOROUGH = os.environ.get("CDCLAKE_TESTS") == "thorough"

_SECONDS = 6 * 3600 if THOROUGH else 900

Test = TypeVar("Test", bound=Callable[..., Any])


def examples(every_day: int, thorough: int) -> Callable[[Test], Test]:
    """Settings of a property test that runs the engine, whose examples are long and may draw much."""
    count = thorough if THOROUGH else every_day
    drawing = settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)

    def with_settings(test: Test) -> Test:
        marked: Test = pytest.mark.slow(pytest.mark.timeout(_SECONDS)(drawing(test)))
        return marked

    return with_settings
