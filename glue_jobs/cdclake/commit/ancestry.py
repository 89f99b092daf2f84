"""Finds the changes that made a table's content, in a change log with rollbacks.

Changes are numbered 1, 2, 3, ... and a rollback is a change too. By content, changes form a tree:

    change     1 ── 2 ── 3    4 (rollback to 2)    5 (made from 2)    6 (rollback to 2)    7 (reapply of 5)
    content    1    2    3    2                    5                  2                    5

The content change of a change is the one that made the table's content: changes 4 and 6 have the content of change 2.
Rollbacks can be reapplied step by step until another change makes new content.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.concurrency import CALLS_AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake.commit.log import ChangeLog
    from cdclake.model.change.record import ChangeRecord


def content_change(log: ChangeLog, change: int) -> int:
    """Number of the change that made the table's content after `change`; 0 if it is as before any change."""
    return log.record(change).content_change if change else 0


def parent(log: ChangeLog, change: int) -> int:
    """Number of the content change that `change` started from; 0 if there was none."""
    return content_change(log, change - 1)


def ancestry(log: ChangeLog, head: int, oldest: int = 1) -> Iterator[ChangeRecord]:
    """The changes that made the table's content after change `head`, from the newest to its parent, and so on.

    Most callers need few of them, and some need hundreds, so it reads one record, then two at a time, then four, and so
    on.

    Args:
        oldest: Number of a change; the caller stops there or before, so no older record is read ahead.

    Raises:
        IntegrityError: A change record is missing.
    """
    change, at_once = head, 1
    known: dict[int, ChangeRecord] = {}
    while change:
        if change not in known:
            first = min(max(change - at_once + 1, oldest), change)
            known = {record.change: record for record in log.records(first, change)}
            at_once = min(2 * at_once, CALLS_AT_ONCE)
        record = known[change]
        if record.as_of is None:
            yield record
            change -= 1
        else:
            change = record.as_of


def undone_changes(log: ChangeLog, head: int) -> list[int]:
    """Numbers of the undone changes to reapply, in order; empty if none follows from the table's content.

    Args:
        head: Number of its newest change.
    """
    current = content_change(log, head)
    change = next((record.change for record in log.newest_first(head) if record.as_of is None), 0)
    undone = []
    while change > current:
        undone.append(change)
        change = parent(log, change)
    return undone[::-1] if change == current else []
