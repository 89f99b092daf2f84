"""The number of examples of property tests: a few by default, many for thorough runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

THOROUGH = os.environ.get("CDCLAKE_TESTS") == "thorough"

_SECONDS = 6 * 3600 if THOROUGH else 900

Test = TypeVar("Test", bound=Callable[..., Any])


def examples(default: int, thorough: int, *, repeats: bool = False) -> Callable[[Test], Test]:
    """Settings of a property test that runs the engine, whose examples are large.

    Args:
        repeats: Whether a run with few examples draws the same ones each time.
    """
    count = thorough if THOROUGH else default
    configured = settings(
        max_examples=count,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
        derandomize=repeats and not THOROUGH,
    )

    def with_settings(test: Test) -> Test:
        with_timeout: Test = pytest.mark.slow(pytest.mark.timeout(_SECONDS)(configured(test)))
        return with_timeout

    return with_settings
