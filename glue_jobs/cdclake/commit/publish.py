"""Makes a committed change visible. Every step may be repeated, so a run that died is finished by the next one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Callable

from cdclake.model.layout import CHANGE_DIGITS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cdclake.commit.log import ChangeLog
    from cdclake.model.snapshot import ChangeRecord

CONCURRENT_CALLS = 16


def publish(log: ChangeLog, record: ChangeRecord) -> None:
    """Copy a committed change's staged files to their names, then retire the files they replace.

    New files come first: a reader in between sees rows twice rather than not at all.
    """
    store, layout = log.store, log.layout
    _in_parallel(lambda file: store.copy(file.staged_key, layout.data_key(file.path)), record.added)
    _in_parallel(
        lambda path: store.retire(layout.data_key(path), layout.retired_key(record.change, path)), record.retired
    )
    log.mark_published(record.change)
    remove_staging(log, record.change)


def roll_forward(log: ChangeLog) -> int:
    """Finish the newest change if a run died while publishing it; returns its number, 0 if there is none.

    What dead runs left staged for it or an earlier change is removed.
    """
    change = log.head()
    if change and not log.is_published(change):
        publish(log, log.record(change))
    elif change:
        remove_staging(log, change)
    return change


def remove_staging(log: ChangeLog, through: int) -> None:
    """Delete what was staged for changes up to `through`, by the run that won or by any that lost or died."""
    prefix = log.layout.control_prefix + "staging/"
    keys = [entry.key for entry in log.store.list(prefix)]
    dead = [key for key in keys if int(key[len(prefix) : len(prefix) + CHANGE_DIGITS]) <= through]
    if dead:
        log.store.delete(dead)


def _in_parallel(call: Callable[..., None], items: Iterable[object]) -> None:
    with ThreadPoolExecutor(CONCURRENT_CALLS) as pool:
        for _ in pool.map(call, items):
            pass
