"""What became of a lake table, change by change, in the figures that operators ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake.commit.log import ChangeLog


@dataclass(frozen=True)
class ChangeSummary:
    """One change in figures.

    Attributes:
        change: Its number.
        kind: `full load` or `incremental`.
        raw_files: Raw files read.
        rows_read: Rows of them.
        rows: Rows of the table after the change.
        superseded: Rows read that an equal or later row of the same key made void.
        quarantined: Bad rows put aside.
        too_late_files: Raw files left out because they came after the late window.
        files_rewritten: Data files replaced.
        files_before: Data files of the table before the change.
        files_added: Data files written.
        seconds: Time the change took, Spark's start left out.
    """

    change: int
    kind: str
    raw_files: int
    rows_read: int
    rows: int
    inserted: int
    updated: int
    deleted: int
    superseded: int
    quarantined: int
    too_late_files: int
    files_rewritten: int
    files_before: int
    files_added: int
    seconds: float


def summaries(log: ChangeLog, after: int, through: int | None = None) -> Iterator[ChangeSummary]:
    """The changes of a table in order.

    Args:
        log: The table's change log.
        after: Number of the last change to leave out; 0 for none.
        through: Number of the last change to take; the newest if not given.

    Raises:
        IntegrityError: A change or its snapshot is missing.
    """
    last = log.head() if through is None else through
    for number in range(after + 1, last + 1):
        record = log.record(number)
        books = record.books
        yield ChangeSummary(
            change=number,
            kind=record.kind.value,
            raw_files=len(record.raw_files),
            rows_read=books.read,
            rows=books.rows_after,
            inserted=books.inserted,
            updated=books.updated,
            deleted=books.deleted,
            superseded=books.superseded,
            quarantined=books.quarantined,
            too_late_files=len(record.too_late),
            files_rewritten=len(record.retired),
            files_before=len(log.snapshot(number - 1).files),
            files_added=len(record.added),
            seconds=round(sum(record.seconds.values()), 3),
        )
