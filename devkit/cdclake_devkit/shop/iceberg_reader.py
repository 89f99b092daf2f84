"""An independent reader of an Iceberg table: pyiceberg finds it in the Glue Data Catalog, and reads its data files."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.exceptions import NoSuchTableError

from cdclake_devkit.local.environment import DUMMY_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    import pyarrow as pa

    from cdclake_devkit.local.server import EmbeddedAws

PAUSE_SECONDS = 1.0
"""Between two counts: the reader shares the machine with the jobs."""


class Count(NamedTuple):
    """What the reader found: the change that the table showed, its rows, and how many different keys they have."""

    change: int
    rows: int
    keys: int


@dataclass(frozen=True)
class CountReport:
    """How often a reader counted, and how often it found what no change shows.

    Attributes:
        changes: Number of changes that it saw.
        wrong: Number of counts that differ from the rows of their change, or with a repeated key.
        failed: Number of reads that failed.
        error: The first error; empty if none failed.
    """

    table: str
    counts: int
    changes: int
    wrong: int
    failed: int
    error: str

    @property
    def right(self) -> bool:
        """Whether no count was wrong, none failed, and there was one."""
        return self.counts > 0 and not self.wrong and not self.failed

    def to_json(self) -> dict[str, Any]:
        """For `--output json`."""
        return asdict(self)


def compare_counts(
    table: str, counts: Sequence[Count], errors: Sequence[Exception], rows_after: Mapping[int, int]
) -> CountReport:
    """Compare counts with what they should be.

    Args:
        rows_after: Rows of the table after each change.
    """
    wrong = [one for one in counts if {one.rows, one.keys} != {rows_after.get(one.change)}]
    changes = {one.change for one in counts}
    error = str(errors[0]) if errors else ""
    return CountReport(table, len(counts), len(changes), len(wrong), len(errors), error)


class IcebergReader:
    """Reads a table of the embedded AWS, and within a `with` block counts its rows again and again.

    Args:
        table: Its name in the catalog, with the database.
        key: The column whose values are unique.
    """

    def __init__(self, aws: EmbeddedAws, table: str, key: str) -> None:
        properties: dict[str, Any] = {
            "glue.endpoint": aws.endpoint,
            "s3.endpoint": aws.endpoint,
            "client.access-key-id": DUMMY_KEY,
            "client.secret-access-key": DUMMY_KEY,
            "client.region": aws.region,
        }
        self._catalog = GlueCatalog("embedded", **properties)
        self._table, self._key = table, key
        self._counts: list[Count] = []
        self._errors: list[Exception] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._count_until_done, name="counting reader")

    def __enter__(self) -> IcebergReader:
        """Start to count. A table that does not exist yet is awaited."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop to count."""
        self._done.set()
        self._thread.join()

    def rows(self) -> pa.Table:
        """All rows now."""
        return self._catalog.load_table(self._table).scan().to_arrow()

    def report(self, rows_after: Mapping[int, int]) -> CountReport:
        """Compare all counts so far with what they should be, see `compare_counts`."""
        return compare_counts(self._table, tuple(self._counts), tuple(self._errors), rows_after)

    def _count_until_done(self) -> None:
        while not self._done.wait(PAUSE_SECONDS):
            try:
                with suppress(NoSuchTableError):
                    self._counts.append(self._count())
            except Exception as error:  # noqa: BLE001 - the report shows it
                self._errors.append(error)

    def _count(self) -> Count:
        table = self._catalog.load_table(self._table)
        snapshot = table.current_snapshot()
        found = table.scan(selected_fields=(self._key,)).to_arrow()[self._key]
        return Count(snapshot.snapshot_id if snapshot else 0, len(found), len(found.unique()))
