"""What the core needs of the outside: object stores, the state table, jobs, the clock.

Adapters implement these; the core never imports an adapter. Each port has one contract test, run on all its adapters.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Callable, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cdclake.model.catalog import CatalogPartition, CatalogTable, PartitionValues
    from cdclake.model.metrics import Metric
    from cdclake.model.rawfiles import ListedObject
    from cdclake.model.table import TableName, TableState

Clock = Callable[[], datetime]
"""Gives the time now, in UTC."""


class ObjectReader(Protocol):
    """Listings of one bucket or folder. Keys are `/`-separated and relative to it.

    Every method raises `ConfigurationError` when the bucket does not exist or may not be read.
    """

    def list(self, prefix: str, start_after: str = "") -> Iterator[ListedObject]:
        """Every object whose key begins with `prefix` and sorts after `start_after`, by key, through all pages."""
        ...

    def list_folders(self, prefix: str) -> Iterator[str]:
        """Every distinct `prefix` + `<segment>/` below `prefix`, by name, through all pages."""
        ...


class ObjectStore(ObjectReader, Protocol):
    """One bucket or folder that can be written."""

    def get(self, key: str) -> bytes | None:
        """Content of an object; None if there is none."""
        ...

    def put(self, key: str, data: bytes) -> None:
        """Write an object, replacing any."""
        ...

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Write an object unless there is one already; False if there is. Of concurrent callers exactly one gets True.

        Raises:
            CommitStateUnknownError: It cannot be told whether this call wrote it.
        """
        ...

    def copy(self, source: str, target: str) -> None:
        """Copy an object within the store, whole or not at all; the target appears complete. Any size.

        Raises:
            IntegrityError: There is no source.
        """
        ...

    def delete(self, keys: list[str]) -> None:
        """Delete objects for good as far as readers see; an absent one is no error."""
        ...

    def retire(self, key: str, keep_as: str) -> None:
        """Take a data file out of readers' sight in a way that can be undone; no error if that happened already.

        Args:
            key: The data file.
            keep_as: Where to keep it, in a store that keeps no versions of its own.
        """
        ...

    def restore(self, key: str, keep_as: str) -> None:
        """Bring a retired data file back, byte for byte; no error if it is in sight already.

        Args:
            key: The data file.
            keep_as: As it was given to `retire`.

        Raises:
            IntegrityError: It is neither in sight nor kept any more.
        """
        ...

    def is_kept(self, key: str, keep_as: str) -> bool:
        """Whether a data file is in sight, or retired so that `restore` would bring it back."""
        ...

    def copy_kept(self, key: str, keep_as: str, target: str) -> None:
        """Copy a data file, in sight or retired, to another object, whole or not at all. Any size.

        Raises:
            IntegrityError: It is neither in sight nor kept any more.
        """
        ...

    def discard(self, key: str, keep_as: str) -> None:
        """Delete a retired data file for good. One in sight is left alone; no error if nothing is kept of it."""
        ...

    def purge(self, prefix: str, spare: Callable[[str], bool]) -> int:
        """Delete for good what is held out of sight: earlier versions of objects, and objects that were deleted.

        Args:
            prefix: What the keys of the objects begin with.
            spare: Whether to leave all of an object as it is, by its key.

        Returns:
            How many versions were deleted; 0 in a store that keeps none of its own.
        """
        ...


class Acquired(NamedTuple):
    """A lease as it was given.

    Attributes:
        token: The fencing token, greater than any before.
        taken_over_from: Holder whose lease was over and had not been given back; empty if the table was free.
    """

    token: int
    taken_over_from: str = ""


class StateStore(Protocol):
    """The state table. Nothing here ever overwrites an attribute that a person sets, but `set_by_person`."""

    def all(self, path_prefix: str = "") -> Iterator[TableState]:
        """Every table's state whose path begins with `path_prefix`, through all pages, any order."""
        ...

    def get(self, path: str) -> TableState | None:
        """One table's state; None if it is not registered. A failed read is an error, never None."""
        ...

    def register(self, state: TableState) -> bool:
        """Add a table unless it is there already; False if it is."""
        ...

    def set_by_person(self, path: str, attributes: Mapping[str, str]) -> None:
        """Change settings of a registered table.

        Raises:
            UnknownTableError: No such item.
        """
        ...

    def record_run(self, path: str, attributes: Mapping[str, str]) -> None:
        """Write the outcome of a run (watermark, last change, error...) to a registered table's item.

        Args:
            path: The table.
            attributes: At least one, and only attributes whose names begin with `Last`.

        Raises:
            UnknownTableError: No such item.
        """
        ...

    def request_work(self, path: str, now: datetime, stale_after_seconds: int) -> bool:
        """Leave the mark that somebody wants this table looked at. True if the caller should start the run.

        False if a mark younger than `stale_after_seconds` is there: a run that has not listed yet will see the caller's
        file as well.

        Raises:
            UnknownTableError: No such item.
        """
        ...

    def acquire_lease(self, path: str, holder: str, now: datetime, seconds: int) -> Acquired:
        """Take the right to write a table for `seconds`.

        Raises:
            LeaseHeldError: Another holder's lease has not expired.
            UnknownTableError: No such item.
        """
        ...

    def renew_lease(self, path: str, holder: str, token: int, now: datetime, seconds: int) -> bool:
        """Extend the lease; False if it is no longer this holder's."""
        ...

    def clear_request(self, path: str) -> None:
        """Take the mark of `request_work` away, before listing: a file that comes later leaves a new one."""
        ...

    def release_lease(self, path: str, token: int, *, even_if_requested: bool) -> bool:
        """Give the lease back.

        Returns:
            False if `even_if_requested` is false and a mark of `request_work` has been left meanwhile: the lease is
            kept and the holder should look again. True otherwise, also if the lease was no longer this token's.
        """
        ...


class TaskStatistics(Protocol):
    """Knows how far DMS tasks are."""

    def table_state(self, task: str, name: TableName) -> str | None:
        """What a task says of a table: `Full load`, `Table completed`, ...; None if the task does not know the table.

        Args:
            task: ARN of the task.
            name: The table, by the names of its raw folders.

        Raises:
            ConfigurationError: There is no such task, or it may not be looked at.
        """
        ...


class JobState(Enum):
    """How a job run stands."""

    ACTIVE = "ACTIVE"
    """Waits for its turn, runs, or is being stopped."""
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    """It raised an error, or ran out of its time."""
    STOPPED = "STOPPED"
    """Somebody stopped it."""
    GIVEN_UP = "GIVEN_UP"
    """The service ended it, or never began it, through no fault of the job."""


class JobRun(NamedTuple):
    """A job run as asked for.

    Attributes:
        state: How it stands.
        detail: The service's own word for the state (`RUNNING`, `TIMEOUT`, ...).
        error: What the service says went wrong.
    """

    run_id: str
    state: JobState
    detail: str = ""
    error: str = ""


class JobRunner(Protocol):
    """Starts Glue jobs and tells how they stand."""

    def start(self, job: str, arguments: Mapping[str, str]) -> str:
        """Start a run and return its id. Argument names come without dashes.

        Raises:
            NoRoomError: As many runs are there, or starts were asked for, as may be. None was started.
            JobRunError: It could not be started; says why.
        """
        ...

    def get(self, job: str, run_id: str) -> JobRun:
        """How a run stands."""
        ...

    def stop(self, job: str, run_id: str) -> JobRun:
        """Have a run stopped, if it has not ended; returns how it stands right after. It may take a while to stop."""
        ...


class MetricSink(Protocol):
    """Takes measurements of the work, for graphs and alarms."""

    def put(self, metrics: Sequence[Metric]) -> None:
        """Keep measurements, any number and any order. Never raises: what is not taken is logged, no more."""
        ...


class Catalog(Protocol):
    """Tables of one database of a catalog, which tells query engines where tables are and how to read them.

    Every method raises `ConfigurationError` when there is no such database or the caller may not use it, and
    `RetryableError` when the catalog is busy or out of reach.
    """

    @property
    def database(self) -> str:
        """Name of the database."""
        ...

    def table(self, name: str) -> CatalogTable | None:
        """A table; None if there is none of that name."""
        ...

    def partitions(self, name: str) -> Iterator[CatalogPartition]:
        """Every partition of a table that is there, through all pages, any order."""
        ...

    def create_table(self, name: str, table: CatalogTable) -> None:
        """Add a table that is not there."""
        ...

    def update_table(self, name: str, table: CatalogTable) -> None:
        """Have a table that is there be as this. What people wrote beside it, such as comments of columns, stays."""
        ...

    def drop_table(self, name: str) -> None:
        """Remove a table and its partitions; an absent one is no error. No data is touched."""
        ...

    def create_partitions(self, name: str, partitions: Sequence[CatalogPartition]) -> None:
        """Add partitions, any number, that are not there."""
        ...

    def update_partitions(self, name: str, partitions: Sequence[CatalogPartition]) -> None:
        """Have partitions, any number, that are there be as these."""
        ...

    def drop_partitions(self, name: str, partitions: Sequence[PartitionValues]) -> None:
        """Remove partitions, any number; an absent one is no error. No data is touched."""
        ...
