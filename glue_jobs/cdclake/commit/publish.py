"""Makes a committed change visible. Every step may be repeated, so a run that died is finished by the next one."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Callable, TypeVar

from cdclake.model.layout import CHANGE_DIGITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cdclake.commit.log import ChangeLog
    from cdclake.model.change import ChangeRecord

CONCURRENT_CALLS = 16
KeepAlive = Callable[[], None]
"""Called every now and then by what takes long: it renews the lease, and raises if that is lost."""
Item = TypeVar("Item")


def no_lease() -> None:
    """For what has no lease of its own to renew: the Spark jobs, whose ProcessTable does it."""


def publish(
    log: ChangeLog,
    record: ChangeRecord,
    keep_alive: KeepAlive = no_lease,
    seconds: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Bring a committed change's files into sight, then retire those they replace.

    What is new comes first: a reader in between sees rows twice rather than not at all.

    Args:
        log: The table's change log.
        record: The change.
        keep_alive: Renews the lease.
        seconds: Duration of what the change record does not tell, to be noted with that of publishing.

    Returns:
        What was noted; nothing if another run has finished the change.
    """
    started = time.perf_counter()
    store, layout = log.store, log.layout
    if _is_past(log, record.change):
        return {}
    in_parallel(lambda file: store.copy(file.staged_key, layout.data_key(file.path)), record.added, keep_alive)
    in_parallel(
        lambda path: store.restore(layout.data_key(path), layout.retired_key(path)), record.restored, keep_alive
    )
    if _is_past(log, record.change):
        return {}
    in_parallel(lambda path: store.retire(layout.data_key(path), layout.retired_key(path)), record.retired, keep_alive)
    noted = {**(seconds or {}), "publish": round(time.perf_counter() - started, 3)}
    log.mark_published(record.change, noted)
    remove_staging(log, record.change)
    return noted


def roll_forward(log: ChangeLog, keep_alive: KeepAlive = no_lease) -> int:
    """Finish the newest change if a run died while publishing it; returns its number, 0 if there is none.

    What dead runs left staged for it or an earlier change is removed.
    """
    change = log.head()
    if change and not log.is_published(change):
        publish(log, log.record(change), keep_alive)
    elif change:
        remove_staging(log, change)
    return change


def remove_staging(log: ChangeLog, through: int) -> None:
    """Delete what was staged for changes up to `through`, by the run that won or by any that lost or died."""
    prefix = log.layout.staging_folder
    keys = [entry.key for entry in log.store.list(prefix)]
    dead = [key for key in keys if int(key[len(prefix) : len(prefix) + CHANGE_DIGITS]) <= through]
    if dead:
        log.store.delete(dead)


def in_parallel(call: Callable[[Item], object], items: Iterable[Item], keep_alive: KeepAlive) -> None:
    """Call something for each item, several at a time. The first error ends it; what has not begun by then is left."""
    with ThreadPoolExecutor(CONCURRENT_CALLS) as pool:
        for _ in pool.map(call, items):
            keep_alive()


def _is_past(log: ChangeLog, change: int) -> bool:
    """Whether another run has finished a change for this one, and gone on: its files may be retired again by now."""
    return log.is_committed(change + 1)
