"""Publishes a committed change. Every step is repeatable, so the next run finishes what a crashed run began."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Callable, TypeVar

from cdclake.commit.iceberg import publish_iceberg
from cdclake.model.layout import CHANGE_DIGITS, is_in_iceberg

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cdclake.commit.log import ChangeLog
    from cdclake.model.change import ChangeRecord, StagedFile
    from cdclake.model.snapshot import Snapshot

CONCURRENT_CALLS = 16
KeepAlive = Callable[[], None]
"""Long operations call it regularly. It renews the lease, and raises `LeaseLostError` if the lease is lost."""
Item = TypeVar("Item")
Result = TypeVar("Result")


def no_lease() -> None:
    """The `KeepAlive` of callers without a lease, such as the Spark jobs, whose ProcessTable job renews it."""


def publish(
    log: ChangeLog,
    record: ChangeRecord,
    keep_alive: KeepAlive = no_lease,
    seconds: Mapping[str, float] | None = None,
    snapshot: Snapshot | None = None,
) -> dict[str, float]:
    """Make a committed change's files live, then retire the files they replace.

    New files come first: a reader in between sees rows twice rather than not at all.

    Args:
        keep_alive: Renews the lease.
        seconds: Durations of phases that the change record lacks, to be stored with the duration of publishing.
        snapshot: The table after the change, if the caller has it; otherwise it is read if it is needed.

    Returns:
        The stored durations; empty if another run finished the change.
    """
    started = time.perf_counter()
    store, layout = log.store, log.layout
    if log.is_committed(record.change + 1):  # another run finished this change, and may have retired its files again
        return {}
    copied = [file for file in record.added if file.staged_key != layout.data_key(file.path)]
    restored = [path for path in record.restored if _is_in_folder(path)]
    retired = [path for path in record.retired if _is_in_folder(path)]
    sizes = {file.path: file.bytes for file in snapshot.all_files} if snapshot and copied else {}
    calls: list[Callable[[], Callable[[], None] | None]] = [
        *(partial(_publish_file, log, file, sizes.get(file.path)) for file in copied),
        *(partial(store.restore, layout.data_key(path), layout.retired_key(path)) for path in restored),
        *(partial(store.begin_retiring, layout.data_key(path), layout.retired_key(path)) for path in retired),
    ]
    prepared = in_parallel(lambda call: call(), calls, keep_alive)
    if (copied or restored) and log.is_committed(record.change + 1):
        return {}
    publish_iceberg(log, record, snapshot)
    in_parallel(lambda retire: retire(), filter(None, prepared), keep_alive)
    later_seconds = {**(seconds or {}), "publish": round(time.perf_counter() - started, 3)}
    log.mark_published(record.change, later_seconds)
    with ThreadPoolExecutor(1) as pool:  # both may fail: the next run repeats them
        hint = pool.submit(log.mark_newest_published, record.change)
        remove_staging(log, record.change)
        hint.result()
    return later_seconds


def _publish_file(log: ChangeLog, file: StagedFile, size_bytes: int | None) -> None:
    """Copy a new data file to its place.

    When readers change, files of the folder become files of the Iceberg table, or the other way round. Such a source is
    retired afterwards, so if this is repeated, it may be retired already.
    """
    layout, target = log.layout, log.layout.data_key(file.path)
    if file.staged_key.startswith(layout.staging_folder):
        log.store.copy(file.staged_key, target, size_bytes)
    else:
        log.store.copy_retained(file.staged_key, layout.retired_key(layout.data_path_of(file.staged_key)), target)


def _is_in_folder(path: str) -> bool:
    """Whether readers see a data file by listing its folder. Files of an Iceberg table stay until a clean-up."""
    return not is_in_iceberg(path)


def remove_staging(log: ChangeLog, through: int) -> None:
    """Delete for good what any run staged for changes up to `through`, whether it committed, lost or crashed."""
    if not through:
        return
    prefix = log.layout.staging_folder
    log.store.remove(prefix, lambda key: int(key[len(prefix) : len(prefix) + CHANGE_DIGITS]) > through)


def in_parallel(call: Callable[[Item], Result], items: Iterable[Item], keep_alive: KeepAlive) -> list[Result]:
    """Call a function for each item, several at a time, and return the results. Stops at the first error."""
    tasks, results = list(items), []
    with ThreadPoolExecutor(CONCURRENT_CALLS) as pool:
        for result in pool.map(call, tasks) if len(tasks) > 1 else map(call, tasks):
            results.append(result)
            keep_alive()
    return results
