"""Completes a change that a run committed but did not publish."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cdclake.commit.publish import KeepAlive, no_lease, publish, remove_staging
from cdclake.concurrency import executor

if TYPE_CHECKING:
    from cdclake.commit.log import ChangeLog


def roll_forward(log: ChangeLog, keep_alive: KeepAlive = no_lease) -> int:
    """Publish the newest change if a run crashed before it was published; returns its number, 0 if there is none.

    Also deletes what crashed runs staged for this change or earlier ones.
    """
    change = complete_newest(log, keep_alive)
    remove_staging(log, change)
    return change


def complete_newest(log: ChangeLog, keep_alive: KeepAlive = no_lease, known: int = 0) -> int:
    """As `roll_forward`, but leaves what crashed runs staged. No reader sees it, and the next publisher deletes it.

    Args:
        known: Number of a change, probably the newest, so that the log can be read at once; 0 if none is known.
    """
    change, newest = known, _look_at(log, known)
    if not newest.is_last:
        change = log.head()
        newest = _look_at(log, change)
    if change and not newest.is_published:
        publish(log, log.record(change), keep_alive)
    return change


class _Seen(NamedTuple):
    """What the log says of a change: whether it is the last one, and published."""

    is_last: bool
    is_published: bool


def _look_at(log: ChangeLog, change: int) -> _Seen:
    """Look at a change and the place after it. Its record, which is needed most often, is read at the same time."""
    if not change:
        return _Seen(is_last=False, is_published=False)
    with executor(log.store.calls_at_once) as pool:
        record, has_next = pool.submit(log.find_record, change), pool.submit(log.is_committed, change + 1)
        is_published = log.is_published(change)
        return _Seen(record.result() is not None and not has_next.result(), is_published)
