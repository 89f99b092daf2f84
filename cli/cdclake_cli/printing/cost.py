"""Where a change is computed and what that costs, in words.

List prices in us-east-1. For Spark, they tell the least that Glue bills: a run takes two workers and more, for a minute
and more. Its starts, pauses and other changes come on top.
https://docs.aws.amazon.com/glue/latest/dg/add-job.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdclake.model.change.place import Place

LAMBDA_GB_SECOND_DOLLARS, LAMBDA_REQUEST_DOLLARS, GLUE_DPU_HOUR_DOLLARS = 0.0000133334, 0.0000002, 0.44
LEAST_DPUS, LEAST_SPARK_SECONDS = 2, 60
LEAST_SHOWN_CENTS = 0.001
_CENTS, _MB_OF_GB, _SECONDS_OF_HOUR = 100, 1024, 3600


def function_cents(memory_mb: int, seconds: float) -> float:
    """What a request costs that takes the function some seconds."""
    gigabyte_seconds = memory_mb / _MB_OF_GB * seconds
    return _CENTS * (LAMBDA_REQUEST_DOLLARS + LAMBDA_GB_SECOND_DOLLARS * gigabyte_seconds)


def least_spark_cents(seconds: float = 0) -> float:
    """The least that a Spark run costs in which a change takes some seconds."""
    dpu_hours = LEAST_DPUS * max(LEAST_SPARK_SECONDS, seconds) / _SECONDS_OF_HOUR
    return _CENTS * GLUE_DPU_HOUR_DOLLARS * dpu_hours


def cents_text(cents: float) -> str:
    """Cents with two significant digits, such as `0.012 cents`."""
    if cents < LEAST_SHOWN_CENTS:
        return f"less than {LEAST_SHOWN_CENTS} cents"
    return f"{float(f'{cents:.2g}'):.12g} cents"


def place_text(place: Place) -> str:
    """Where a change was computed, and why there; empty if an operator's process did it."""
    return f"{place.host}, because {place.spark_reason}" if place.spark_reason else place.host


def change_cents(place: Place, seconds: float) -> float:
    """The least that computing a change cost; 0 if an operator's process did it.

    Args:
        seconds: Duration of its phases.
    """
    if not place.host:
        return 0.0
    return function_cents(place.memory_mb, seconds) if place.memory_mb else least_spark_cents(seconds)


def cost_text(place: Place, seconds: float) -> str:
    """What computing a change cost; empty if an operator's process did it.

    Args:
        seconds: Duration of all its phases.
    """
    if not place.host:
        return ""
    cents = cents_text(change_cents(place, seconds))
    return f"about {cents}" if place.memory_mb else f"at least {cents}, which its run shares among its changes"
