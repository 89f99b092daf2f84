"""Decides when change files are written and which rows each contains. Pure: times are arguments.

Files are written between transactions: `CdcMaxBatchInterval` seconds after the first pending change, or once
`CdcMinFileSize` kilobytes of changes are pending. A table's rows are in commit order. All rows of a file have the same
columns, because a Parquet file has one schema. Only a large transaction is split into several files of one table.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from cdclake_cli.dms.settings import KILOBYTE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from cdclake.model.table.name import TableName
    from cdclake_cli.dms.settings import DmsSettings
    from cdclake_cli.sources.positions import Position
    from cdclake_devkit.replicate.progress import ReplicationProgress
    from cdclake_devkit.replicate.transactions import ChangeRow, Transaction


class CommittedRow(NamedTuple):
    """A row of a change file.

    Attributes:
        row: The row as logged.
        committed_utc: Commit time by the source's clock.
        sequence: Value of DMS's header `AR_H_CHANGE_SEQ`.
    """

    row: ChangeRow
    committed_utc: datetime
    sequence: str


class Batch:
    """Transactions that are pending, not written yet.

    Args:
        settings: Settings of the DMS task, which determine when files are due.
        progress: What was written before.

    Attributes:
        rows: The pending rows, in commit order.
        progress: What is written once `rows` are.
    """

    def __init__(self, settings: DmsSettings, progress: ReplicationProgress) -> None:
        self._interval = timedelta(seconds=settings.cdc_max_batch_interval)
        self._max_bytes = settings.cdc_min_file_size * KILOBYTE
        self._size_bytes = 0
        self._since_utc: datetime | None = None
        self.rows: list[CommittedRow] = []
        self.progress = progress

    def add(self, transaction: Transaction, now_utc: datetime) -> None:
        """Add a transaction."""
        self._since_utc = self._since_utc or now_utc
        # A source's clock may go back, and statements that began earlier may be committed later.
        latest = max(self.progress.last_commit_utc, transaction.committed_utc)
        number = self.progress.sequence
        for row in transaction.rows:
            number += 1
            self.rows.append(CommittedRow(row, transaction.committed_utc, change_sequence(latest, number)))
            self._size_bytes += row.size_bytes
        self.progress = replace(self.progress, position=transaction.end, sequence=number, last_commit_utc=latest)

    def skip_to(self, end: Position, now_utc: datetime) -> None:
        """Record that there is nothing to write before this position."""
        if end != self.progress.position:
            self._since_utc = self._since_utc or now_utc
            self.progress = replace(self.progress, position=end)

    def is_due(self, now_utc: datetime) -> bool:
        """Whether files should be written now."""
        if self._since_utc is None:
            return False
        return self._size_bytes >= self._max_bytes or now_utc - self._since_utc >= self._interval


def change_sequence(committed_utc: datetime, number: int) -> str:
    """`AR_H_CHANGE_SEQ`: the commit time in hundredths of a second as 16 digits, and a counter of 19 digits.

    The format comes from the DMS user guide ("Transformation rules and actions", headers). It increases with every row.
    """
    return f"{committed_utc:%Y%m%d%H%M%S}{committed_utc.microsecond // 10_000:02d}{number:019d}"


def split_by_file(rows: Iterable[CommittedRow], max_bytes: int) -> list[tuple[TableName, list[CommittedRow]]]:
    """The rows of each file, in the order in which the files must be written.

    Args:
        rows: Rows in commit order.
        max_bytes: Size at which a table's file is closed; the row that reaches it is still part of the file.
    """
    files: list[tuple[TableName, list[CommittedRow]]] = []
    open_files: dict[TableName, tuple[list[CommittedRow], int]] = {}
    for committed in rows:
        table = committed.row.table
        file, size_bytes = open_files.get(table, ([], 0))
        if not file or size_bytes >= max_bytes or _shape(file[-1]) != _shape(committed):
            file, size_bytes = [], 0
            files.append((table, file))
        file.append(committed)
        open_files[table] = file, size_bytes + committed.row.size_bytes
    return files


def _shape(committed: CommittedRow) -> tuple[object, object]:
    """What determines the columns of a file: the table's columns, and its key for before images."""
    return committed.row.columns, committed.row.key
