"""The number of examples of property tests: a few at each save, thousands before a release."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

from tests.tiers import TIER, Tier

THOROUGH_SECONDS = 6 * 3600
"""What a test may take in `make thorough`, unless it says less."""
_SECONDS = THOROUGH_SECONDS if TIER is Tier.THOROUGH else 900

Test = TypeVar("Test", bound=Callable[..., Any])


def examples(*, thorough: int, ci: int, test: int, quick: int = 0) -> Callable[[Test], Test]:
    """Settings of a property test that runs the engine, whose examples are large.

    Args:
        thorough: Number of examples in `make thorough`, which draws new ones each time.
        ci: Number in `make test-all`.
        test: Number in `make test`.
        quick: Number in `make quick`; 0: it does not run there.
    """
    budgets = {Tier.QUICK: quick, Tier.TEST: test, Tier.ALL: ci, Tier.THOROUGH: thorough}
    configured = settings(
        max_examples=budgets[TIER] or test,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
        derandomize=TIER is not Tier.THOROUGH,
    )

    def with_settings(test: Test) -> Test:
        with_timeout: Test = pytest.mark.timeout(_SECONDS)(configured(test))
        return with_timeout if quick else pytest.mark.slow(with_timeout)

    return with_settings
