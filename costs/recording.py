"""What some hours of one table take, and a change in the function that loads small changes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MEMORY_MB = 1769
"""The memory of the function, see `infra/cdclake_infra/small_changes.py`."""
REQUEST_SECONDS = 0.03
"""How long each of its requests waits."""


@dataclass(frozen=True)
class Recording:
    """What some hours of one table take.

    Attributes:
        hours: Their number.
        changes: Number of changes to the table.
        runs: Number of ProcessTable runs, each with a Spark run, or of calls of the function that loads small changes.
        s3_puts: Requests of S3's price class PUT, without listings that all tables share; likewise GET.
        state_writes: Requests that write to the state table; likewise reads.
        catalog_requests: Requests to the Glue Data Catalog.
        metric_requests: Requests that send metrics.
        item_bytes: Size of the table's item.
        log_bytes: What the jobs log, without Glue's own lines.
    """

    hours: int
    changes: int
    runs: int
    s3_puts: int
    s3_gets: int
    state_writes: int
    state_reads: int
    catalog_requests: int
    metric_requests: int
    item_bytes: int
    log_bytes: int

    def plus(self, other: Recording, times: float) -> Recording:
        """These hours, in which so many times as much happens beside as in others; the item keeps its size."""
        kept = ("hours", "item_bytes")
        counts = {name: n + round(getattr(other, name) * times) for name, n in asdict(self).items() if name not in kept}
        return replace(self, **counts)


@dataclass(frozen=True)
class FunctionWork:
    """What a change takes the function that loads small changes.

    Attributes:
        in_sequence: The largest number of requests of which each waits for the one before it.
        until_visible: Likewise, until readers see the change.
        cpu_seconds: CPU time.
        written_mb: What it writes, in MB. It reads about as much.
    """

    in_sequence: float
    until_visible: float
    cpu_seconds: float
    written_mb: float

    @classmethod
    def median(cls, works: Sequence[FunctionWork]) -> FunctionWork:
        """Of several changes, of each figure."""
        return cls(**{field.name: round(median(getattr(one, field.name) for one in works), 2) for field in fields(cls)})
