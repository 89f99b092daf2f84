"""Reports on a lake table's changes: their figures, and which of them are current, undone or retained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cdclake.commit.log import ChangeLog
    from cdclake.model.change.delay import Delay
    from cdclake.model.change.record import ChangeRecord
    from cdclake.model.retained import Retained


@dataclass(frozen=True)
class ChangeSummary:
    """One change in figures.

    Attributes:
        change: Number of the change.
        kind: Its kind, a value of `ChangeKind`.
        raw_files: Number of raw files read.
        rows_read: Rows in these files.
        rows: Rows of the table after the change.
        superseded: Rows read that have an equal or later row of the same key.
        quarantined: Bad rows quarantined.
        files_rewritten: Data files replaced.
        files_before: Data files of the table and its history before the change.
        files_added: Data files written.
        bytes_read: Size of the raw files read and of the data files replaced.
        bytes_added: Size of the data files written.
        seconds: Duration of the change, without Spark's start.
        phase_seconds: Duration of each phase.
        drift: Columns that changed at the source, as texts.
        missing_columns: Columns that some of the change files with updates lacked.
        suppressed: Rows left out because their keys were erased after them.
        unknown_keys: See `ChangeRecord.unknown_keys`.
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
    files_rewritten: int
    files_before: int
    files_added: int
    bytes_read: int
    bytes_added: int
    seconds: float
    phase_seconds: Mapping[str, float]
    drift: tuple[str, ...] = ()
    missing_columns: tuple[str, ...] = ()
    suppressed: int = 0
    unknown_keys: int = 0


def change_summaries(log: ChangeLog, after: int, through: int | None = None) -> Iterator[ChangeSummary]:
    """Summarize the changes of a table, in order.

    Args:
        after: Start after this change; 0 starts with the first.
        through: Number of the last change; None: the newest.

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
            files_rewritten=len(record.retired),
            files_before=len(log.snapshot(number - 1).all_files),
            files_added=len(record.added),
            bytes_read=record.bytes_read,
            bytes_added=record.bytes_added,
            seconds=round(sum(phases.values()), 3),
            phase_seconds=phases,
            drift=tuple(map(str, record.drift)),
            missing_columns=record.missing_columns,
            suppressed=books.suppressed,
            unknown_keys=record.unknown_keys,
        )


@dataclass(frozen=True)
class LogEntry:
    """One change in a list of a table's changes.

    Attributes:
        current: Whether the table now has the content that this change made.
        undone: Whether a rollback undid it and it was not reapplied since.
        retained: Whether a rollback can reach it.
        delay: How long its change files waited; None if it applied no new ones, or that is unknown.
    """

    record: ChangeRecord
    current: bool
    undone: bool
    retained: bool
    delay: Delay | None


@dataclass(frozen=True)
class LogReport:
    """Consecutive changes of a table.

    Attributes:
        head: Number of the newest change; 0 if there is none.
        content_change: Number of the change that made the table's current content; 0 if it is as before any change.
        retained: The changes that a rollback can reach.
        entries: The changes, newest last.
    """

    head: int
    content_change: int
    retained: Retained
    entries: tuple[LogEntry, ...]


def newest_changes(log: ChangeLog, count: int, through: int | None = None) -> LogReport:
    """List the newest changes of a table. Reads only change records and marks, which are kept forever.

    Args:
        count: Maximum number of changes.
        through: Number of the last change to list; None: the newest. All later records are read too, because a later
            rollback may have undone a listed change.

    Raises:
        IntegrityError: A change record is missing.
    """
    head, retained = log.head(), log.retained()
    last = head if through is None else min(through, head)
    records = {record.change: record for record in log.records(max(1, last - count + 1), head)}
    current = records[head].content_change if head else 0
    ancestors = _ancestors(current, records)
    listed = {number: record for number, record in records.items() if number <= last}
    delays = log.delays(list(listed.values()))
    entries = tuple(
        LogEntry(
            record,
            current=number == current,
            undone=record.as_of is None and number not in ancestors,
            retained=number in retained,
            delay=delays.get(number),
        )
        for number, record in listed.items()
    )
    return LogReport(head, current, retained, entries)


def _ancestors(change: int, records: Mapping[int, ChangeRecord]) -> set[int]:
    """Numbers of a change and its ancestors, as far back as the records go."""
    ancestors = set()
    while change in records:
        ancestors.add(change)
        before = records.get(change - 1)
        change = before.content_change if before else 0
    return ancestors
