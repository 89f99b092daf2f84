"""What a comparison found, as a JSON document for other programs, and as metrics. Writes the document."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from cdclake.adapters.stores import open_store
from cdclake.errors import ConfigurationError
from cdclake.model.metrics import Measure, Metric
from cdclake.model.times import iso_utc
from cdclake_cli.named_files import check_writable, write_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from cdclake.errors import CdclakeError
    from cdclake_cli.sources.verify import TableVerification

_S3 = "s3://"


@dataclass(frozen=True)
class ReportPlace:
    """Where a report is written.

    Attributes:
        text: A file, or `s3://bucket/key`.
    """

    text: str

    def check(self) -> None:
        """Check that a report can be written there, before the work begins.

        Raises:
            ConfigurationError: The folder of a file does not exist, or the object has no key.
        """
        if self.text.startswith(_S3):
            if not all(self._bucket_and_key):
                message = f"'{self.text}' names no object"
                raise ConfigurationError(message, remedy="Write --report s3://bucket/folder/report.json")
        else:
            check_writable(Path(self.text), force=True)

    def write(self, report: Mapping[str, Any]) -> None:
        """Write a report, and replace the one before."""
        content = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
        if self.text.startswith(_S3):
            bucket, key = self._bucket_and_key
            open_store(bucket).put(key, content.encode())
        else:
            write_text(Path(self.text), content, force=True)

    @property
    def _bucket_and_key(self) -> tuple[str, str]:
        bucket, _, key = self.text.removeprefix(_S3).partition("/")
        return bucket, key


def report_of(
    results: Sequence[TableVerification],
    errors: Sequence[tuple[str, CdclakeError]],
    source: str,
    begun_utc: datetime,
    ended_utc: datetime,
) -> dict[str, Any]:
    """The report of a comparison.

    Args:
        errors: The name and the error of each table that could not be compared; an error of all has no name.
        source: URL of the source, without a password; empty if row counts were expected.
    """
    return {
        "source": source,
        "begun_utc": iso_utc(begun_utc),
        "ended_utc": iso_utc(ended_utc),
        "equal": not errors and all(one.equal for one in results),
        "tables_compared": len(results),
        "tables_different": sum(not one.equal for one in results),
        "tables": [{**asdict(one), "equal": one.equal} for one in results],
        "errors": [
            {"table": name, "error": error.code, "message": error.message, "remedy": error.remedy}
            for name, error in errors
        ],
    }


class Compared(Protocol):
    """What a comparison found of one table."""

    @property
    def table(self) -> str:
        """Name of the table."""

    @property
    def differing_rows(self) -> int:
        """Number of rows that differ."""

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""


def metrics_of(results: Sequence[Compared]) -> Iterator[Metric]:
    """The metrics of a comparison; none of a table that could not be compared."""
    for one in results:
        yield Metric(Measure.DIFFERING_ROWS, one.differing_rows, one.table)
        yield Metric(Measure.DIFFERING_TABLES, int(not one.equal), one.table)
