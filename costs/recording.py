"""What some hours of one table take."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace


@dataclass(frozen=True)
class Recording:
    """What some hours of one table take.

    Attributes:
        hours: Their number.
        changes: Number of changes to the table.
        runs: Number of ProcessTable runs, each with a Spark run.
        s3_puts: Requests of S3's price class PUT, without listings that all tables share; likewise GET.
        state_writes: Requests that write to the state table; likewise reads.
        catalog_requests: Requests to the Glue Data Catalog.
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
    item_bytes: int
    log_bytes: int

    def times(self, factor: float) -> Recording:
        """So many times what happened in these hours; the item keeps its size."""
        kept = ("hours", "item_bytes")
        counts = {name: round(count * factor) for name, count in asdict(self).items() if name not in kept}
        return replace(self, **counts)
