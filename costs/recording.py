"""What some hours of one table take."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Recording:
    """What some hours of one table take.

    Attributes:
        changes: Number of changes to the table.
        runs: Number of ProcessTable runs, each with a Spark run.
        s3_puts: Requests of S3's price class PUT; likewise GET.
        state_writes: Requests that write to the state table; likewise reads.
        catalog_requests: Requests to the Glue Data Catalog.
        item_bytes: Size of the table's item.
        log_bytes: What the jobs log, without Glue's own lines.
        rewritten_files: Data files written.
        table_files: Data files of the table at the end.
    """

    changes: int
    runs: int
    s3_puts: int
    s3_gets: int
    state_writes: int
    state_reads: int
    catalog_requests: int
    item_bytes: int
    log_bytes: int
    rewritten_files: int
    table_files: int

    def to_json(self) -> dict[str, int]:
        """JSON data."""
        return asdict(self)
