"""A lake table's change log: the one place that says what the table is."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from cdclake.errors import CommitConflictError, IntegrityError, LeaseLostError, PastRetentionError
from cdclake.model.change import ChangeRecord
from cdclake.model.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cdclake.model.layout import LakeLayout
    from cdclake.ports import ObjectStore


CONCURRENT_READS = 16


class ChangeLog:
    """Reads and appends change records and snapshots.

    Args:
        store: The lake bucket.
        layout: Where the table's objects lie in it.
    """

    def __init__(self, store: ObjectStore, layout: LakeLayout) -> None:
        self.store = store
        self.layout = layout

    def head(self) -> int:
        """Number of the newest committed change; 0 if there is none."""
        newest = 0
        for entry in self.store.list(self.layout.changes_prefix):
            number = entry.key[len(self.layout.changes_prefix) :].split(".")[0]
            if number.isdigit():
                newest = max(newest, int(number))
        return newest

    def record(self, change: int) -> ChangeRecord:
        """One change record.

        Raises:
            IntegrityError: There is none of that number.
        """
        return ChangeRecord.from_bytes(self._read(self.layout.change_key(change)))

    def records(self, first: int, last: int) -> list[ChangeRecord]:
        """Change records from one number to another, both included, in order; read several at a time."""
        with ThreadPoolExecutor(CONCURRENT_READS) as pool:
            return list(pool.map(self.record, range(first, last + 1)))

    def newest_first(self, change: int) -> Iterator[ChangeRecord]:
        """A change record and all before it, each read when it is asked for."""
        return (self.record(number) for number in range(change, 0, -1))

    def is_committed(self, change: int) -> bool:
        """Whether there is a change of that number."""
        return self.store.get(self.layout.change_key(change)) is not None

    def snapshot(self, change: int) -> Snapshot:
        """The table after a change; the empty snapshot for change 0.

        Raises:
            IntegrityError: The change, or its snapshot, is missing.
            PastRetentionError: The snapshot is older than what is retained.
        """
        if change == 0:
            return Snapshot()
        key = self.record(change).snapshot_key
        data = self.store.get(key)
        if data is None:
            self.require_retained(change)
        return Snapshot.from_bytes(data if data is not None else self._read(key))

    def require_retained(self, change: int) -> None:
        """Check that the state after a change can still be read.

        Raises:
            PastRetentionError: It is no longer kept.
        """
        first = self.first_retained()
        if change < first:
            message = f"The state of {self.layout.name} after change {change} is no longer kept"
            raise PastRetentionError(message, remedy=f"Use change {first} or a later one")

    def write_snapshot(self, snapshot: Snapshot, run_id: str) -> str:
        """Store the snapshot that a change to come will point to; returns its key."""
        key = self.layout.snapshot_key(snapshot.change, run_id)
        self.store.put(key, snapshot.to_bytes())
        return key

    def fencing_token(self, change: int) -> int:
        """Number of the lease under which a change was made; 0 for change 0."""
        return self.record(change).fencing_token if change else 0

    def check_fence(self, change: int, token: int) -> None:
        """Refuse a run that goes on from a change which another run made under a later lease.

        Args:
            change: The change.
            token: Number of the run's lease.

        Raises:
            LeaseLostError: The run's lease ran out, and another run took the table over.
        """
        newest = self.fencing_token(change)
        if token < newest:
            message = f"The lease of {self.layout.name} ran out: its number is {token}, and number {newest} has written"
            raise LeaseLostError(message, remedy="Nothing to do: the run that has the table now does the work")

    def commit(self, record: ChangeRecord) -> None:
        """Append a change: the point of no return. The books and the lease's number are checked first.

        Raises:
            BooksError: The record's books do not balance.
            LeaseLostError: The change before was made under a later lease.
            CommitConflictError: Another run committed this number.
            CommitStateUnknownError: It cannot be told whether the record was written.
        """
        record.books.check()
        self.check_fence(record.change - 1, record.fencing_token)
        if not self.store.put_if_absent(self.layout.change_key(record.change), record.to_bytes()):
            message = f"Another run committed change {record.change} of {self.layout.name} first"
            raise CommitConflictError(message, remedy="Nothing of this run is visible; the next run goes on from there")

    def is_published(self, change: int) -> bool:
        """Whether every step of making a change visible is known to be done."""
        return self.store.get(self.layout.published_key(change)) is not None

    def mark_published(self, change: int, seconds: Mapping[str, float] | None = None) -> None:
        """Note that a change is fully visible.

        Args:
            change: The change.
            seconds: Duration of each phase since it was computed.
        """
        self.store.put(self.layout.published_key(change), json.dumps(dict(seconds or {})).encode())

    def seconds(self, record: ChangeRecord) -> dict[str, float]:
        """Duration of each phase of a change, in order, as far as it is known."""
        later = self.store.get(self.layout.published_key(record.change))
        return {**record.seconds, **(json.loads(later) if later else {})}

    def first_retained(self) -> int:
        """Number of the oldest change whose table can still be read or brought back; 1 if nothing was forgotten."""
        data = self.store.get(self.layout.first_retained_key)
        return int(data) if data else 1

    def mark_first_retained(self, change: int) -> None:
        """Note that what the table was before a change may be gone from now on."""
        self.store.put(self.layout.first_retained_key, str(change).encode())

    def cleaned_through(self) -> int:
        """Number of the change up to which retired files were deleted if no retained change needs them."""
        data = self.store.get(self.layout.cleaned_through_key)
        return int(data) if data else 0

    def mark_cleaned_through(self, change: int) -> None:
        """Note how far a clean-up came."""
        self.store.put(self.layout.cleaned_through_key, str(change).encode())

    def _read(self, key: str) -> bytes:
        data = self.store.get(key)
        if data is None:
            message = f"The change log of {self.layout.name} lacks an object"
            raise IntegrityError(message, remedy="Restore it from the bucket's versions before the next run", key=key)
        return data
