"""The interfaces through which the core uses the outside world: object stores, the state table, jobs, the clock.

Adapters implement them, and the core never imports an adapter. One contract test per port runs on all its adapters.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Callable, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cdclake.model.catalog import CatalogPartition, CatalogTable, PartitionValues
    from cdclake.model.layout import FileKeys
    from cdclake.model.metrics import Metric
    from cdclake.model.raw.files import ListedObject
    from cdclake.model.table.name import TableName
    from cdclake.model.table.state import TableState

Clock = Callable[[], datetime]
"""Returns the current time in UTC, by a clock that all writers of the lake share."""


class ObjectReader(Protocol):
    """Lists one bucket or folder. Keys are separated by `/` and relative to it.

    Every method raises `ConfigurationError` if the bucket does not exist or the caller may not read it.
    """

    @property
    def calls_at_once(self) -> int:
        """How many calls at a time save time; 1 if a call takes no longer than starting a thread for it."""
        ...

    def list(self, prefix: str, start_after: str = "") -> Iterator[ListedObject]:
        """All objects whose keys begin with `prefix` and sort after `start_after`, by key, through all pages."""
        ...

    def list_level(self, prefix: str) -> Iterator[str]:
        """Distinct folders `prefix` + `<name>/`, and keys `prefix` + `<name>` without another slash, in any order."""
        ...


class OldVersion(NamedTuple):
    """An earlier version of an object, or a version of a deleted one; never a delete marker."""

    key: str
    id: str
    size_bytes: int


class ObjectStore(ObjectReader, Protocol):
    """One writable bucket or folder.

    A data file is live while readers see it under its key. A retired data file is out of readers' sight and can be
    restored. A data file that is live or retired is retained.
    """

    def url(self, key: str) -> str:
        """The URL by which readers find an object."""
        ...

    def key_fault(self, key: str) -> str:
        """Why the store can hold no object of that key; empty if it can. Such an object counts as absent."""
        ...

    def get(self, key: str) -> bytes | None:
        """The content of an object; None if it does not exist."""
        ...

    def put(self, key: str, data: bytes) -> None:
        """Write an object, replacing an existing one."""
        ...

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Write an object if none exists, and return whether this call wrote it. Of concurrent callers, one gets True.

        Raises:
            CommitStateUnknownError: This call may have written it or not.
        """
        ...

    def put_if_unchanged(self, key: str, data: bytes, old: bytes) -> bool:
        """Replace an object whose content is still `old`, and return whether it has the new content."""
        ...

    def copy(self, source: str, target: str, size_bytes: int | None = None) -> None:
        """Copy an object of any size within the store. The target appears complete or not at all.

        The source is never written again, and soon deleted: until then both may share their content.

        Args:
            size_bytes: Size of the object, if known: the store need not ask for it.

        Raises:
            IntegrityError: The source does not exist.
        """
        ...

    def delete(self, keys: list[str]) -> None:
        """Delete objects; an absent object is no error."""
        ...

    def remove(self, prefix: str, is_protected: Callable[[str], bool]) -> None:
        """Permanently delete objects and their earlier versions, of which a store with versions keeps none.

        Args:
            prefix: Prefix of the objects' keys.
            is_protected: Returns for a key whether to keep the object. A file system also asks it about empty folders,
                whose keys end with a slash.
        """
        ...

    def begin_removing(self, prefix: str, is_protected: Callable[[str], bool]) -> Sequence[Callable[[], None]]:
        """Find out what to `remove`, which changes nothing. Each returned function removes some of it.

        What is written later may stay.
        """
        ...

    def retire(self, key: str, retired_key: str) -> None:
        """Retire a data file; no error if it is retired already.

        Args:
            key: The data file.
            retired_key: Where a store without versions keeps the retired file.
        """
        ...

    def begin_retiring(self, files: Sequence[FileKeys]) -> Sequence[Callable[[], None]]:
        """Find out how to `retire` data files, which changes nothing. Each returned function retires some of them."""
        ...

    def restore(self, key: str, retired_key: str) -> None:
        """Make a retired data file live again, byte for byte; no error if it is live already.

        Args:
            key: The data file.
            retired_key: As in `retire`.

        Raises:
            IntegrityError: It is no longer retained.
        """
        ...

    def begin_restoring(self, files: Sequence[FileKeys]) -> Sequence[Callable[[], None]]:
        """Find out how to `restore` data files, which changes nothing. Each returned function restores some of them.

        In a bucket with versions it has no effect on a file that was restored and retired again in between.
        """
        ...

    def is_retained(self, key: str, retired_key: str) -> bool:
        """Whether a data file is live, or retired so that `restore` would succeed."""
        ...

    def not_retained(self, files: Sequence[FileKeys]) -> Sequence[FileKeys]:
        """The data files that are neither live, nor retired so that `restore` would succeed."""
        ...

    def copy_retained(self, key: str, retired_key: str, target: str) -> None:
        """Copy a live or retired data file of any size. The target appears complete or not at all.

        Raises:
            IntegrityError: It is no longer retained.
        """
        ...

    def discard(self, key: str, retired_key: str) -> None:
        """Permanently delete a retired data file. A live one is left alone; an absent one is no error."""
        ...

    def begin_discarding(self, files: Sequence[FileKeys]) -> Sequence[Callable[[], None]]:
        """Prepare to `discard` data files, which changes nothing. Each returned function discards some of them."""
        ...

    def purge(self, prefix: str, is_protected: Callable[[str], bool]) -> int:
        """Permanently delete what readers do not see: earlier versions of objects, and deleted objects.

        Args:
            prefix: Prefix of the objects' keys.
            is_protected: Returns for a key whether to keep all versions of the object.

        Returns:
            Number of versions deleted; 0 in a store without versions.
        """
        ...

    def old_versions(self, prefix: str) -> Iterator[OldVersion]:
        """What `purge` would delete, through all pages; nothing in a store without versions."""
        ...

    def get_version(self, version: OldVersion) -> bytes | None:
        """The content of an old version; None if it does not exist."""
        ...

    def delete_versions(self, versions: Sequence[OldVersion]) -> None:
        """Permanently delete old versions; an absent one is no error."""
        ...

    def remove_leftovers(self) -> None:
        """Permanently delete what killed processes left of objects that they were writing. Disturbs no other writer."""
        ...


class AcquiredLease(NamedTuple):
    """A lease that was just acquired.

    Attributes:
        token: The fencing token, greater than any before.
        taken_over_from: The holder that did not release its lease; empty if the table was free. It is the new holder
            itself if the answer to its first request was lost; then nobody knows who held the lease before.
        fault: Why that lease counts as expired although its end is to come, see `TableState.lease_fault`; else empty.
        state: The table's item since; None if it is not known.
    """

    token: int
    taken_over_from: str = ""
    fault: str = ""
    state: TableState | None = None


class WorkRequest(NamedTuple):
    """The answer to a request to process a table.

    Attributes:
        is_new: Whether the caller should start a run.
        state: The table's item at that moment.
    """

    is_new: bool
    state: TableState


class StateStore(Protocol):
    """The state table. Only `set_attributes` overwrites attributes that an operator sets."""

    def all(self, path_prefix: str = "") -> Iterator[TableState]:
        """The state of all tables whose path begins with `path_prefix`, through all pages, in any order."""
        ...

    def get(self, path: str) -> TableState | None:
        """The state of one table; None if it is not registered. A failed read is an error, never None."""
        ...

    def register(self, state: TableState) -> bool:
        """Add a table if it is not registered yet, and return whether this call added it."""
        ...

    def set_attributes(self, path: str, attributes: Mapping[str, str]) -> None:
        """Change the settings of a registered table, on behalf of an operator.

        Raises:
            UnknownTableError: No such item.
        """
        ...

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

        Args:
            attributes: At least one; all names begin with `Last`.
            lease: Holder and fencing token of the lease that the run must still have; None: it needs none.
            clears_request: Whether to do the same as `clear_request` besides.
            unless_edited: Attributes that stay as they are if an operator gave them other values than these, which the
                run had read. Empty: it had read none.

        Returns:
            The state after it; None if the run no longer has the lease, and nothing was written.

        Raises:
            UnknownTableError: No such item.
        """
        ...

    def request_work(self, path: str, now: datetime, stale_after_seconds: int) -> WorkRequest:
        """Record a request to process a table.

        The caller should start no run if a request younger than `stale_after_seconds` is pending: its run has not
        listed the raw files yet, and will see the caller's file too. A request of the future is none. Nor is one that
        was made under a lease which has expired since: it was left to the holder, who is dead.

        Raises:
            UnknownTableError: No such item.
        """
        ...

    def acquire_lease(
        self, path: str, holder: str, now: datetime, seconds: int, *, clears_request: bool = False
    ) -> AcquiredLease:
        """Acquire the right to write a table for `seconds`.

        Args:
            now: The time that all callers share.
            clears_request: Whether to do the same as `clear_request` besides.

        Raises:
            LeaseHeldError: Another holder's lease has not expired.
            ConfigurationError: The item's fencing token is not a whole number.
            UnknownTableError: No such item.
        """
        ...

    def raise_token(self, path: str, holder: str, token: int, raised: int) -> bool:
        """Give the lease a greater fencing token; False if this holder no longer has it."""
        ...

    def renew_lease(
        self, path: str, holder: str, token: int, now: datetime, seconds: int, *, to: str | None = None
    ) -> bool:
        """Extend the lease; False if this holder no longer has it.

        Args:
            seconds: Until it expires; 0: it is expired.
            to: The holder from now on, who knows the token; None: the same.
        """
        ...

    def clear_request(self, path: str) -> TableState:
        """Remove the pending request before listing the raw files. A file that arrives later records a new one.

        Returns:
            The state after it.
        """
        ...

    def release_lease(
        self,
        path: str,
        holder: str,
        token: int,
        *,
        even_if_requested: bool,
        attributes: Mapping[str, str] = MappingProxyType({}),
    ) -> bool:
        """Release the lease.

        Args:
            attributes: What to write besides, as `record_run` does; nothing if the lease is not released.

        Returns:
            False if a request is pending and `even_if_requested` is false: the holder keeps the lease and should list
            the raw files again. True otherwise, also if this holder's lease was lost.
        """
        ...


class TaskStatistics(Protocol):
    """Reads the progress of DMS tasks."""

    def table_state(self, task: str, name: TableName) -> str | None:
        """The state of a table in a task: `Full load`, `Table completed`, ...; None if the task lacks the table.

        Args:
            task: ARN of the task.
            name: The table, by the names of its raw folders.

        Raises:
            ConfigurationError: The task does not exist, or the caller may not read it.
        """
        ...


class JobState(Enum):
    """The state of a job run."""

    ACTIVE = "ACTIVE"
    """Queued, running, or stopping."""
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    """It raised an error or timed out."""
    STOPPED = "STOPPED"
    """An operator stopped it."""
    GIVEN_UP = "GIVEN_UP"
    """The service ended it, or never started it, through no fault of the job."""


class JobRun(NamedTuple):
    """A job run at the time of the request.

    Attributes:
        state: Its state.
        detail: The service's own name of the state (`RUNNING`, `TIMEOUT`, ...).
        error: The service's error message.
        arguments: The run's arguments, by name without dashes.
    """

    run_id: str
    state: JobState
    detail: str = ""
    error: str = ""
    arguments: Mapping[str, str] = {}


class JobRunner(Protocol):
    """Starts and observes Glue jobs."""

    def start(self, job: str, arguments: Mapping[str, str]) -> str:
        """Start a run and return its id. Argument names have no dashes.

        Raises:
            NoRoomError: A limit on runs or requests is reached. No run was started.
            JobRunError: The run could not be started.
        """
        ...

    def get(self, job: str, run_id: str) -> JobRun:
        """The state of a run.

        Raises:
            JobRunError: It does not exist.
        """
        ...


class MetricSink(Protocol):
    """Accepts metrics, for graphs and alarms."""

    def put(self, metrics: Sequence[Metric]) -> None:
        """Store any number of metrics soon, in any order. Never raises; logs what could not be stored."""
        ...

    def flush(self) -> None:
        """Store what still waits. Never raises."""
        ...


class LineageSink(Protocol):
    """Accepts OpenLineage events."""

    def send(self, events: Sequence[Mapping[str, object]]) -> bool:
        """Send events, in order, and return whether all were taken. Never raises; logs what could not be sent."""
        ...


class Catalog(Protocol):
    """The tables of one catalog database, from which query engines learn where tables are and how to read them.

    Every method raises `ConfigurationError` if the database does not exist or the caller may not use it, and
    `RetryableError` if the catalog is busy or unreachable.
    """

    @property
    def database(self) -> str:
        """Name of the database."""
        ...

    def table(self, name: str) -> CatalogTable | None:
        """A table; None if it does not exist."""
        ...

    def partitions(self, name: str) -> Iterator[CatalogPartition]:
        """All partitions of an existing table, through all pages, in any order."""
        ...

    def create_table(self, name: str, table: CatalogTable) -> None:
        """Create a table that does not exist."""
        ...

    def update_table(self, name: str, table: CatalogTable) -> None:
        """Update an existing table. What users added to it, such as column comments, stays.

        An Iceberg table that shows a later change stays as it is: a run that paused must not take its readers back.
        """
        ...

    def drop_table(self, name: str) -> None:
        """Drop a table and its partitions; an absent table is no error. Data is not touched."""
        ...

    def create_partitions(self, name: str, partitions: Sequence[CatalogPartition]) -> None:
        """Create any number of partitions that do not exist."""
        ...

    def update_partitions(self, name: str, partitions: Sequence[CatalogPartition]) -> None:
        """Update any number of existing partitions."""
        ...

    def drop_partitions(self, name: str, partitions: Sequence[PartitionValues]) -> None:
        """Drop any number of partitions; an absent partition is no error. Data is not touched."""
        ...


@dataclass(frozen=True)
class Ports:
    """Everything outside that a run works with.

    Attributes:
        jobs: Starts runs of the jobs, and tells how they ended.
        open_bucket: Opens the store of a bucket.
        metrics: Takes lag, changes, failures and durations.
        statistics: Reads table states of DMS tasks; None: only the files decide whether a full load is complete.
        catalog: Catalog database for the lake tables; None for none.
        lineage: Takes the lineage of changes, besides the log; None: only the log.
    """

    states: StateStore
    jobs: JobRunner
    open_bucket: Callable[[str], ObjectStore]
    clock: Clock
    metrics: MetricSink
    statistics: TaskStatistics | None = None
    catalog: Catalog | None = None
    lineage: LineageSink | None = None
