"""Decides what to do for one table. Pure: it takes the state and the listings, and returns an inert decision."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from cdclake.control.plan.decision import Decision, DecisionKind
from cdclake.control.plan.full_load_gate import (
    due_loads,
    is_written_again,
    newest_load_utc,
    partial_reload,
    reload_command,
    wait_reason,
)
from cdclake.control.plan.left_out import MAX_NAMES, LeftOut, counted
from cdclake.control.plan.lost_files import PendingNote, vanished
from cdclake.control.plan.open_findings import OpenFindings
from cdclake.control.plan.seen_files import are_others
from cdclake.errors import ConfigurationError, IntegrityError
from cdclake.model.due_files import (
    begin_after,
    covered_by_full_load,
    covered_by_reload,
    first_batch,
    pending_changes,
    window_begin,
)
from cdclake.model.names import RunState, Sentinel
from cdclake.model.raw.files import MAX_STAMP_AHEAD, file_order, stamp_time
from cdclake.model.raw.ledger import Recorded
from cdclake.model.snapshot import LakeKeys, Snapshot, check_declared_types
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState
from cdclake.model.times import MAX_CLOCK_DIFFERENCE, display_stored, iso_utc

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from cdclake.control.plan.lost_files import Vanished
    from cdclake.model.due_files import Pending
    from cdclake.model.raw.files import RawFile, RawFiles

NO_CHANGE_EXPECTED = timedelta(days=1)
"""How long after its full load a table may be without changes until that is a finding."""
_NOTHING = Recorded()


def plan_table(
    state: TableState,
    files: RawFiles,
    now: datetime,
    lake: Snapshot | None = None,
    dms_state: str | None = None,
    *,
    recorded: Recorded = _NOTHING,
    complete: bool = True,
) -> Decision:
    """Decide what is due for a table, and add the open findings of its item; see `_plan_files`.

    Args:
        recorded: Those of the change files, and of the noted ones that are not listed, that the lake's ledger contains.
        complete: Whether these are all files of the table. Without the lake, a part is enough, see `RawScan`.

    Raises:
        ConfigurationError: An attribute of the state is invalid; names it.
        UnreadableFileError: A due change file is stamped in the future.
        IntegrityError: Such a file was applied.
    """
    listed_utc = state.seen.listed_utc
    if listed_utc and listed_utc > now + MAX_CLOCK_DIFFERENCE:  # nobody knows what was listed
        state = state.with_attributes(**{Attribute.LAST_SEEN: ""})
    decision = _plan_files(state, files, now, lake, dms_state, recorded)
    if not lake:
        decision = _with_lease(state, _with_other_work(state, decision, files, now, complete=complete), now)
    found = OpenFindings.of(state.item)
    opened = found.texts(state.name) if found else ()
    return replace(decision, findings=(*decision.findings, *_without_transactions(state, files, now), *opened))


def _without_transactions(state: TableState, files: RawFiles, now: datetime) -> tuple[str, ...]:
    """A finding if no change was ever read, and there is none a day after the full load: `CdcPath` may be mistyped."""
    if not files.no_transactions or state.checked_watermark or not _was_loaded(state):
        return ()
    if now - max([state.last_full_load_utc, *(file.modified_utc for file in files.full_load)]) < NO_CHANGE_EXPECTED:
        return ()
    folder = f"{state.bucket}/{state.transactions_folder}"
    text = (
        f"{Attribute.CDC_PATH}: {folder} holds no transaction file. Unless DMS has written no change yet, set it as in"
        f" the DMS endpoint: cdclake tables set {state.name.typed} --set '{Attribute.CDC_PATH}=<folder>'"
    )
    return (text,)


def _plan_files(
    state: TableState,
    files: RawFiles,
    now: datetime,
    lake: Snapshot | None,
    dms_state: str | None,
    recorded: Recorded,
) -> Decision:
    """Decide what is due for a table.

    A full load is due when a LOAD file was written after the last full load. It is taken when it has arrived
    completely; until then the changes wait too. An incremental is due when the lake lacks a change file, see
    `cdclake.model.due_files`. It takes the oldest files first, as many as one change may take. When a loaded
    table is loaded again, change files older than the new LOAD files are not applied, as the full load contains their
    changes.

    Args:
        files: What is in the raw folder.
        now: The time of the listing.
        lake: The lake table, which knows what was applied. Only the holder of the table's lease passes it. Without it
            the decision rests on the item: a leased table is `BUSY`. A table needs a `RESCAN` if a change file before
            the watermark was written since the last listing, or the files up to the watermark differ from the last
            run's, if an expired lease was not released, or if the last run or update of the catalog failed.
        dms_state: The result of `full_load_gate.dms_table_state`.
        recorded: See `plan_table`.

    Raises:
        ConfigurationError: An attribute of the state is invalid, or not the one that the lake table was created with.
        UnreadableFileError: A due change file is stamped in the future.
        IntegrityError: Such a file was applied.
    """
    if not state.active:
        reason = f"{Attribute.ACTIVE_FLAG} is not '{Sentinel.ACTIVE}'"
        return Decision(DecisionKind.INACTIVE, reason, to_activate(state))
    known = _known_lake(state, lake)
    loads = due_loads(state, files.full_load)
    stored = LeftOut.parse(state.left_out)
    wait = wait_reason(state, loads, now, dms_state) if loads else partial_reload(state, files.full_load, now)
    if wait:
        waiting_files = loads or files.full_load
        oldest_utc = _oldest(waiting_files)
        waiting = _blocked(DecisionKind.WAITING, *wait, known.watermark, len(waiting_files), oldest_utc)
        waiting = replace(waiting, note=state.item.get(Attribute.LAST_PENDING, ""))
        return _with_left_out(state, waiting, stored.updated(files))
    if not loads:
        _check_watermark_time(state, known.watermark, now)
        _check_watermark_by_hand(state, known.watermark, lake)
        keys = LakeKeys.of(lake) if lake else LakeKeys.parse(state.item.get(Attribute.LAST_KEYS, ""))
        if keys:
            keys.check(state.settings, state.name)
    if lake:
        check_declared_types(lake, state.settings, state.name, reloads=bool(loads))
    work = _due_files(state, known, loads, files.changes, lake, recorded)
    left_out = stored.updated(files, work.left_out)
    load = _time_of(files.full_load)
    lost = vanished(state, files, known, recorded if lake else None, load if loads else "")
    due = [file.relative for file in (*work.late, *work.changes)]
    decision = Decision(
        kind=work.kind,
        reason=_reason(state, work, files, left_out),
        watermark=known.watermark,
        new_watermark=work.end or known.watermark,
        first=work.batch[0].relative if work.batch else "",
        full_load_utc=newest_load_utc(loads),
        load_begin=work.load_begin,
        files=len(loads) + len(work.batch),
        bytes=sum(file.size_bytes for file in (*loads, *work.batch)),
        left=len(due) - len(work.batch),
        oldest_utc=_oldest(loads, work.late, work.changes),
        note=str(PendingNote.of(due, load)),
    )
    is_later = load != PendingNote.of_item(state.item).load
    if lost and not loads and is_later and is_written_again(state, files.full_load):
        # A reload ends it, also one of the same rows. Otherwise files with the same content count as copies.
        unknown = state.with_attributes(**{Attribute.LAST_FULL_LOAD_FILES: ""})
        return _plan_files(unknown, files, now, lake, dms_state, recorded)
    if lost:
        note = PendingNote.of([*lost.names, *due], load)
        decision = _frozen(state, decision, lost, note)
    return _with_left_out(state, decision, left_out)


def _time_of(loads: Sequence[RawFile]) -> str:
    """When the newest of some LOAD files was written; empty if there are none."""
    newest_utc = newest_load_utc(loads)
    return iso_utc(newest_utc) if newest_utc else ""


def _check_watermark_time(state: TableState, watermark: str, now: datetime) -> None:
    """Refuse to go on from a watermark in the future, behind which every change file would be late."""
    stamped_utc = stamp_time(file_order(watermark))
    if stamped_utc is None or stamped_utc - now <= MAX_STAMP_AHEAD:
        return
    name = state.name.typed
    message = f"The last applied change file is stamped in the future: {watermark}. All files before its stamp are late"
    remedy = (
        f"Move it out of the raw folder if it is there. Then undo its change (cdclake changes list {name},"
        f" cdclake rollback {name} --to <the change before>, cdclake tables activate {name}), or reload the table"
        f" ({reload_command(state)})"
    )
    raise IntegrityError(message, remedy=remedy, table=state.name)


def _check_watermark_by_hand(state: TableState, applied: str, lake: Snapshot | None) -> None:
    """Refuse a watermark that an operator set for a lake table that is not loaded again."""
    if not state.watermark_by_hand:
        return
    recorded = state.as_watermark(applied) if lake else state.recorded[Attribute.LAST_INCREMENTAL_FILE]
    name = state.name.typed
    message = (
        f"{Attribute.LAST_INCREMENTAL_FILE} was set to {state.last_incremental_file}, but the lake table contains the"
        f" changes up to {recorded}"
    )
    remedy = (
        f"Set it back: cdclake tables set {name} --set '{Attribute.LAST_INCREMENTAL_FILE}={recorded}'. To undo changes:"
        f" cdclake rollback {name}. To leave files out: {Attribute.IGNORE_FILES}. To load the table again:"
        f" {reload_command(state)}"
    )
    raise ConfigurationError(message, remedy=remedy, table=state.name)


def to_activate(state: TableState) -> str:
    """What an operator must do to activate an inactive table, or to leave it off."""
    name = state.name.typed
    if state.off_by_rollback:
        return (
            f"a rollback turned it off: check it, then turn it on (cdclake tables activate {name}), or leave it off"
            f" (cdclake tables pause {name})"
        )
    keys = "" if state.settings.primary_key else f"set its key (cdclake tables set {name} --primary-key ...), then "
    return f"{keys}turn it on (cdclake tables activate {name})"


def _frozen(state: TableState, decision: Decision, lost: Vanished, note: PendingNote) -> Decision:
    """The decision if files vanished.

    Args:
        note: The vanished files that have names, and those that are due.
    """
    reason = (
        f"change files that vanished from the raw bucket before they were applied: {lost}; later changes are not"
        " applied without them"
    )
    to_do = (
        "bring the files back, or have DMS reload the table, or continue without the changes that were in them:"
        f" cdclake tables unfreeze {state.name.typed}"
    )
    left = decision.files + decision.left
    frozen = _blocked(DecisionKind.FROZEN, reason, to_do, decision.watermark, left, decision.oldest_utc)
    if lost.others:  # only the note that counted them tells among which files they were
        return replace(frozen, note=state.item[Attribute.LAST_PENDING])
    return replace(frozen, note=str(note))


def _blocked(
    kind: DecisionKind, reason: str, to_do: str, watermark: str, left: int, oldest_utc: datetime | None
) -> Decision:
    """A decision to do nothing although raw files are due."""
    return Decision(kind, reason, to_do, watermark=watermark, new_watermark=watermark, left=left, oldest_utc=oldest_utc)


def _with_left_out(state: TableState, decision: Decision, left_out: LeftOut) -> Decision:
    return replace(
        decision,
        findings=left_out.findings(state.name),
        left_out=left_out.stored,
        too_late=len(left_out.too_late),
    )


def _oldest(*files: Sequence[RawFile]) -> datetime | None:
    return min((file.modified_utc for file in chain(*files)), default=None)


def _with_other_work(
    state: TableState, decision: Decision, files: RawFiles, now: datetime, *, complete: bool
) -> Decision:
    """Give a table of which no raw file is due a run for anything else. Its next change may be far off."""
    if decision.kind is not DecisionKind.NOTHING_NEW:
        return decision
    settings, item = state.settings, state.item
    if LeftOut.parse(state.left_out).is_outdated(LeftOut.parse(decision.left_out)):
        # A run stores it, so that later plans, which list a part, show it too.
        reason = "the raw files that are left out have changed"
    elif are_others(state, files.changes, complete=complete):
        reason = f"change files up to {state.checked_watermark} appeared, changed or vanished since the last run"
    elif item.get(Attribute.LAST_CATALOG_ERROR):
        reason = f"the catalog could not be updated: {item[Attribute.LAST_CATALOG_ERROR]}"
    elif state.needs_clean_up(now):
        days = f"{Attribute.RETENTION_DAYS}: {settings.retention_days}"
        every = f"{Attribute.KEEP_EVERY_STATE}: {settings.keep_every_state}"
        reason = f"states are no longer to be kept ({days}, {every})"
        return replace(decision, kind=DecisionKind.CLEAN_UP, reason=reason)
    elif state.leased(now):
        return decision
    elif Attribute.LEASE_HOLDER in item:  # any other run cleans up after the dead one too
        fault, until = state.lease_fault(now), display_stored(item.get(Attribute.LEASE_EXPIRES_UTC, ""))
        end = f"counts as expired: {fault}" if fault else f"expired at {until}"
        reason = f"run {item[Attribute.LEASE_HOLDER]} did not release its lease, which {end}"
    elif item.get(Attribute.LAST_RUN_STATE) == RunState.FAILED:  # it may be that what stopped it is gone
        reason = "the last run failed"
    else:
        return decision
    return replace(decision, kind=DecisionKind.RESCAN, reason=reason)


def _with_lease(state: TableState, decision: Decision, now: datetime) -> Decision:
    """Adjust a decision if a run holds the table's lease, or if the lease is broken."""
    holder, until = state.item.get(Attribute.LEASE_HOLDER), state.item.get(Attribute.LEASE_EXPIRES_UTC, "")
    if state.leased(now) and decision.work:
        reason = f"leased by {holder} until {display_stored(until)}; {decision.reason}"
        return replace(decision, kind=DecisionKind.BUSY, reason=reason)
    if fault := state.lease_fault(now):
        text = f"the lease of run {holder} counts as expired, and the next run or command takes the table over: {fault}"
        return replace(decision, findings=(*decision.findings, text))
    return decision


class _DueFiles(NamedTuple):
    """The raw files of a decision.

    Attributes:
        base: The lake table that the change files apply to, apart from the full load's rows.
        load_begin: See `Decision.load_begin`.
        loads: LOAD files, if a full load is due.
        changes: Change files after the watermark.
        late: Change files before the watermark that were never applied.
        batch: The oldest of both, as many as one change may take.
        maybe_late: Change files up to the watermark that were written since the last run, if it is unknown what was
            applied.
        left_out: What change files are due, too late and overwritten; None if it is unknown what was applied.
    """

    base: Snapshot
    load_begin: str
    loads: list[RawFile]
    changes: list[RawFile]
    late: list[RawFile]
    batch: Sequence[RawFile]
    maybe_late: list[RawFile]
    left_out: Pending | None

    @property
    def end(self) -> str:
        """Relative key of the last change file to apply; empty if that is the watermark."""
        return self.batch[-1].relative if len(self.batch) != len(self.late) else ""

    @property
    def kind(self) -> DecisionKind:
        kinds = {
            (True, True): DecisionKind.BOTH,
            (True, False): DecisionKind.FULL_LOAD,
            (False, True): DecisionKind.INCREMENTAL,
            (False, False): DecisionKind.RESCAN if self.maybe_late else DecisionKind.NOTHING_NEW,
        }
        return kinds[bool(self.loads), bool(self.batch)]


def _due_files(
    state: TableState,
    known: Snapshot,
    loads: list[RawFile],
    change_files: Sequence[RawFile],
    lake: Snapshot | None,
    recorded: Recorded,
) -> _DueFiles:
    settings = state.settings
    # The first full load covers no change file, as none is known to be older than the data that it reads.
    exists = state.last_change > 0 if lake is None else lake.exists
    load_begin = _load_begin(state, loads, change_files) if loads and (state.watermark_by_hand or not exists) else ""
    reload = bool(loads) and (exists or _was_loaded(state))
    base = (
        begin_after(known, load_begin or (covered_by_reload(known, loads, change_files) if reload else ""))
        if loads
        else known
    )
    pending = pending_changes(base, change_files, settings.late_window_hours, _NOTHING if loads else recorded)
    watermark = file_order(base.watermark)
    changes = [file for file in pending.due if file.order > watermark]
    late = pending.due[: len(pending.due) - len(changes)]
    if lake is None:
        late, maybe_late = [], _maybe_late(state, base, change_files)
        batch = first_batch(changes, settings.max_files_per_run, settings.max_bytes_per_run)
        return _DueFiles(base, load_begin, loads, changes, late, batch, maybe_late, None)
    batch = first_batch([*late, *changes], settings.max_files_per_run, settings.max_bytes_per_run)
    return _DueFiles(base, load_begin, loads, changes, late, batch, [], pending)


def _load_begin(state: TableState, loads: Sequence[RawFile], change_files: Sequence[RawFile]) -> str:
    """The last change file that the due full load contains, according to the operator; empty if that is not set.

    Raises:
        ConfigurationError: A change file up to there was written after the full load, so its changes would be lost.
    """
    begin = state.checked_watermark
    covered = file_order(covered_by_full_load(loads, change_files))
    lost = [file.relative for file in change_files if covered < file.order <= file_order(begin)]
    if lost:
        message = (
            f"{Attribute.LAST_INCREMENTAL_FILE} says that the full load contains the changes up to {begin}, but files"
            f" up to there were written after it: {counted(lost, 'file')}"
        )
        remedy = f"Set it to {state.path}{Sentinel.FIRST_FILE}: then the full load decides where the changes begin"
        raise ConfigurationError(message, remedy=remedy, table=state.name)
    return begin


def _maybe_late(state: TableState, base: Snapshot, change_files: Sequence[RawFile]) -> list[RawFile]:
    """Change files up to the watermark that were written since the last run: late, delivered again or overwritten."""
    since, floor, watermark = state.seen.listed_utc, file_order(base.floor), file_order(base.watermark)
    there = [file for file in change_files if floor < file.order <= watermark]
    if since is None:  # the last change may have been undone, too, see `RegisteredTable.rollback`
        begin = window_begin(base, state.settings.late_window_hours)
        return [file for file in there if file.order >= begin]
    overwritten = [file for file in there if file.order == watermark and file.modified_utc > since]
    return [*(file for file in there if file.order < watermark and file.modified_utc >= since), *overwritten]


def _known_lake(state: TableState, lake: Snapshot | None) -> Snapshot:
    """The lake table as far as it is known. While it does not exist, the item holds where the changes begin."""
    if lake is None:
        return Snapshot(change=state.last_change, watermark=state.checked_watermark)
    return lake if lake.exists else begin_after(lake, state.checked_watermark)


def _was_loaded(state: TableState) -> bool:
    return state.last_full_load_utc.strftime(TableState.DATE_FORMAT) != Sentinel.NEVER_LOADED


def _reason(state: TableState, work: _DueFiles, files: RawFiles, left_out: LeftOut) -> str:
    parts = []
    if work.loads:
        date = state.last_full_load_utc.strftime(TableState.DATE_FORMAT)
        why = f"as they changed since the last full load ({date})" if _was_loaded(state) else "for the first time"
        parts.append(f"{_count(work.loads, 'LOAD file')} to load, {why}")
    if work.changes:
        parts.append(f"{_count(work.changes, 'change file')} after {work.base.watermark or 'the full load'}")
    if work.loads and not state.last_change:
        covered = file_order(covered_by_full_load(work.loads, files.changes))
        older = [file for file in work.changes if file.order <= covered]
        if older:
            parts.append(
                f"{len(older)} of them written before the LOAD files: if these contain the changes, set"
                f" {Attribute.LAST_INCREMENTAL_FILE} to {state.as_watermark(older[-1].relative)}"
            )
    if work.late:
        parts.append(f"{_count(work.late, 'change file')} arrived late: {_names(work.late)}")
    if len(work.batch) < len(work.late) + len(work.changes):
        parts.append(f"the oldest {len(work.batch)} of them first")
    if work.maybe_late and not parts:
        parts.append(f"{_count(work.maybe_late, 'change file')} may have arrived late: {_names(work.maybe_late)}")
    if not parts and left_out.unaccepted:
        parts.append("no raw file is due")
    elif not parts:
        parts.append("every raw file is accounted for" if any(files) else "there are no raw files")
    if not work.loads and is_written_again(state, files.full_load):
        parts.append("LOAD files written again have the same content")
    if files.ignored:
        parts.append(f"{_count(files.ignored, 'raw file')} left out by {Attribute.IGNORE_FILES}")
    return "; ".join(parts)


def _names(files: Sequence[RawFile]) -> str:
    names = ", ".join(file.relative for file in files[:MAX_NAMES])
    return f"{names}, ..." if len(files) > MAX_NAMES else names


def _count(files: Sequence[RawFile], what: str) -> str:
    return f"{len(files)} {what}{'' if len(files) == 1 else 's'}"
