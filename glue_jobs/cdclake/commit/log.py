"""A lake table's change log: the one place that says what the table is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.errors import CommitConflictError, IntegrityError
from cdclake.model.snapshot import ChangeRecord, Snapshot

if TYPE_CHECKING:
    from cdclake.model.layout import LakeLayout
    from cdclake.ports import ObjectStore


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

    def snapshot(self, change: int) -> Snapshot:
        """The table after a change; the empty snapshot for change 0.

        Raises:
            IntegrityError: The change, or its snapshot, is missing.
        """
        if change == 0:
            return Snapshot()
        return Snapshot.from_bytes(self._read(self.record(change).snapshot_key))

    def write_snapshot(self, snapshot: Snapshot, run_id: str) -> str:
        """Store the snapshot that a change to come will point to; returns its key."""
        key = self.layout.snapshot_key(snapshot.change, run_id)
        self.store.put(key, snapshot.to_bytes())
        return key

    def commit(self, record: ChangeRecord) -> None:
        """Append a change: the point of no return. The books are checked first.

        Raises:
            BooksError: The record's books do not balance.
            CommitConflictError: Another run committed this number.
            CommitStateUnknownError: It cannot be told whether the record was written.
        """
        record.books.check()
        if not self.store.put_if_absent(self.layout.change_key(record.change), record.to_bytes()):
            message = f"Another run committed change {record.change} of {self.layout.name} first"
            raise CommitConflictError(message, remedy="Nothing of this run is visible; the next run goes on from there")

    def is_published(self, change: int) -> bool:
        """Whether every step of making a change visible is known to be done."""
        return self.store.get(self.layout.published_key(change)) is not None

    def mark_published(self, change: int) -> None:
        """Note that a change is fully visible."""
        self.store.put(self.layout.published_key(change), b"")

    def _read(self, key: str) -> bytes:
        data = self.store.get(key)
        if data is None:
            message = f"The change log of {self.layout.name} lacks an object"
            raise IntegrityError(message, remedy="Restore it from the bucket's versions before the next run", key=key)
        return data
