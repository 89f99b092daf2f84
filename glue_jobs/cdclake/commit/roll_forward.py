"""Completes a change that a run committed but did not publish."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    with executor(log.store.calls_at_once) as pool:  # most often there is no newer change, and its record is needed
        reading = pool.submit(log.newest_published)
        after = pool.submit(log.newest_after, known) if known else None
        if after and log.find_record(known):
            published, change = reading.result(), after.result()
        else:
            published = reading.result()
            finding = pool.submit(log.record, published) if published else None
            change = log.newest_after(published)
            if finding:
                finding.result()
    if change != published and not log.is_published(change):
        publish(log, log.record(change), keep_alive)
    return change
