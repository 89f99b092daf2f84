"""What became of a lake table, change by change, in the figures that operators ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cdclake.commit.log import ChangeLog
    from cdclake.model.change import ChangeRecord


@dataclass(frozen=True)
class ChangeSummary:
    """One change in figures.

    Attributes:
        change: Its number.
        kind: What made it, as `ChangeKind` has it.
        raw_files: Raw files read.
        rows_read: Rows of them.
        rows: Rows of the table after the change.
        superseded: Rows read that an equal or later row of the same key made void.
        quarantined: Bad rows put aside.
        too_late_files: Raw files left out because they came after the late window.
        files_rewritten: Data files replaced.
        files_before: Data files of the table and its history before the change.
        files_added: Data files written.
        bytes_read: Size of the raw files read, and of the data files replaced.
        bytes_added: Size of the data files written.
        seconds: Time the change took, Spark's start left out.
        phase_seconds: That of each phase.
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
    bytes_read: int
    bytes_added: int
    seconds: float
    phase_seconds: Mapping[str, float]


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
        books, phases = record.books, log.seconds(record)
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
            files_before=len(log.snapshot(number - 1).all_files),
            files_added=len(record.added),
            bytes_read=record.bytes_read,
            bytes_added=record.bytes_added,
            seconds=round(sum(phases.values()), 3),
            phase_seconds=phases,
        )


@dataclass(frozen=True)
class LogEntry:
    """One change in a list of a table's changes.

    Attributes:
        shown: Whether the table is now what this change made.
        undone: Whether a rollback undid it and nothing has applied it again.
        retained: Whether one can go back to it.
    """

    record: ChangeRecord
    shown: bool
    undone: bool
    retained: bool


@dataclass(frozen=True)
class LogReport:
    """Some changes of a table that follow each other.

    Attributes:
        head: Number of the newest change; 0 if there is none.
        shown: Number of the change that made the table as it is now; 0 if it is as before any.
        first_retained: Number of the oldest change that one can go back to.
        entries: The changes, the newest last.
    """

    head: int
    shown: int
    first_retained: int
    entries: tuple[LogEntry, ...]


def newest_changes(log: ChangeLog, count: int, through: int | None = None) -> LogReport:
    """List the newest changes of a table. Reads change records only, so that it works however old they are.

    Args:
        log: The table's change log.
        count: How many at most.
        through: Number of the last change to list; the newest if not given. All records from there to the newest are
            read as well, as they tell what became of those listed.

    Raises:
        IntegrityError: A change record is missing.
    """
    head, first_retained = log.head(), log.first_retained()
    last = head if through is None else min(through, head)
    records = {record.change: record for record in log.records(max(1, last - count + 1), head)}
    shown = records[head].content_change if head else 0
    line = _line_to(shown, records)
    entries = tuple(
        LogEntry(
            record,
            shown=number == shown,
            undone=record.as_of is None and number not in line,
            retained=number >= first_retained,
        )
        for number, record in records.items()
        if number <= last
    )
    return LogReport(head, shown, first_retained, entries)


def _line_to(change: int, records: Mapping[int, ChangeRecord]) -> set[int]:
    """Numbers of the changes that made the table what it is after a change, as far back as there are records."""
    line = set()
    while change in records:
        line.add(change)
        before = records.get(change - 1)
        change = before.content_change if before else 0
    return line
