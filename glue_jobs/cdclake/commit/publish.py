"""Publishes a committed change. Every step is repeatable, so the next run finishes what a crashed run began."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Callable, TypeVar

from cdclake.commit.iceberg.tables import prepare_iceberg
from cdclake.concurrency import executor, in_parallel
from cdclake.errors import CommitConflictError, IntegrityError, LakeFilesError
from cdclake.model.layout import is_in_iceberg

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cdclake.commit.log import ChangeLog
    from cdclake.model.change.record import ChangeRecord, StagedFile
    from cdclake.model.snapshot import Snapshot

FENCE_SECONDS = 1
"""A publisher makes no call if its last look for later changes is older."""
NEVER = float("-inf")
KeepAlive = Callable[[], None]
"""Long operations call it regularly. It renews the lease, and raises `LeaseLostError` if the lease is lost."""
Result = TypeVar("Result")


def no_lease() -> None:
    """The `KeepAlive` of callers without a lease, such as the Spark jobs, whose ProcessTable job renews it."""


def publish(
    log: ChangeLog,
    record: ChangeRecord,
    keep_alive: KeepAlive = no_lease,
    seconds: Mapping[str, float] | None = None,
    snapshot: Snapshot | None = None,
    looked: float = NEVER,
) -> dict[str, float]:
    """Make a committed change's files live, then retire the files they replace.

    New files come first: a reader in between sees rows twice rather than not at all.

    Args:
        keep_alive: Renews the lease.
        seconds: Durations of phases that the change record lacks, to be stored with the duration of publishing.
        snapshot: The table after the change, if the caller has it; otherwise it is read if it is needed.
        looked: As `ChangeLog.commit` returns it.

    Returns:
        The stored durations; none if another run published the change meanwhile.

    Raises:
        CommitConflictError: Another run took over the table, and finished this change. This run stopped there. Files
            that it restored too late are retired again by the next run: see `table_files.check_files`.
    """
    fence = Fence(log, record.change, looked)
    try:
        return _publish(log, record, fence, keep_alive, seconds or {}, snapshot)
    except (IntegrityError, LakeFilesError):  # what it was about to move may be where the other run put it
        fence.check()
        if not log.is_published(record.change):
            raise
        return {}  # the other run is done with this change, and has not begun the next one


def _publish(
    log: ChangeLog,
    record: ChangeRecord,
    fence: Fence,
    keep_alive: KeepAlive,
    seconds: Mapping[str, float],
    snapshot: Snapshot | None,
) -> dict[str, float]:
    started = time.perf_counter()
    store, layout = log.store, log.layout
    fence.check_if_due()
    copied = [file for file in record.added if file.staged_key != layout.data_key(file.path)]
    restored = [path for path in record.restored if _is_in_folder(path)]
    retired = [path for path in record.retired if _is_in_folder(path)]
    sizes = {file.path: file.bytes for file in snapshot.all_files} if snapshot and copied else {}
    show_iceberg = prepare_iceberg(log, record, snapshot)
    calls: list[Callable[[], Sequence[Callable[[], None]]]] = [
        partial(store.begin_restoring, layout.file_keys(restored)),
        partial(store.begin_retiring, layout.file_keys(retired)),
        partial(_begin_removing_staging, log, record.change),
        *(partial(_publish_file, log, file, sizes.get(file.path)) for file in copied),
    ]
    restores, retirements, removals, *_ = fence.around_all(calls, keep_alive)
    if copied or restored:
        fence.check()
    fence.around_all(restores, keep_alive)
    fence.around_all(show_iceberg, keep_alive)
    fence.around_all(retirements, keep_alive)
    later_seconds = {**seconds, "publish": round(time.perf_counter() - started, 3)}
    log.mark_published(record.change, later_seconds)
    with executor(store.calls_at_once) as pool:  # they may fail: the next run repeats the removals
        done = pool.submit(log.mark_newest_published, record.change), pool.submit(fence.check)
        for remove in removals:
            remove()
        for one in done:
            one.result()
    return later_seconds


class Fence:
    """Stops a run that moves or deletes files when a later change shows that another run took over the table.

    Args:
        change: Number of the newest change that the run knows.
        looked: A time before which there was no later change.
        remedy: What to do if another run took over, in the error; empty: that run does the rest.

    Between a look at the log and a call to the store there is a gap, which no store can close for all calls. So a look
    is repeated whenever the last one is older than `FENCE_SECONDS`: a run that was paused looks before its next call.
    """

    def __init__(self, log: ChangeLog, change: int, looked: float = NEVER, remedy: str = "") -> None:
        self._log, self._change, self._looked, self._remedy = log, change, looked, remedy

    def check(self) -> None:
        """Look for a later change.

        Raises:
            CommitConflictError: There is one.
        """
        now = time.time()  # other than a monotonic clock, it goes on while the machine sleeps
        if self._log.is_committed(self._change + 1):
            name = self._log.layout.name
            message = f"Another run took over {name} before this one was done with change {self._change}"
            went_on = f"The other run went on from that change; cdclake changes {name.typed} lists what it did"
            raise CommitConflictError(message, remedy=self._remedy or went_on, table=name)
        self._looked = now

    def around(self, call: Callable[[], Result]) -> Result:
        """Make a call, after `check_if_due`."""
        self.check_if_due()
        return call()

    def around_all(self, calls: Iterable[Callable[[], Result]], keep_alive: KeepAlive) -> list[Result]:
        """Make calls, several at a time, each as `around`."""
        return in_parallel(self.around, calls, self._log.store.calls_at_once, keep_alive)

    def check_if_due(self) -> None:
        """`check`, unless the last look was just now."""
        if abs(time.time() - self._looked) > FENCE_SECONDS:
            self.check()


def _publish_file(log: ChangeLog, file: StagedFile, size_bytes: int | None) -> tuple[()]:
    """Copy a new data file to its place.

    When readers change, files of the folder become files of the Iceberg table, or the other way round. Such a source is
    retired afterwards, so if this is repeated, it may be retired already.
    """
    layout, target = log.layout, log.layout.data_key(file.path)
    if file.staged_key.startswith(layout.staging_folder):
        log.store.copy(file.staged_key, target, size_bytes)
    else:
        log.store.copy_retained(file.staged_key, layout.retired_key(layout.data_path_of(file.staged_key)), target)
    return ()


def _is_in_folder(path: str) -> bool:
    """Whether readers see a data file by listing its folder. Files of an Iceberg table stay until a clean-up."""
    return not is_in_iceberg(path)


def remove_staging(log: ChangeLog, through: int) -> None:
    """Delete for good what any run staged for changes up to `through`, whether it committed, lost or crashed."""
    for remove in _begin_removing_staging(log, through) if through else ():
        remove()


def _begin_removing_staging(log: ChangeLog, through: int) -> Sequence[Callable[[], None]]:
    """Find what `remove_staging` deletes. What an overtaken run stages later is left to the next publisher."""
    layout = log.layout
    return log.store.begin_removing(layout.staging_folder, lambda key: not 0 < layout.run_change(key) <= through)
