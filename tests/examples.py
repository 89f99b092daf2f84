"""How many examples a property test draws: enough for every day, or as many as one has time for."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

THOROUGH = os.environ.get("CDCLAKE_TESTS") == "thorough"


def examples(every_day: int, thorough: int) -> settings:
    """Settings of a property test that runs the engine, whose examples are long and may draw much."""
    count = thorough if THOROUGH else every_day
    return settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
