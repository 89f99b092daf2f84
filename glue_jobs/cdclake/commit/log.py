"""A lake table's change log: the only source of truth about the table."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import datetime
from itertools import takewhile
from typing import TYPE_CHECKING

from cdclake import logs
from cdclake.commit.storable import require_storable
from cdclake.concurrency import in_parallel
from cdclake.errors import CommitConflictError, ConfigurationError, IntegrityError, LeaseLostError, PastRetentionError
from cdclake.model.change.delay import Delay
from cdclake.model.change.record import ChangeRecord
from cdclake.model.layout import HISTORY_SUFFIX
from cdclake.model.retained import Retained
from cdclake.model.snapshot import Snapshot
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.name import TableName
from cdclake.model.times import MAX_CLOCK_DIFFERENCE, display_utc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cdclake.model.layout import LakeLayout
    from cdclake.model.snapshot import ErasedKeys
    from cdclake.ports import Clock, ObjectStore


MARKED_EVERY = 16
"""Of so many published changes one is marked, so that the newest is found with one short listing."""
_logger = logs.bind(__name__)


class ChangeLog:
    """Reads and appends change records and snapshots.

    Args:
        store: The lake bucket.
        layout: Keys of the table's objects in the bucket.
    """

    def __init__(self, store: ObjectStore, layout: LakeLayout) -> None:
        self.store = store
        self.layout = layout
        self._newest_read: ChangeRecord | None = None
        self._written = ("", Snapshot())

    def head(self) -> int:
        """Number of the newest committed change; 0 if the table has none.

        Lists only the records after the last change that was marked for this, see `mark_newest_published`.
        """
        newest = self._number(self.layout.newest_published_key, default=0)
        for entry in self.store.list(self.layout.changes_prefix, self.layout.change_key(newest) if newest else ""):
            number = entry.key[len(self.layout.changes_prefix) :].split(".")[0]
            if number.isascii() and number.isdigit():
                newest = max(newest, int(number))
        return newest

    def after_commit(self) -> Snapshot:
        """The table after the newest change that was committed or read here; not read again if it was written here.

        Only for whoever has just committed: an erasure rewrites snapshots later.
        """
        key, snapshot = self._written
        if self._newest_read is None:
            return Snapshot()
        return snapshot if key == self._newest_read.snapshot_key else self.snapshot_of(self._newest_read)

    def record(self, change: int) -> ChangeRecord:
        """Read one change record; see `find_record`.

        Raises:
            IntegrityError: The record is missing.
        """
        record = self.find_record(change)
        if record is None:
            raise self._missing(self.layout.change_key(change))
        return record

    def find_record(self, change: int) -> ChangeRecord | None:
        """Read one change record; None if there is no such change.

        Records never change, so the newest one is read once: a run needs it several times.
        """
        newest = self._newest_read
        if newest and newest.change == change:
            return newest
        key = self.layout.change_key(change)
        data = self.store.get(key)
        if data is None:
            return None
        record = ChangeRecord.from_bytes(data, key)
        if newest is None or change > newest.change:
            self._newest_read = record
        return record

    def records(self, first: int, last: int) -> list[ChangeRecord]:
        """Read the change records from `first` to `last`, both included, in order; several at a time."""
        return self.records_of(range(first, last + 1))

    def records_of(self, changes: Iterable[int]) -> list[ChangeRecord]:
        """Read the records of these changes, in the given order; several at a time."""
        return in_parallel(self.record, changes, self.store.calls_at_once)

    def newest_first(self, change: int) -> Iterator[ChangeRecord]:
        """The change records from `change` back to the first, read lazily."""
        return (self.record(number) for number in range(change, 0, -1))

    def newest_before(self, moment: datetime, head: int) -> int:
        """Number of the newest change up to `head` committed at or before a time in UTC; 0 if none was.

        Commit times follow the change numbers, so a binary search takes few reads.
        """
        low, high = 0, head
        while low < high:
            middle = (low + high + 1) // 2
            if datetime.fromisoformat(self.record(middle).created_utc) <= moment:
                low = middle
            else:
                high = middle - 1
        return low

    def is_committed(self, change: int) -> bool:
        """Whether a change with that number exists."""
        return self.store.get(self.layout.change_key(change)) is not None

    def snapshot(self, change: int) -> Snapshot:
        """The table after a change; the empty snapshot for change 0.

        Raises:
            IntegrityError: The change or its snapshot is missing.
            PastRetentionError: The change is no longer retained.
        """
        if change == 0:
            return Snapshot()
        return self.snapshot_of(self.record(change))

    def snapshot_of(self, record: ChangeRecord) -> Snapshot:
        """The table after the change of a record.

        Raises:
            As `snapshot`.
        """
        key = record.snapshot_key
        data = self.store.get(key)
        if data is None:
            self.require_retained(record.change)
        return Snapshot.from_bytes(data if data is not None else self.read(key), key)

    def require_retained(self, change: int) -> None:
        """Check that a change is retained.

        Raises:
            PastRetentionError: It is not.
        """
        retained = self.retained()
        if change in retained:
            return
        message = f"Change {change} of {self.layout.name} is no longer retained"
        before, after = retained.nearest(change)
        remedy = f"Use change {after} or a later one"
        if before:
            earlier, later = (f"{one} of {display_utc(self.record(one).created_utc)}" for one in (before, after))
            remedy = f"Use the nearest retained ones: change {earlier}, or change {later}"
        raise PastRetentionError(message, remedy=remedy)

    def write_snapshot(self, snapshot: Snapshot, run_id: str) -> str:
        """Store the snapshot of a change that is not committed yet; returns its key."""
        key = self.layout.snapshot_key(snapshot.change, run_id)
        self.store.put(key, snapshot.to_bytes())
        self._written = (key, snapshot)
        return key

    def fencing_token(self, change: int) -> int:
        """Fencing token of the lease under which a change was made; 0 for change 0."""
        return self.record(change).fencing_token if change else 0

    def check_fence(self, change: int, token: int) -> None:
        """Refuse a run whose fencing token is older than the token of the change from which it continues.

        Raises:
            LeaseLostError: The run's lease expired, and another run took over the table.
        """
        newest = self.fencing_token(change)
        if token < newest:
            message = f"The lease of {self.layout.name} expired: its token is {token}, and token {newest} has written"
            raise LeaseLostError(message, remedy="Nothing to do: the run that holds the lease now does the work")

    def dated(self, record: ChangeRecord, clock: Clock) -> ChangeRecord:
        """The record of a change to come, with its time: now, and never before the change before it.

        Reads as of a time and the retention time search the log by these times. Two changes of one second have the same
        time, and as of that second the later one counts.
        """
        now = clock().replace(microsecond=0)
        before = now if record.change == 1 else datetime.fromisoformat(self.record(record.change - 1).created_utc)
        behind = before - now
        if behind > MAX_CLOCK_DIFFERENCE:
            shown = now.isoformat()
            name, seconds = self.layout.name, round(behind.total_seconds())
            _logger.warning("%s: the clock shows %s, %d s before change %d", name, shown, seconds, record.change - 1)
            record = replace(record, clock_utc=shown)
        return replace(record, created_utc=max(now, before).isoformat(timespec="seconds"))

    def commit(self, record: ChangeRecord) -> float:
        """Append a change: the point of no return. Checks books, keys of files and fencing token first.

        Returns:
            A time, as of `time.time()`, before which there was no later change.

        Raises:
            BooksError: The record's books do not balance.
            InputError: The store cannot hold the change's data files; see `require_storable`.
            LeaseLostError: The change before was made under a later lease.
            CommitConflictError: Another run committed this number.
            CommitStateUnknownError: The record may have been written or not.
        """
        record.check()
        require_storable(self.store, self.layout, record.added)
        self.check_fence(record.change - 1, record.fencing_token)
        now = time.time()
        if not self.store.put_if_absent(self.layout.change_key(record.change), record.to_bytes()):
            message = f"Another run committed change {record.change} of {self.layout.name} first"
            raise CommitConflictError(message, remedy="This run had no effect; the next run continues from that change")
        self._newest_read = record
        return now

    def unfinished_erasures(self, lake: Snapshot) -> tuple[ErasedKeys, ...]:
        """The erasures whose older rows may still arrive and that are not marked as done, ascending.

        Args:
            lake: The table after its newest change.
        """
        marks = {mark.key for mark in self.store.list(self.layout.erasures_folder)} if lake.erased else ()
        return tuple(erased for erased in lake.erased if self.layout.erasure_key(erased.change) not in marks)

    def is_published(self, change: int) -> bool:
        """Whether a change is marked as published."""
        return self.store.get(self.layout.published_key(change)) is not None

    def mark_published(self, change: int, seconds: Mapping[str, float] | None = None) -> None:
        """Record that a change is fully visible, and the duration of each phase after it was computed."""
        self.store.put(self.layout.published_key(change), json.dumps(dict(seconds or {})).encode())

    def mark_newest_published(self, change: int) -> None:
        """Let `head` look after this change, which is marked as published, if it is one of each `MARKED_EVERY`."""
        if change % MARKED_EVERY == 0:
            self.store.put(self.layout.newest_published_key, str(change).encode())

    def seconds(self, record: ChangeRecord) -> dict[str, float]:
        """Known durations of a change's phases, in order."""
        later = self.store.get(self.layout.published_key(record.change))
        return {**record.seconds, **(json.loads(later) if later else {})}

    def delays(self, records: Sequence[ChangeRecord]) -> dict[int, Delay]:
        """How long change files waited for changes, by number, without changes of which it is unknown.

        A change is visible when its mark as published is written. One request lists a thousand marks.

        Args:
            records: Changes, in order.
        """
        dated = [record for record in records if record.oldest_written_utc]
        if not dated:
            return {}
        end = self.layout.published_key(dated[-1].change)
        marks = self.store.list(self.layout.published_folder, self.layout.published_key(dated[0].change - 1))
        written = {mark.key: mark.modified_utc for mark in takewhile(lambda mark: mark.key <= end, marks)}
        found = {one.change: Delay.of(one, written.get(self.layout.published_key(one.change))) for one in dated}
        return {change: delay for change, delay in found.items() if delay}

    def retained(self) -> Retained:
        """Which changes are retained, so that they can be read and rolled back to; all before any clean-up."""
        return Retained.from_bytes(self.store.get(self.layout.retained_key), self.layout.retained_key)

    def mark_retained(self, retained: Retained) -> None:
        """Record that no other changes are retained; its time begins the grace of their files.

        What is no longer retained stays so: a run may be paused here past its lease, and another one record less.
        """
        key = self.layout.retained_key
        while True:
            old = self.store.get(key)
            new = (retained & Retained.from_bytes(old, key)).to_bytes()
            if self.store.put_if_absent(key, new) if old is None else self.store.put_if_unchanged(key, new, old):
                return

    def cleaned(self) -> Retained:
        """What was retained at the last clean-up that deleted all that other changes had needed."""
        return Retained.from_bytes(self.store.get(self.layout.cleaned_key), self.layout.cleaned_key)

    def mark_cleaned(self, retained: Retained) -> None:
        """Record how far a clean-up got."""
        self.store.put(self.layout.cleaned_key, retained.to_bytes())

    def files_checked_to(self) -> str:
        """Key of the last data file that `table_files.check_next_files` compared; empty: it begins at the first."""
        return (self.store.get(self.layout.files_checked_to_key) or b"").decode()

    def mark_files_checked_to(self, key: str) -> None:
        """Record where the next run continues to compare data files."""
        self.store.put(self.layout.files_checked_to_key, key.encode())

    def _number(self, key: str, default: int) -> int:
        data = self.store.get(key)
        return int(data) if data else default

    def read(self, key: str) -> bytes:
        """Read an object that the change log names.

        Raises:
            IntegrityError: It is missing.
        """
        data = self.store.get(key)
        if data is None:
            raise self._missing(key)
        return data

    def _missing(self, key: str) -> IntegrityError:
        message = f"An object of the change log of {self.layout.name} is missing"
        return IntegrityError(message, remedy=ways_back(self.layout), key=key)


def ways_back(layout: LakeLayout) -> str:
    """What to do when a part of a change log is missing."""
    name = layout.name.typed
    return (
        f"Restore what is missing in {layout.bucket}/{layout.control_prefix} from the bucket's versions or a backup."
        f" If it is lost for good, delete that folder and the data files in {layout.bucket}/{layout.table_prefix}, then"
        f" load the table again from its raw files: cdclake tables reset {name}, then cdclake run"
    )


def has_namesake(log: ChangeLog) -> bool:
    """Whether another table has the name of the table's history, and so its folders.

    Of a history and such a table, the one that has the folders first keeps them: a history while it is live, a table
    once it has a change.
    """
    return bool(ChangeLog(log.store, log.layout.history).head())


def require_place_of_history(log: ChangeLog, remedy: str) -> None:
    """Refuse what needs the place of a table's history if another table has it.

    Args:
        remedy: What to do instead.

    Raises:
        ConfigurationError: Another table has it.
    """
    if has_namesake(log):
        name = log.layout.name
        message = f"The history of {name} needs a folder that the table {log.layout.history.name} uses"
        raise ConfigurationError(message, remedy=remedy, table=name)


def require_place_of_table(log: ChangeLog) -> None:
    """Refuse to work on a table in whose place the history of another one is.

    Raises:
        ConfigurationError: The other one has a history.
    """
    name = log.layout.name
    other = name.table[: -len(HISTORY_SUFFIX)] if name.table.endswith(HISTORY_SUFFIX) else ""
    if not other:
        return
    owner = TableName(name.schema, other)
    owner_log = ChangeLog(log.store, replace(log.layout, name=owner))
    if owner_log.snapshot(owner_log.head()).history:
        message = f"The folder of {name} contains the history of {owner}"
        remedy = ways_out(owner) if log.head() else "Let a DMS mapping rule rename the table"
        raise ConfigurationError(message, remedy=remedy, table=name)


def ways_out(owner: TableName) -> str:
    """What to do when a history and another table are in one place already, as after both began at the same time.

    Args:
        owner: The table with the history.
    """
    return (
        f"Roll {owner} back to a change from before its history with cdclake rollback {owner.typed} --to, and set its"
        f" {Attribute.HISTORY} to false before you turn it on; the next change of the other table then shows its rows"
    )
