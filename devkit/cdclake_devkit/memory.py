"""The ports of `cdclake` in memory, for tests and experiments. Safe to share between threads."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta, timezone
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Callable, NamedTuple, Union

from cdclake.adapters.state_rules import (
    acquired_lease,
    check_outcome,
    check_settings,
    expiry_text,
    has_lease,
    lease_held,
    unknown_table,
    without_edited,
)
from cdclake.adapters.unversioned import UnversionedStore
from cdclake.errors import IntegrityError, JobRunError, file_not_retained
from cdclake.model.layout import s3_key_fault
from cdclake.model.raw.files import ListedObject, one_level
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState
from cdclake.model.times import MAX_CLOCK_DIFFERENCE, iso_utc
from cdclake.ports import JobRun, JobState, WorkRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cdclake.model.metrics import Metric
    from cdclake.model.table.state import Item
    from cdclake.ports import AcquiredLease, Clock


class ManualClock:
    """A clock that moves only by `advance`."""

    def __init__(self, start: datetime = datetime(2024, 3, 5, 10, tzinfo=timezone.utc)) -> None:
        self.now = start

    def __call__(self) -> datetime:
        """The current time."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Move the clock."""
        self.now += timedelta(seconds=seconds)


class _Stored(NamedTuple):
    data: bytes
    modified_utc: datetime

    @property
    def etag(self) -> str:
        return hashlib.md5(self.data, usedforsecurity=False).hexdigest()


class MemoryStore(UnversionedStore):
    """An `ObjectStore` in memory, without versions.

    Args:
        clock: Returns the modification time of written objects.
    """

    calls_at_once = 1

    def __init__(self, clock: Clock = lambda: datetime.now(timezone.utc)) -> None:
        self._clock = clock
        self._objects: dict[str, _Stored] = {}
        self._lock = Lock()

    def url(self, key: str) -> str:
        """The URL by which readers find an object."""
        return f"memory://{key}"

    def key_fault(self, key: str) -> str:
        """Why the store can hold no object of that key; empty if it can. Keys have S3's limit."""
        return s3_key_fault(key)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ListedObject]:
        """All objects at the moment of the call whose keys begin with `prefix` and sort after `start_after`, by key."""
        with self._lock:
            entries = [
                ListedObject(key, len(stored.data), stored.modified_utc, stored.etag)
                for key, stored in self._objects.items()
                if key.startswith(prefix) and key > start_after
            ]
        return iter(sorted(entries))

    def list_level(self, prefix: str) -> Iterator[str]:
        """Distinct folders `prefix` + `<name>/`, and keys `prefix` + `<name>` without another slash, in any order."""
        with self._lock:
            below = [key for key in self._objects if key.startswith(prefix)]
        return one_level(prefix, below)

    def get(self, key: str) -> bytes | None:
        """The content of an object; None if it does not exist."""
        with self._lock:
            stored = self._objects.get(key)
        return stored.data if stored else None

    def put(self, key: str, data: bytes) -> None:
        """Write an object, replacing an existing one."""
        with self._lock:
            self._objects[key] = _Stored(data, self._clock())

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Write an object if none exists, and return whether this call wrote it."""
        with self._lock:
            if key in self._objects:
                return False
            self._objects[key] = _Stored(data, self._clock())
            return True

    def put_if_unchanged(self, key: str, data: bytes, old: bytes) -> bool:
        """Replace an object whose content is still `old`, and return whether it has the new content."""
        with self._lock:
            stored = self._objects.get(key)
            if stored is not None and stored.data == old:
                self._objects[key] = _Stored(data, self._clock())
            return stored is not None and stored.data in (old, data)

    def copy(self, source: str, target: str, size_bytes: int | None = None) -> None:  # noqa: ARG002 - not needed
        """Copy an object of any size within the store. The target appears complete or not at all."""
        with self._lock:
            if source not in self._objects:
                raise IntegrityError("An object to copy is missing", file=source)
            self._objects[target] = _Stored(self._objects[source].data, self._clock())

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; an absent object is no error."""
        with self._lock:
            for key in keys:
                self._objects.pop(key, None)

    def remove(self, prefix: str, is_protected: Callable[[str], bool]) -> None:
        """Permanently delete objects."""
        self.delete([entry.key for entry in self.list(prefix) if not is_protected(entry.key)])

    def retire(self, key: str, retired_key: str) -> None:
        """Retire a data file; no error if it is retired already."""
        with self._lock:
            stored = self._objects.pop(key, None)
            if stored:
                self._objects[retired_key] = stored

    def restore(self, key: str, retired_key: str) -> None:
        """Make a retired data file live again, byte for byte; no error if it is live already."""
        with self._lock:
            self._objects[key] = self._retained(key, retired_key)
            self._objects.pop(retired_key, None)

    def is_retained(self, key: str, retired_key: str) -> bool:
        """Whether a data file is live, or retired so that `restore` would succeed."""
        with self._lock:
            return key in self._objects or retired_key in self._objects

    def copy_retained(self, key: str, retired_key: str, target: str) -> None:
        """Copy a live or retired data file of any size. The target appears complete or not at all."""
        with self._lock:
            self._objects[target] = _Stored(self._retained(key, retired_key).data, self._clock())

    def discard(self, key: str, retired_key: str) -> None:
        """Permanently delete a retired data file. A live one is left alone; an absent one is no error."""
        with self._lock:
            if key not in self._objects:
                self._objects.pop(retired_key, None)

    def remove_leftovers(self) -> None:
        """Delete nothing, because killed processes leave nothing in memory."""

    def _retained(self, key: str, retired_key: str) -> _Stored:
        stored = self._objects.get(key) or self._objects.get(retired_key)
        if stored is None:
            raise file_not_retained(key)
        return stored


class MemoryState:
    """A `StateStore` in memory.

    Args:
        states: Tables that are registered at the start.
    """

    def __init__(self, states: Iterable[TableState] = ()) -> None:
        self._items: dict[str, Item] = {state.path: dict(state.item) for state in states}
        self._lock = Lock()

    def all(self, path_prefix: str = "") -> Iterator[TableState]:
        """The state of all tables whose path begins with `path_prefix`, in any order."""
        with self._lock:
            return iter([TableState(dict(item)) for path, item in self._items.items() if path.startswith(path_prefix)])

    def get(self, path: str) -> TableState | None:
        """The state of one table; None if it is not registered."""
        with self._lock:
            return TableState(dict(self._items[path])) if path in self._items else None

    def register(self, state: TableState) -> bool:
        """Add a table if it is not registered yet, and return whether this call added it."""
        with self._lock:
            if state.path in self._items:
                return False
            self._items[state.path] = dict(state.item)
            return True

    def set_attributes(self, path: str, attributes: Mapping[str, str]) -> None:
        """Change the settings of a registered table, on behalf of an operator."""
        check_settings(attributes)
        with self._lock:
            self._registered(path).update(attributes)

    def record_run(
        self,
        path: str,
        attributes: Mapping[str, str],
        lease: tuple[str, int] | None = None,
        *,
        clears_request: bool = False,
        unless_edited: Mapping[str, str] = MappingProxyType({}),
    ) -> TableState | None:
        """Write the outcome of a run (watermark, last change, error, ...) to a registered table's item.

        Returns:
            The state after it; None if the run no longer has the lease that it names, and nothing was written.
        """
        check_outcome(attributes)
        with self._lock:
            item = self._registered(path)
            if lease and not has_lease(item, *lease):
                return None
            item.update(without_edited(attributes, item, unless_edited))
            if clears_request:
                item.pop(Attribute.WORK_REQUESTED_UTC, None)
            return TableState(dict(item))

    def request_work(self, path: str, now: datetime, stale_after_seconds: int) -> WorkRequest:
        """Record a request to process a table."""
        stale = iso_utc(now - timedelta(seconds=stale_after_seconds))
        with self._lock:
            item = self._registered(path)
            requested, end = item.get(Attribute.WORK_REQUESTED_UTC, ""), item.get(Attribute.LEASE_EXPIRES_UTC, "")
            is_left = Attribute.LEASE_HOLDER in item and requested < end <= iso_utc(now)
            is_new = is_left or not stale < requested <= iso_utc(now + MAX_CLOCK_DIFFERENCE)
            if is_new:
                item[Attribute.WORK_REQUESTED_UTC] = iso_utc(now)
            return WorkRequest(is_new, TableState(dict(item)))

    def acquire_lease(
        self, path: str, holder: str, now: datetime, seconds: int, *, clears_request: bool = False
    ) -> AcquiredLease:
        """Acquire the right to write a table for `seconds`."""
        with self._lock:
            item = self._registered(path)
            before = TableState(dict(item))
            if item.get(Attribute.LEASE_HOLDER) != holder and before.leased(now):
                raise lease_held(before)
            acquired = acquired_lease(before, holder, now, seconds, clears_request=clears_request)
            assert acquired.state is not None
            self._items[path] = dict(acquired.state.item)
            return acquired

    def renew_lease(
        self, path: str, holder: str, token: int, now: datetime, seconds: int, *, to: str | None = None
    ) -> bool:
        """Extend the lease, and give it to another holder if there is one; False if this holder no longer has it."""
        with self._lock:
            item = self._registered(path)
            if not has_lease(item, holder, token):
                return to is not None and has_lease(item, to, token)
            item[Attribute.LEASE_EXPIRES_UTC] = expiry_text(now, seconds)
            item[Attribute.LEASE_HOLDER] = holder if to is None else to
            return True

    def raise_token(self, path: str, holder: str, token: int, raised: int) -> bool:
        """Give the lease a greater fencing token; False if this holder no longer has it."""
        with self._lock:
            item = self._registered(path)
            if not has_lease(item, holder, token):
                return False
            item[Attribute.FENCING_TOKEN] = str(raised)
            return True

    def clear_request(self, path: str) -> TableState:
        """Remove the pending request before listing the raw files. A file that arrives later records a new one."""
        with self._lock:
            item = self._registered(path)
            item.pop(Attribute.WORK_REQUESTED_UTC, None)
            return TableState(dict(item))

    def release_lease(
        self,
        path: str,
        holder: str,
        token: int,
        *,
        even_if_requested: bool,
        attributes: Mapping[str, str] = MappingProxyType({}),
    ) -> bool:
        """Release the lease. False if the holder keeps it: a request is pending, and `even_if_requested` is false."""
        if attributes:
            check_outcome(attributes)
        with self._lock:
            item = self._registered(path)
            if not has_lease(item, holder, token):
                return True
            if Attribute.WORK_REQUESTED_UTC in item and not even_if_requested:
                return False
            del item[Attribute.LEASE_HOLDER], item[Attribute.LEASE_EXPIRES_UTC]
            item.update(attributes)
            return True

    def _registered(self, path: str) -> Item:
        if path not in self._items:
            raise unknown_table(path)
        return self._items[path]


class JobStart(NamedTuple):
    """A job run that `MemoryJobs` was asked to start."""

    job: str
    arguments: Mapping[str, str]
    run_id: str


Work = Callable[[str], JobRun]
"""Does the work of a run, given its id; returns how it ended."""
JobScript = Callable[[str, "Mapping[str, str]"], Union[JobRun, Work, "Sequence[JobState]"]]
"""Returns the outcome of a run, by job name and arguments.

It returns either the run's final state (the run id is filled in), or one state for each `get`, of which the last stays,
or the work, which `MemoryJobs.run_waiting` does. It may do the job's work itself, and may raise the errors of
`JobRunner.start`.
"""


def succeed(job: str, arguments: Mapping[str, str]) -> JobRun:  # noqa: ARG001 - the shape of a JobScript
    """A `JobScript` whose runs all succeed at once."""
    return JobRun("", JobState.SUCCEEDED, JobState.SUCCEEDED.value)


class MemoryJobs:
    """A `JobRunner` that records the runs it was asked to start.

    Args:
        script: Returns the outcome of each run; called by `start`.

    Attributes:
        started: The runs started so far, in order.
    """

    def __init__(self, script: JobScript = succeed) -> None:
        self._script = script
        self._runs: dict[tuple[str, str], list[JobRun]] = {}
        self._waiting: list[tuple[JobStart, Work]] = []
        self._lock = Lock()
        self._count = 0
        self.started: list[JobStart] = []

    def start(self, job: str, arguments: Mapping[str, str]) -> str:
        """Start a run and return its id. Argument names have no dashes."""
        with self._lock:
            self._count += 1
            run_id = f"jr_{self._count:06d}"
        outcome = self._script(job, dict(arguments))
        start = JobStart(job, dict(arguments), run_id)
        with self._lock:
            self.started.append(start)
            if callable(outcome):
                self._waiting.append((start, outcome))
                outcome = [JobState.ACTIVE]
            runs = [outcome] if isinstance(outcome, JobRun) else [JobRun("", state, state.value) for state in outcome]
            self._runs[job, run_id] = [run._replace(run_id=run_id, arguments=dict(arguments)) for run in runs]
        return run_id

    def get(self, job: str, run_id: str) -> JobRun:
        """The state of a run."""
        with self._lock:
            runs = self._runs.get((job, run_id))
            if not runs:
                raise JobRunError("The job run does not exist", job=job, run=run_id)
            return runs.pop(0) if len(runs) > 1 else runs[0]

    def run_waiting(self, failed: Callable[[str, str], object] = lambda _job, _run_id: None) -> None:
        """Do the work of all runs that wait for it, one after the other, and of those that they start.

        Several threads may call this.

        Args:
            failed: Called with the job and the id of each run that did not succeed.
        """
        while True:
            with self._lock:
                if not self._waiting:
                    return
                start, work = self._waiting.pop(0)
                running = JobRun(start.run_id, JobState.ACTIVE, "RUNNING", "", start.arguments)
                self._runs[start.job, start.run_id] = [running]
            ended = work(start.run_id)._replace(run_id=start.run_id, arguments=start.arguments)
            self._runs[start.job, start.run_id] = [ended]
            if ended.state is not JobState.SUCCEEDED:
                failed(start.job, start.run_id)


class MemoryMetrics:
    """A `MetricSink` in memory.

    Attributes:
        metrics: All metrics, in order of arrival.
    """

    def __init__(self) -> None:
        self.metrics: list[Metric] = []

    def put(self, metrics: Sequence[Metric]) -> None:
        """Store any number of metrics, in any order."""
        self.metrics += metrics

    def flush(self) -> None:
        """Nothing waits."""
