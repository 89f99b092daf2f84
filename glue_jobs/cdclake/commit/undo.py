"""Rollback and reapply: the table becomes again what it was after another change, file by file and byte by byte.

Either is a change of its own, so history only grows; it brings retired files back and retires others, and writes no
data. The watermark goes with the table, so that what was undone is new again to the next run.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING

from cdclake.commit.publish import KeepAlive, in_parallel, no_lease, publish
from cdclake.commit.timeline import made_from, next_to_reapply, shows
from cdclake.errors import ConfigurationError, PastRetentionError
from cdclake.model.change import Books, ChangeKind, ChangeRecord

if TYPE_CHECKING:
    from cdclake.commit.log import ChangeLog
    from cdclake.model.snapshot import DataFile, Snapshot
    from cdclake.ports import Clock

MOST_NAMES = 3


@dataclass(frozen=True)
class UndoPlan:
    """A rollback or reapply that is decided and not done.

    Attributes:
        kind: Which of them.
        as_of: Number of the change whose table is to be shown.
        undone: Numbers of the changes that the table will be without (rollback), or with again (reapply), in order.
        before: The table now.
        after: The table to be.
        restored: Files to bring back, those of the history included.
        retired: Files to take out of sight, likewise.
    """

    kind: ChangeKind
    as_of: int
    undone: tuple[int, ...]
    before: Snapshot
    after: Snapshot
    restored: tuple[DataFile, ...]
    retired: tuple[DataFile, ...]

    def does_the_same_as(self, other: UndoPlan) -> bool:
        """Whether the other undoes and shows the same; the number of the change it makes may be another."""
        return self._deed == other._deed

    @property
    def fingerprint(self) -> str:
        """The same text for plans that do the same, and for no others: it says what a person agreed to."""
        return sha256(json.dumps(self._deed, default=asdict).encode()).hexdigest()

    @property
    def _deed(self) -> tuple[object, ...]:
        return self.kind.value, self.as_of, self.undone, self.restored, self.retired

    def to_json(self) -> dict[str, object]:
        """Good for JSON. Byte sizes are those of the files that come back and go."""
        return {
            "kind": self.kind.value,
            "change": self.after.change,
            "as_of": self.as_of,
            "changes": list(self.undone),
            "rows_before": self.before.rows,
            "rows_after": self.after.rows,
            "files_restored": len(self.restored),
            "bytes_restored": sum(file.bytes for file in self.restored),
            "files_retired": len(self.retired),
            "bytes_retired": sum(file.bytes for file in self.retired),
            "watermark_before": self.before.watermark,
            "watermark_after": self.after.watermark,
            "full_load_before": self.before.full_load_utc,
            "full_load_after": self.after.full_load_utc,
        }


def plan_rollback(log: ChangeLog, to: int | None = None) -> UndoPlan:
    """Decide how to undo the change that made the table as it is, or to go back to an earlier change.

    Args:
        log: The table's change log.
        to: Number of the change to go back to, 0 for the table before any; None: undo the last change.

    Raises:
        ConfigurationError: There is no such change, or nothing to undo.
        PastRetentionError: The table of that change is no longer kept.
    """
    name, head = log.layout.name, log.head()
    shown = shows(log, head)
    if to is None:
        if not shown:
            message = f"{name} has no change to undo"
            raise ConfigurationError(message, remedy="cdclake changes lists its changes")
        if log.record(shown).kind is ChangeKind.ERASURE:
            message = f"The last change of {name}, change {shown}, erased rows for good, and cannot be undone"
            remedy = "Name with --to what to go back to: the table is as it was then, but without these rows"
            raise ConfigurationError(message, remedy=remedy)
        to = shown - 1  # the newest number that shows the table from which the change was made
    if not 0 <= to < head:
        message = f"{name} has no change {to} to go back to: its newest is {head}"
        raise ConfigurationError(message, remedy=f"Name a number from 0 to {head - 1}; cdclake changes lists them")
    as_of = shows(log, to)
    if as_of == shown:
        message = f"{name} is as it was after change {to} already"
        raise ConfigurationError(message, remedy="cdclake changes lists its changes")
    undone = _between(log, as_of, shown)
    for change in undone:
        if log.record(change).kind is ChangeKind.ADOPTION:
            message = f"Change {change} took over files of {name} that were there before, and cannot be undone"
            raise ConfigurationError(message, remedy=f"Go back to change {change} or a later one")
    return _plan(log, ChangeKind.ROLLBACK, head, to, as_of, undone)


def plan_reapply(log: ChangeLog) -> UndoPlan:
    """Decide how to do again what the last rollback undid, a change at a time.

    Raises:
        ConfigurationError: Nothing was undone, or something new was made since.
        PastRetentionError: The table of that change is no longer kept.
    """
    head = log.head()
    change = next_to_reapply(log, head)
    if change is None:
        message = f"{log.layout.name} has no change to apply again"
        remedy = "Only what a rollback undid can be applied again, and only until something else changes the table"
        raise ConfigurationError(message, remedy=remedy)
    return _plan(log, ChangeKind.REAPPLY, head, change, change, (change,))


def check_kept(log: ChangeLog, plan: UndoPlan, keep_alive: KeepAlive = no_lease) -> None:
    """Refuse a plan whose retired files are no longer all kept.

    Raises:
        PastRetentionError: Some are gone; names the first.
    """
    layout, gone = log.layout, list[str]()

    def look(file: DataFile) -> None:
        if not log.store.is_kept(layout.data_key(file.path), layout.retired_key(file.path)):
            gone.append(file.path)

    in_parallel(look, plan.restored, keep_alive)
    if gone:
        names = ", ".join(sorted(gone)[:MOST_NAMES]) + (", ..." if len(gone) > MOST_NAMES else "")
        message = f"{len(gone)} of the {len(plan.restored)} files to bring back are no longer kept: {names}"
        remedy = "Go back to a later change, or load the table anew; retired files are kept for the retention time"
        raise PastRetentionError(message, remedy=remedy, table=log.layout.name)


def apply_undo(
    log: ChangeLog,
    plan: UndoPlan,
    run_id: str,
    fencing_token: int,
    clock: Clock,
    *,
    reason: str = "",
    made_by: str = "",
    keep_alive: KeepAlive = no_lease,
) -> ChangeRecord:
    """Commit a plan and make it visible.

    Raises:
        PastRetentionError: Files to bring back are no longer kept; nothing was changed.
        CommitConflictError: The table changed since the plan was made; nothing was changed.
        LeaseLostError: Another run took the table over.
    """
    check_kept(log, plan, keep_alive)
    now, then = ({file.path for file in snapshot.files} for snapshot in (plan.before, plan.after))
    restored = sum(file.live_rows for file in plan.after.files if file.path not in now)
    retired = sum(file.live_rows for file in plan.before.files if file.path not in then)
    record = ChangeRecord(
        change=plan.after.change,
        kind=plan.kind,
        created_utc=clock().isoformat(timespec="seconds"),
        run_id=run_id,
        fencing_token=fencing_token,
        raw_files=(),
        books=Books(replaced=retired, restored=restored, rows_before=plan.before.rows, rows_after=plan.after.rows),
        added=(),
        retired=tuple(file.path for file in plan.retired),
        snapshot_key=log.write_snapshot(plan.after, run_id),
        restored=tuple(file.path for file in plan.restored),
        as_of=plan.as_of,
        reason=reason,
        made_by=made_by,
    )
    log.commit(record)
    publish(log, record, keep_alive)
    return record


def _plan(log: ChangeLog, kind: ChangeKind, head: int, target: int, as_of: int, undone: tuple[int, ...]) -> UndoPlan:
    if target:
        log.require_retained(target)
    before = log.snapshot(head)
    after = replace(log.snapshot(target), change=head + 1)
    now, then = ({file.path for file in snapshot.all_files} for snapshot in (before, after))
    return UndoPlan(
        kind=kind,
        as_of=as_of,
        undone=undone,
        before=before,
        after=after,
        restored=tuple(file for file in after.all_files if file.path not in now),
        retired=tuple(file for file in before.all_files if file.path not in then),
    )


def _between(log: ChangeLog, earlier: int, later: int) -> tuple[int, ...]:
    """Changes that made the later table from the earlier one, in order."""
    undone = []
    change = later
    while change > earlier:
        undone.append(change)
        change = made_from(log, change)
    return tuple(reversed(undone))
