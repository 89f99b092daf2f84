"""Operations on a lake table: change, undo, repair, clean up. Each holds the lease and updates the item."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Callable, NamedTuple, TypeVar

from cdclake.commit.adopt import adopt
from cdclake.commit.clean_up import CleanUpPlan, clean_up, has_leftovers, plan_clean_up
from cdclake.commit.ledger import entries
from cdclake.commit.publish import KeepAlive, no_lease
from cdclake.commit.roll_forward import roll_forward
from cdclake.commit.table_files import Differences, check_files, compare_with_history, repair
from cdclake.commit.takeover import take_over
from cdclake.commit.undo import UndoPlan, apply_undo, check_files_retained, plan_reapply, plan_rollback
from cdclake.control.catalog.sync import sync_catalog
from cdclake.control.plan.full_load_gate import reload_command
from cdclake.control.plan.left_out import LeftOut
from cdclake.control.plan.lost_files import PendingNote
from cdclake.control.plan.open_findings import OpenFindings
from cdclake.control.run.item_sync import check_not_ahead, forgotten_lake, lake_attributes, open_findings
from cdclake.control.run.lease import Lease, renewed_in_background
from cdclake.errors import CdclakeError, CommitConflictError, LeaseHeldError, RefusedChangeError, RetryableError
from cdclake.model.catalog import CatalogName
from cdclake.model.names import Sentinel
from cdclake.model.table.attributes import Attribute, attributes_that

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import timedelta

    from cdclake.commit.log import ChangeLog
    from cdclake.control.catalog.sync import OpenCatalog
    from cdclake.model.change.record import ChangeRecord
    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table.state import TableState
    from cdclake.ports import Clock, StateStore

Result = TypeVar("Result")
_ADOPTED_FROM = attributes_that(lambda declared: declared.adopted_from)


class Acknowledgement(NamedTuple):
    """What an operator acknowledges.

    Attributes:
        findings: The texts of the findings.
        accepts: Column changes that the last run refused to apply; empty if none.
    """

    findings: tuple[str, ...]
    accepts: str


@dataclass(frozen=True)
class RegisteredTable:
    """A registered table and its lake table, for operations by hand.

    Attributes:
        state: The table's item, as the operator saw it.
        log: The lake table's change log.
        run_id: Id of this operation in the lease and in change records.
        open_catalog: Opens a catalog database; None: the catalog is not updated.
        made_by: The operator, for the change records of rollbacks and reapplies.
        lease_wait_seconds: How long to wait for a run that is working on the table, before `LeaseHeldError`.
        sleep: Waits some seconds.
    """

    states: StateStore
    state: TableState
    log: ChangeLog
    run_id: str
    clock: Clock
    open_catalog: OpenCatalog | None = None
    made_by: str = ""
    lease_wait_seconds: int = 0
    sleep: Callable[[float], None] = time.sleep

    def plan_rollback(self, to: int | None = None) -> UndoPlan:
        """The plan of `rollback`; see `commit.undo.plan_rollback`."""
        return self._checked(plan_rollback(self.log, to))

    def plan_reapply(self) -> UndoPlan:
        """The plan of `reapply`; see `commit.undo.plan_reapply`."""
        return self._checked(plan_reapply(self.log))

    def rollback(
        self,
        to: int | None = None,
        reason: str = "",
        agreed: UndoPlan | None = None,
        *,
        leave_off: bool = False,
    ) -> ChangeRecord:
        """Undo the last change, or roll back to an earlier one, and turn the table off.

        The watermark is rolled back with the rows, so the next run would apply the same raw files again. So the table
        stays off until an operator turns it on, and needs action until then.

        Args:
            to: As for `plan_rollback`.
            reason: Why, for the change record.
            agreed: The plan that the operator confirmed; None if no confirmation was asked.
            leave_off: Whether the table is meant to stay off, so that it needs no action.

        Raises:
            LeaseHeldError: A run is working on the table.
            CommitConflictError: The plan is no longer the confirmed one; nothing was changed.
            ConfigurationError: There is nothing to undo, or no such change.
            PastRetentionError: Files to restore are no longer kept.
            LakeFilesError: Files were added, removed or replaced by another program.
        """
        off_by_rollback = "" if leave_off else Sentinel.ACTIVE
        pause = {Attribute.ACTIVE_FLAG: Sentinel.INACTIVE, Attribute.LAST_OFF_BY_ROLLBACK: off_by_rollback}
        return self._undo(lambda: plan_rollback(self.log, to), reason, agreed, pause)

    def reapply(self, reason: str = "", agreed: UndoPlan | None = None) -> ChangeRecord:
        """Reapply the next change that a rollback undid, without computing anything.

        Raises:
            As `rollback`.
        """
        return self._undo(lambda: plan_reapply(self.log), reason, agreed)

    def change(self, commit: Callable[[int], Result]) -> Result:
        """Run a function that commits a change, under the table's lease.

        Args:
            commit: Takes the fencing token. When it is called, the newest change is fully published.

        Returns:
            The result of `commit`.

        Raises:
            LeaseHeldError: A run is working on the table.
        """
        with self._leased() as lease:
            with renewed_in_background(lambda: (lease,)):
                result = commit(lease.token)
            self._sync_item(lease)
            return result

    def update_catalog(self) -> None:
        """Let the catalog show the newest change. For functions that `change` runs: it renews the lease meanwhile.

        Raises:
            RetryableError: The catalog could not be updated.
        """
        self._sync_catalog(no_lease)
        item = self.states.get(self.state.path)
        if item and (error := item.item.get(Attribute.LAST_CATALOG_ERROR)):
            message = f"The catalog could not be updated, so files that its entry names are kept: {error}"
            raise RetryableError(message, remedy="Correct that, then run the same command again: it does the rest")

    def adopt(self, adopted: Snapshot) -> ChangeRecord:
        """Make the existing files in the table's folder the lake table, unchanged; see `commit.adopt.adopt`.

        Does not turn the table on or off.

        Args:
            adopted: The table, derived from the files and the item as the operator saw them.

        Raises:
            LeaseHeldError: A run is working on the table.
            CommitConflictError: The item has changed since; nothing was changed.
            ConfigurationError: The lake table exists already.
            LakeFilesError: The files have changed since; nothing was changed.
        """
        with self._leased(adopts=True) as lease:
            item = self.states.get(self.state.path)
            if item is None or any(item.item.get(name) != self.state.item.get(name) for name in _ADOPTED_FROM):
                raise self._changed_meanwhile()
            record = adopt(self.log, adopted, self.run_id, lease.token, self.clock, lease.renew_if_due)
            self._sync_item(lease)
        return record

    def to_acknowledge(self) -> Acknowledgement:
        """The findings of changes, and the column changes that the last run refused to apply."""
        return self._to_acknowledge(self.state, self._findings(self.state))

    def acknowledge(self, agreed: Acknowledgement | None = None) -> TableState:
        """Record that the operator has seen all that, and accept the column changes. Returns the table's new state.

        Args:
            agreed: What the operator confirmed; None if no confirmation was asked.

        Raises:
            LeaseHeldError: A run is working on the table.
            CommitConflictError: There is something else to acknowledge by now; nothing was changed.
        """
        with self._leased() as lease:
            state = self.states.get(self.state.path) or self.state
            found = self._findings(state)
            seen = self._to_acknowledge(state, found)
            if agreed is not None and seen != agreed:
                raise self._changed_meanwhile()
            settings = {Attribute.ACKNOWLEDGED_CHANGE: str(found.through)}
            if seen.accepts:
                settings[Attribute.ACCEPTED_DRIFT] = seen.accepts
            left_out = LeftOut.parse(state.left_out).acknowledged().stored
            left = OpenFindings(found.through, unfinished_erasures=found.unfinished_erasures)  # erasures end them
            outcome = {Attribute.LAST_FINDINGS: str(left), Attribute.LAST_LEFT_OUT: left_out}
            self.states.set_attributes(state.path, settings)
            lease.record(outcome)
        return state.with_attributes(**settings, **outcome)

    def _findings(self, state: TableState) -> OpenFindings:
        return open_findings(state, self.log, self.log.snapshot(self.log.head()))

    @staticmethod
    def _to_acknowledge(state: TableState, found: OpenFindings) -> Acknowledgement:
        left_out = LeftOut.parse(state.left_out)._replace(unread=())
        return Acknowledgement(
            (*replace(found, unfinished_erasures=()).texts(state.name), *left_out.findings(state.name)),
            state.item.get(Attribute.LAST_DRIFT, ""),
        )

    def check_resettable(self) -> None:
        """Refuse to forget a lake table of which something is left.

        Raises:
            RefusedChangeError: The lake has files of the table.
        """
        layout = self.log.layout
        history = [layout.history.table_prefix] if self.state.settings.history else []
        for folder in (layout.control_prefix, layout.table_prefix, layout.iceberg_prefix, *history):
            if next(self.log.store.list(folder), None):
                message = f"The lake has files of {layout.name}. Nothing was done"
                remedy = (
                    f"To load the table again although its change log is there: {reload_command(self.state)}. If the"
                    " log is lost for good, delete the folder first"
                )
                raise RefusedChangeError(message, remedy=remedy, folder=f"{layout.bucket}/{folder}")

    def reset(self) -> TableState:
        """Forget a lake table that is lost, so that the next run loads it again. Returns the table's new state.

        Raises:
            LeaseHeldError: A run is working on the table.
            RefusedChangeError: The lake has files of the table; nothing was changed.
        """
        lease = self._acquire_lease()
        try:
            self.check_resettable()
            state = self.states.get(self.state.path) or self.state
            forgotten = forgotten_lake(state)
            numbers = {Attribute.ACKNOWLEDGED_CHANGE: "0", Attribute.ACCEPT_LOST_CHANGES: Sentinel.NONE}
            self.states.set_attributes(state.path, numbers)
            lease.record(forgotten)
        finally:
            lease.release(even_if_requested=True)
        return state.with_attributes(**forgotten)

    def differences(self) -> Differences:
        """Differences between the table's folder and the change log.

        The result is correct only while no run works on the table.
        """
        return compare_with_history(self.log, self.log.snapshot(self.log.head()))

    def repair(self, agreed: Differences | None = None) -> Differences:
        """Restore vanished data files and move foreign files out of the table's folder. Returns the differences.

        Args:
            agreed: The differences that the operator confirmed; None if no confirmation was asked.

        Raises:
            LeaseHeldError: A run is working on the table.
            CommitConflictError: The differences are no longer the confirmed ones; nothing was changed.
            IntegrityError: A vanished file is no longer kept.
            LakeFilesError: A file was overwritten.
        """
        with self._leased() as lease:
            change = self._head_under(lease)
            differences = compare_with_history(self.log, self.log.snapshot(change))
            if agreed is not None and differences != agreed:
                raise self._changed_meanwhile()
            repair(self.log, change, differences, lease.renew_if_due)
        return differences

    def plan_clean_up(self, retention: timedelta, keep_every: timedelta | None = None) -> CleanUpPlan:
        """The plan of `clean_up`. It is correct only while no run works on the table."""
        return plan_clean_up(self.log, retention, self.clock(), keep_every=keep_every)

    def clean_up(self, retention: timedelta, keep_every: timedelta | None = None) -> CleanUpPlan:
        """Permanently delete what no change to be retained needs. Returns the executed plan.

        Args:
            retention: How long earlier states are kept.
            keep_every: As for `cdclake.commit.clean_up.plan_clean_up`.

        Raises:
            LeaseHeldError: A run is working on the table.
        """
        with self._leased() as lease:
            change = roll_forward(self.log, lease.renew_if_due)
            if has_leftovers(self.log, change):
                # The run that left them may only be paused. It must not commit them after they are deleted.
                reason = "a run left an unfinished change"
                change = take_over(self.log, self.run_id, lease.token, reason, self.clock, lease.renew_if_due)
                self._sync_item(lease)
            self._sync_catalog(lease.renew_if_due)
            plan = plan_clean_up(self.log, retention, self.clock(), change, keep_every, lease.renew_if_due)
            item = self.states.get(self.state.path)
            if item and item.item.get(Attribute.LAST_CATALOG_ERROR):
                plan = plan.without_iceberg()
            clean_up(self.log, plan, lease.renew_if_due)
        return plan

    def _checked(self, plan: UndoPlan) -> UndoPlan:
        check_files_retained(self.log, plan)
        return plan

    def _changed_meanwhile(self) -> CommitConflictError:
        message = f"{self.log.layout.name} changed after the plan was shown. Nothing was done"
        return CommitConflictError(message, remedy="Run the same command again and check the new plan")

    def _undo(
        self,
        make_plan: Callable[[], UndoPlan],
        reason: str,
        agreed: UndoPlan | None,
        settings: Mapping[str, str] | None = None,
    ) -> ChangeRecord:
        with self._leased() as lease:
            snapshot = self.log.snapshot(self._head_under(lease))
            check_files(self.log, snapshot)
            plan = make_plan()
            if agreed is not None and not plan.has_same_effect(agreed):
                raise self._changed_meanwhile()
            self._checked(plan)
            # Both come before the commit, as this run may die right after it. No run may apply the same files again
            # before an operator turns the table on, and after that files listed long ago count as new. Those that the
            # table contains are not missed: undone files may be taken out of the raw folder.
            if settings:
                self.states.set_attributes(self.state.path, settings)
            noted = PendingNote.of_item(lease.record({Attribute.LAST_SEEN: Sentinel.NONE}).item)
            if contained := entries(self.log, snapshot.ledger, noted.names):
                lease.record({Attribute.LAST_PENDING: str(noted.without(contained))})
            record = apply_undo(
                self.log,
                plan,
                self.run_id,
                lease.token,
                self.clock,
                reason=reason,
                made_by=self.made_by,
                keep_alive=lease.renew_if_due,
            )
            self._sync_item(lease)
            return record

    @contextmanager
    def _leased(self, *, adopts: bool = False) -> Iterator[Lease]:
        """Hold the table's lease. First finish an unfinished change and update the item.

        If the work fails after a commit, the lease is left to a run that finishes it.
        """
        lease, is_done, known = self._acquire_lease(), False, self.state.last_change
        try:
            change = roll_forward(self.log, lease.renew_if_due)
            check_not_ahead(self.state, self.log.layout, change, adopts=adopts)
            change = lease.fence_earlier_holder(self.log, change, lease.renew_if_due)
            if known < change:
                self._sync_item(lease)
                known = change
            yield lease
            self._sync_catalog(lease.renew_if_due)
            is_done = True
        finally:
            if is_done or not self._has_later_change(known):
                lease.release(even_if_requested=True)
            else:
                lease.expire()

    def _head_under(self, lease: Lease) -> int:
        """Number of the newest change. Later ones, which may not be published, are those of who took the table over.

        Raises:
            LeaseLostError: There is one.
        """
        head = self.log.head()
        self.log.check_fence(head, lease.token)
        return head

    def _has_later_change(self, known: int) -> bool:
        """Whether there is a change after the one that the item knows; also if nobody can tell."""
        try:
            return self.log.head() > known
        except CdclakeError:
            return True

    def _acquire_lease(self) -> Lease:
        for _ in range(self.lease_wait_seconds):
            with suppress(LeaseHeldError):
                return Lease.acquire(self.states, self.state.path, self.state.name, self.run_id, self.clock)
            self.sleep(1)
        return Lease.acquire(self.states, self.state.path, self.state.name, self.run_id, self.clock)

    def _sync_catalog(self, keep_alive: KeepAlive) -> None:
        """Update the catalog, if a run has ever shown the table in it."""
        item = self.states.get(self.state.path)
        name = CatalogName.parse(item.item.get(Attribute.LAST_CATALOG_TABLE, "")) if item else None
        if not (item and name and self.open_catalog):
            return
        lake = self.log.snapshot(self.log.head())
        changed = sync_catalog(self.open_catalog(name.database), item, self.log.layout, lake, keep_alive)
        if changed:
            self.states.record_run(self.state.path, changed)

    def _sync_item(self, lease: Lease) -> None:
        snapshot = self.log.snapshot(self.log.head())
        item = self.states.get(self.state.path) or self.state
        if snapshot.change:
            lease.record(lake_attributes(item, self.log, snapshot))
