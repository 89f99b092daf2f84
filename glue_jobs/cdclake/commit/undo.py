"""Rollback and reapply: bring back the table's state after another change, byte for byte.

Both are changes themselves, so the change log only grows. They restore retired files and retire live ones, and write no
data. The watermark goes back with the table, so the next run reads the undone raw files again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING

from cdclake.commit.ancestry import content_change, parent, undone_changes
from cdclake.commit.log import require_place_of_history
from cdclake.commit.publish import KeepAlive, no_lease, publish
from cdclake.errors import ConfigurationError, PastRetentionError
from cdclake.model.change.books import Books
from cdclake.model.change.record import ChangeKind, ChangeRecord
from cdclake.model.table.attributes import Attribute

if TYPE_CHECKING:
    from cdclake.commit.log import ChangeLog
    from cdclake.model.snapshot import DataFile, Snapshot
    from cdclake.ports import Clock

MAX_NAMES = 3


@dataclass(frozen=True)
class UndoPlan:
    """A planned rollback or reapply.

    Attributes:
        kind: `ROLLBACK` or `REAPPLY`.
        as_of: Number of the change whose content the table gets.
        undone: Numbers of the changes that a rollback undoes or a reapply brings back, in order.
        before: The table now.
        after: The table afterwards.
        restored: Files to restore, also of the history.
        retired: Files to retire, also of the history.
    """

    kind: ChangeKind
    as_of: int
    undone: tuple[int, ...]
    before: Snapshot
    after: Snapshot
    restored: tuple[DataFile, ...]
    retired: tuple[DataFile, ...]

    def has_same_effect(self, other: UndoPlan) -> bool:
        """Whether the other plan changes the table in the same way, perhaps under another change number."""
        return self._effect == other._effect

    @property
    def fingerprint(self) -> str:
        """A hash of the plan's effect. It identifies the plan that the operator confirmed."""
        return sha256(json.dumps(self._effect, default=asdict).encode()).hexdigest()

    @property
    def _effect(self) -> tuple[object, ...]:
        return self.kind.value, self.as_of, self.undone, self.restored, self.retired

    def to_json(self) -> dict[str, object]:
        """The plan as JSON."""
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
    """Plan to undo the last change, or to roll back to an earlier one.

    Args:
        to: Number of the change to roll back to, 0 for the table before any change; None: undo the last change.

    Raises:
        ConfigurationError: The change does not exist or cannot be undone, there is nothing to undo, another table is
            where its history was, or the lake was moved since the change's Iceberg table was made.
        PastRetentionError: The change is no longer retained.
    """
    name, head = log.layout.name, log.head()
    current = content_change(log, head)
    if to is None:
        if not current:
            message = f"{name} has no change to undo"
            raise ConfigurationError(message, remedy=f"List its changes with cdclake changes {name.typed}")
        if log.record(current).kind is ChangeKind.ERASURE:
            message = f"The last change of {name}, change {current}, erased rows permanently and cannot be undone"
            remedy = "Choose an earlier change with --to; the erased rows stay erased there too"
            raise ConfigurationError(message, remedy=remedy)
        to = current - 1  # the newest change with the content that the last change started from
    if not 0 <= to < head:
        message = f"{name} has no change {to} to roll back to: its newest change is {head}"
        remedy = f"Choose a number from 0 to {head - 1}; list the changes with cdclake changes {name.typed}"
        raise ConfigurationError(message, remedy=remedy)
    as_of = content_change(log, to)
    if as_of == current:
        message = f"{name} already is as it was after change {to}"
        raise ConfigurationError(message, remedy=f"List its changes with cdclake changes {name.typed}")
    undone = _between(log, as_of, current)
    for change in undone:
        if log.record(change).kind is ChangeKind.ADOPTION:
            message = f"Change {change} adopted existing files as {name} and cannot be undone"
            raise ConfigurationError(message, remedy=f"Roll back to change {change} or a later one")
    return _plan(log, ChangeKind.ROLLBACK, head, to, as_of, undone)


def plan_reapply(log: ChangeLog) -> UndoPlan:
    """Plan to reapply what the last rollback undid, one change at a time; with it, those before that are not retained.

    Raises:
        ConfigurationError: No change was undone, a newer change made new content since, or another table is where its
            history was.
        PastRetentionError: The change is no longer retained.
    """
    head = log.head()
    changes = _to_reapply(log, head)
    if not changes:
        message = f"{log.layout.name} has no change to reapply"
        remedy = "A change can be reapplied after a rollback undid it, until another change changes the table"
        raise ConfigurationError(message, remedy=remedy)
    return _plan(log, ChangeKind.REAPPLY, head, changes[-1], changes[-1], tuple(changes))


def next_to_reapply(log: ChangeLog, head: int) -> int | None:
    """Number of the undone change that `plan_reapply` brings back; None if there is none that is retained."""
    changes = _to_reapply(log, head)
    return changes[-1] if changes and changes[-1] in log.retained() else None


def _to_reapply(log: ChangeLog, head: int) -> list[int]:
    """The first of the undone changes, and if it is not retained, those up to the next one that is."""
    changes, retained = undone_changes(log, head), log.retained()
    count = next((count for count, change in enumerate(changes, 1) if change in retained), 1)
    return changes[:count]


def undo_targets(log: ChangeLog, head: int) -> set[int]:
    """The changes that a rollback of the last change, and reapplies of what is undone, may bring back."""
    current = content_change(log, head)
    return {*([current - 1] if current else []), *undone_changes(log, head)}


def check_files_retained(log: ChangeLog, plan: UndoPlan, keep_alive: KeepAlive = no_lease) -> None:
    """Refuse a plan if any file to restore is no longer retained.

    Raises:
        PastRetentionError: Some are missing; names the first.
    """
    layout = log.layout
    keys = log.store.not_retained(layout.file_keys(file.path for file in plan.restored))
    keep_alive()
    missing = [layout.data_path_of(one.key) for one in keys]
    manifests = plan.after.manifest_keys
    folders = {key.rpartition("/")[0] + "/" for key in manifests}
    present = {entry.key for folder in folders for entry in log.store.list(folder)}
    missing += [key for key in manifests if key not in present]
    if missing:
        names = ", ".join(sorted(missing)[:MAX_NAMES]) + (", ..." if len(missing) > MAX_NAMES else "")
        count = len(plan.restored) + len(manifests)
        message = f"{len(missing)} of the {count} files to restore are no longer retained: {names}"
        remedy = "Retired files are kept for the retention time. Roll back to a later change, or reload the table"
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
    """Commit and publish a plan.

    Raises:
        PastRetentionError: Files to restore are no longer retained; nothing was changed.
        CommitConflictError: The table changed since the plan was made; nothing was changed.
        LeaseLostError: Another run took over the table.
    """
    check_files_retained(log, plan, keep_alive)
    now, then = ({file.path for file in snapshot.files} for snapshot in (plan.before, plan.after))
    restored = sum(file.live_rows for file in plan.after.files if file.path not in now)
    retired = sum(file.live_rows for file in plan.before.files if file.path not in then)
    record = ChangeRecord(
        change=plan.after.change,
        kind=plan.kind,
        run_id=run_id,
        fencing_token=fencing_token,
        books=Books(replaced=retired, restored=restored, rows_before=plan.before.rows, rows_after=plan.after.rows),
        retired=tuple(file.path for file in plan.retired),
        snapshot_key=log.write_snapshot(plan.after, run_id),
        restored=tuple(file.path for file in plan.restored),
        as_of=plan.as_of,
        reason=reason,
        made_by=made_by,
    ).with_iceberg(plan.before, plan.after)
    record = log.dated(record, clock)
    looked = log.commit(record)
    publish(log, record, keep_alive, looked=looked)
    return record


def _plan(log: ChangeLog, kind: ChangeKind, head: int, target: int, as_of: int, undone: tuple[int, ...]) -> UndoPlan:
    if target:
        log.require_retained(target)
    before = log.snapshot(head)
    after = log.snapshot(target)
    if after.history:
        remedy = (
            f"Set {Attribute.HISTORY} to false and apply the changes again instead: those from raw files are due when"
            " the table is turned on"
        )
        require_place_of_history(log, remedy)
    _require_lake_of(log, after, as_of)
    # The field ids of columns that are undone are not given to others.
    ids = replace(after.field_ids, last=max(after.field_ids.last, before.field_ids.last))
    # A rollback does not undo an erasure: older rows of erased keys stay out when their files are read again.
    after = replace(after, change=head + 1, field_ids=ids).with_erased(before.erased)
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


def _require_lake_of(log: ChangeLog, after: Snapshot, as_of: int) -> None:
    """Refuse to bring back Iceberg tables whose manifests name files elsewhere: rollbacks write no manifests."""
    lake_url = log.store.url("")
    for files in (after.iceberg, after.history.iceberg if after.history else None):
        if files and files.lake_url != lake_url:
            name = log.layout.name
            message = (
                f"Change {as_of} of {name} was made while the lake was at {files.lake_url}, and readers of its Iceberg"
                f" table would look for files there, not in {lake_url}"
            )
            remedy = (
                "Choose a change that was made here, or let DMS reload the table;"
                f" cdclake export {name.typed} --as-of {as_of} --to <folder> reads the rows of that change"
            )
            raise ConfigurationError(message, remedy=remedy, table=name)


def _between(log: ChangeLog, earlier: int, later: int) -> tuple[int, ...]:
    """The changes that lead from an earlier content change to a later one, in order."""
    undone = []
    change = later
    while change > earlier:
        undone.append(change)
        change = parent(log, change)
    return tuple(reversed(undone))
