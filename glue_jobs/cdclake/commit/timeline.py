"""Which change made the table as it is, which one it was made from, and which one a rollback left behind.

Changes are numbered 1, 2, 3... without end, and a rollback is one of them. But seen by what they made they form a tree:

    change      1 ── 2 ── 3    4 (rollback: shows 2)    5 (made from 2)    6 (rollback: shows 2)    7 (reapply: shows 5)

The last rollback can be taken back step by step until something new is made from the table as it stands.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake.commit.log import ChangeLog
    from cdclake.model.change import ChangeRecord


def shows(log: ChangeLog, change: int) -> int:
    """Number of the change that made the table as it is after a change; 0 if there is nothing."""
    return log.record(change).content_change if change else 0


def made_from(log: ChangeLog, change: int) -> int:
    """Number of the change that made the table which a change started from."""
    return shows(log, change - 1)


def line(log: ChangeLog, head: int) -> Iterator[ChangeRecord]:
    """The changes that made the table as it is after a change, each from what the next one left; the newest first.

    Args:
        log: The table's change log.
        head: Number of the change.
    """
    change = shows(log, head)
    while change:
        yield log.record(change)
        change = made_from(log, change)


def next_to_reapply(log: ChangeLog, head: int) -> int | None:
    """Number of the change to apply again after rollbacks; None if nothing that was undone follows from the table.

    Args:
        log: The table's change log.
        head: Number of its newest change.
    """
    shown = shows(log, head)
    newest_made = next((record.change for record in log.newest_first(head) if record.as_of is None), 0)
    change = newest_made
    while change > shown:
        before = made_from(log, change)
        if before == shown:
            return change
        change = before
    return None


def newest_before(log: ChangeLog, moment: datetime, head: int) -> int:
    """Number of the newest change that was committed at a moment or before it; 0 if none was.

    Changes are committed in the order of their numbers, so this takes few reads.

    Args:
        log: The table's change log.
        moment: A time in UTC.
        head: Number of the newest change.
    """
    low, high = 0, head
    while low < high:
        middle = (low + high + 1) // 2
        if datetime.fromisoformat(log.record(middle).created_utc) <= moment:
            low = middle
        else:
            high = middle - 1
    return low
