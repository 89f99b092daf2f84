"""Where a change was computed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """Where a change was computed.

    Attributes:
        host: The Spark job, or the function, without the deployment's prefix; empty: a process of an operator.
        memory_mb: Memory of the function; 0 of others.
        spark_reason: Why a Spark job did it, although there is a function for small changes; empty if there is none.
    """

    host: str = ""
    memory_mb: int = 0
    spark_reason: str = ""


NO_PLACE = Place()
"""Of a process that an operator started."""
