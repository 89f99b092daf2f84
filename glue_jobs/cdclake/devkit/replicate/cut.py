"""When change files are written, and which rows each of them holds. Pure: times are given.

Files are written between transactions: `CdcMaxBatchInterval` seconds after the first change that waits for it, or once
`CdcMinFileSize` kilobytes of changes wait. A table's rows come in the order of commits, and a file has rows with one
set of columns, as a Parquet file has one schema. Only a large transaction goes to several files of one table.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from cdclake.devkit.dms.settings import KILOBYTE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from cdclake.devkit.dms.settings import DmsSettings
    from cdclake.devkit.replicate.changes import RowChange, Transaction
    from cdclake.devkit.replicate.position import BinlogPosition, Progress
    from cdclake.model.table import TableName


class StampedRow(NamedTuple):
    """A row of a change file.

    Attributes:
        committed_utc: Time of the commit, as the source's clock had it.
        sequence: DMS's `AR_H_CHANGE_SEQ`.
    """

    change: RowChange
    committed_utc: datetime
    sequence: str


class Batch:
    """Transactions that wait to be written.

    Args:
        settings: When files are due.
        progress: What has been written before.
    """

    def __init__(self, settings: DmsSettings, progress: Progress) -> None:
        self._interval = timedelta(seconds=settings.cdc_max_batch_interval)
        self._most_bytes = settings.cdc_min_file_size * KILOBYTE
        self._size_bytes = 0
        self._since_utc: datetime | None = None
        self.rows: list[StampedRow] = []
        self.progress = progress
        """What will have been written once `rows` are."""

    def add(self, transaction: Transaction, now_utc: datetime) -> None:
        """Have one more wait."""
        self._since_utc = self._since_utc or now_utc
        # A source's clock may go back, and statements that began earlier may be committed later.
        latest = max(self.progress.last_commit_utc, transaction.committed_utc)
        number = self.progress.sequence
        for change in transaction.rows:
            number += 1
            self.rows.append(StampedRow(change, transaction.committed_utc, change_sequence(latest, number)))
            self._size_bytes += change.size_bytes
        self.progress = replace(self.progress, binlog=transaction.end, sequence=number, last_commit_utc=latest)

    def pass_over(self, end: BinlogPosition) -> None:
        """Note that there is nothing to write up to a place."""
        self.progress = replace(self.progress, binlog=end)

    def is_due(self, now_utc: datetime) -> bool:
        """Whether files should be written now."""
        if self._since_utc is None:
            return False
        return self._size_bytes >= self._most_bytes or now_utc - self._since_utc >= self._interval


def change_sequence(committed_utc: datetime, number: int) -> str:
    """`AR_H_CHANGE_SEQ`: time of the commit to hundredths of a second in 16 digits, and a counter in 19.

    The form is that of the DMS user guide ("Transformation rules and actions", headers); it grows with every row.
    """
    return f"{committed_utc:%Y%m%d%H%M%S}{committed_utc.microsecond // 10_000:02d}{number:019d}"


def cut(rows: Iterable[StampedRow], most_bytes: int) -> list[tuple[TableName, Sequence[StampedRow]]]:
    """The rows of each file, in the order in which files are to be written.

    Args:
        rows: In the order of commits.
        most_bytes: Size at which a table's file is closed; the row that reaches it is in it.
    """
    files: list[tuple[TableName, list[StampedRow]]] = []
    open_files: dict[TableName, tuple[list[StampedRow], int]] = {}
    for row in rows:
        change = row.change
        file, size_bytes = open_files.get(change.table, ([], 0))
        if not file or size_bytes >= most_bytes or _shape(file[-1]) != _shape(row):
            file, size_bytes = [], 0
            files.append((change.table, file))
        file.append(row)
        open_files[change.table] = file, size_bytes + change.size_bytes
    return list(files)


def _shape(row: StampedRow) -> tuple[object, object]:
    """What decides the columns of a file: those of the table, and of its key for before images."""
    return row.change.columns, row.change.key
