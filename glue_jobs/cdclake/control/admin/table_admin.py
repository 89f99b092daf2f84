"""What a person does to a lake table: change, undo, repair, clean up. Under its lease, its item kept in line."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, TypeVar

from cdclake.commit.adopt import adopt
from cdclake.commit.clean_up import CleanUpPlan, clean_up, has_leftovers, plan_clean_up
from cdclake.commit.publish import roll_forward
from cdclake.commit.table_files import Differences, check_files, compare, repair
from cdclake.commit.takeover import take_over
from cdclake.commit.undo import UndoPlan, apply_undo, check_kept, plan_reapply, plan_rollback
from cdclake.control.catalog.sync import sync_catalog
from cdclake.control.run.item_sync import check_not_ahead, is_emptied, lake_attributes
from cdclake.control.run.lease import Lease
from cdclake.errors import CommitConflictError
from cdclake.model.catalog import CatalogName
from cdclake.model.names import Attribute, Sentinel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from cdclake.commit.log import ChangeLog
    from cdclake.control.catalog.sync import OpenCatalog
    from cdclake.model.change import ChangeRecord
    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table import TableState
    from cdclake.ports import Clock, StateStore

Made = TypeVar("Made")
_ADOPTED_FROM = (
    Attribute.PRIMARY_KEY,
    Attribute.PARTITION_KEY,
    Attribute.SCHEMA,
    Attribute.ORDER_COLUMN,
    Attribute.LAST_FULL_LOAD_DATE,
    Attribute.LAST_INCREMENTAL_FILE,
)
"""Attributes that an adopted table is made from."""


@dataclass(frozen=True)
class RegisteredTable:
    """A registered table and its lake table, for what a person does to it.

    Attributes:
        states: The state table.
        state: The table's item, as it was when the person looked.
        log: The lake table's change log.
        run_id: Names this doing in the lease and in change records.
        clock: The time.
        open_catalog: Gives the catalog's database that shows the table; None: it is left as it is.
        made_by: The person, for the change records of what is undone and done again.
    """

    states: StateStore
    state: TableState
    log: ChangeLog
    run_id: str
    clock: Clock
    open_catalog: OpenCatalog | None = None
    made_by: str = ""

    def plan_rollback(self, to: int | None = None) -> UndoPlan:
        """What `rollback` would do; see `commit.undo.plan_rollback`."""
        return self._checked(plan_rollback(self.log, to))

    def plan_reapply(self) -> UndoPlan:
        """What `reapply` would do; see `commit.undo.plan_reapply`."""
        return self._checked(plan_reapply(self.log))

    def rollback(self, to: int | None = None, reason: str = "", agreed: UndoPlan | None = None) -> ChangeRecord:
        """Undo the last change, or go back to an earlier one, and turn the table off.

        The watermark goes back with the rows, so the next run would apply the same raw files again: a person is to look
        first, and turns the table on again.

        Args:
            to: As for `plan_rollback`.
            reason: Why, for the change record.
            agreed: The plan that the person has seen; None if nobody was asked.

        Raises:
            LeaseHeldError: A run is working on the table.
            CommitConflictError: By now it would be something else than what was agreed to; nothing was changed.
            ConfigurationError: There is nothing to undo, or no such change.
            PastRetentionError: Files to bring back are no longer kept.
            LakeFilesError: Somebody else added, removed or replaced files.
        """
        return self._undo(lambda: plan_rollback(self.log, to), reason, agreed, pause=True)

    def reapply(self, reason: str = "", agreed: UndoPlan | None = None) -> ChangeRecord:
        """Do again what the last rollback undid, a change at a time, without computing anything.

        Raises:
            As `rollback`.
        """
        return self._undo(lambda: plan_reapply(self.log), reason, agreed, pause=False)

    def change(self, make: Callable[[int], Made]) -> Made:
        """Have something commit a change of its own.

        Args:
            make: Does that, given the number of the lease. The table is as the newest change left it by then.

        Returns:
            What `make` gives.

        Raises:
            LeaseHeldError: A run is working on the table.
        """
        with self._leased() as lease:
            with lease.renewed_in_background():
                made = make(lease.token)
            self._bring_item_in_line()
            return made

    def adopt(self, found: Snapshot) -> ChangeRecord:
        """Make files that lie in the table's folder already the lake table, as they are; see `commit.adopt.adopt`.

        Whether the table is turned on stays as it is.

        Args:
            found: The table that the files and the item, as they were when the person looked, make.

        Raises:
            LeaseHeldError: A run is working on the table.
            CommitConflictError: The item says otherwise by now; nothing was changed.
            ConfigurationError: There is a lake table already.
            LakeFilesError: The files are no longer those that were found; nothing was changed.
        """
        with self._leased(adopts=True) as lease:
            item = self.states.get(self.state.path)
            if item is None or any(item.item.get(name) != self.state.item.get(name) for name in _ADOPTED_FROM):
                raise self._changed_meanwhile()
            record = adopt(self.log, found, self.run_id, lease.token, self.clock, lease.keep)
            self._bring_item_in_line()
        return record

    def differences(self) -> Differences:
        """What is otherwise in the table's folder than cdclake left it.

        Right only while no run works on the table.
        """
        return compare(self.log, self.log.snapshot(self.log.head()).all_files)

    def repair(self, agreed: Differences | None = None) -> Differences:
        """Bring vanished data files back and move foreign ones out of sight; returns what was found.

        Args:
            agreed: What the person has seen; None if nobody was asked.

        Raises:
            LeaseHeldError: A run is working on the table.
            CommitConflictError: By now it is something else than what was agreed to; nothing was changed.
            IntegrityError: A vanished file is no longer kept.
            LakeFilesError: A file was overwritten.
        """
        with self._leased() as lease:
            found = self.differences()
            if agreed is not None and found != agreed:
                raise self._changed_meanwhile()
            repair(self.log, found, lease.keep)
        return found

    def plan_clean_up(self, retention: timedelta) -> CleanUpPlan:
        """What `clean_up` would delete. Right only while no run works on the table."""
        return plan_clean_up(self.log, retention, self.clock())

    def clean_up(self, retention: timedelta) -> CleanUpPlan:
        """Delete for good what no change within the retention time needs; returns what it was.

        Raises:
            LeaseHeldError: A run is working on the table.
        """
        with self._leased() as lease:
            change = roll_forward(self.log, lease.keep)
            if has_leftovers(self.log, change):
                # They may be those of a run that is not dead but paused, and must not commit them once they are gone.
                reason = "a run had left an unfinished change"
                change = take_over(self.log, self.run_id, lease.token, reason, self.clock, lease.keep)
                self._bring_item_in_line()
            plan = plan_clean_up(self.log, retention, self.clock(), change)
            clean_up(self.log, plan, lease.keep)
        return plan

    def _checked(self, plan: UndoPlan) -> UndoPlan:
        check_kept(self.log, plan)
        return plan

    def _changed_meanwhile(self) -> CommitConflictError:
        message = f"{self.log.layout.name} changed since it was shown what would be done. Nothing was done"
        return CommitConflictError(message, remedy="Look again: give the same command once more")

    def _undo(
        self, decide: Callable[[], UndoPlan], reason: str, agreed: UndoPlan | None, *, pause: bool
    ) -> ChangeRecord:
        with self._leased() as lease:
            snapshot = self.log.snapshot(self.log.head())
            check_files(self.log, snapshot)
            plan = decide()
            if agreed is not None and not plan.does_the_same_as(agreed):
                raise self._changed_meanwhile()
            self._checked(plan)
            # Both before the commit, as this run may die right after it: nobody shall apply the same files again
            # unasked, and once somebody asks, files seen long ago count as new.
            if pause:
                self.states.set_by_person(self.state.path, {Attribute.ACTIVE_FLAG: Sentinel.INACTIVE})
            self.states.record_run(self.state.path, {Attribute.LAST_LISTED_UTC: Sentinel.NONE})
            record = apply_undo(
                self.log,
                plan,
                self.run_id,
                lease.token,
                self.clock,
                reason=reason,
                made_by=self.made_by,
                keep_alive=lease.keep,
            )
            self._bring_item_in_line()
            return record

    @contextmanager
    def _leased(self, *, adopts: bool = False) -> Iterator[Lease]:
        """The table's lease, with the lake table and its item brought up to date first."""
        lease = Lease(self.states, self.state.path, self.state.name, self.run_id, self.clock)
        try:
            change = roll_forward(self.log, lease.keep)
            check_not_ahead(self.state, change, adopts=adopts)
            lease.fence_earlier_holder(self.log, lease.keep)
            if self.state.last_change < change or lease.taken_over_from:
                self._bring_item_in_line()
            yield lease
            self._bring_catalog_in_line(lease)
        finally:
            lease.release(even_if_requested=True)

    def _bring_catalog_in_line(self, lease: Lease) -> None:
        """Have the catalog show what was done, if a run has ever had it show the table."""
        item = self.states.get(self.state.path)
        shown = CatalogName.parse(item.item.get(Attribute.LAST_CATALOG_TABLE, "")) if item else None
        if not (item and shown and self.open_catalog):
            return
        lake = self.log.snapshot(self.log.head())
        news = sync_catalog(self.open_catalog(shown.database), item, self.log.layout, lake, lease.keep)
        if news:
            self.states.record_run(self.state.path, news)

    def _bring_item_in_line(self) -> None:
        snapshot = self.log.snapshot(self.log.head())
        attributes = lake_attributes(self.state, snapshot, emptied=is_emptied(self.log, snapshot))
        if attributes:  # there are none while the lake has no change
            self.states.record_run(self.state.path, attributes)
