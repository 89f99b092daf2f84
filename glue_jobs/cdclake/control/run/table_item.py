"""A table's item while a run holds the table's lease: what it holds, and what the run writes into it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from cdclake import logs
from cdclake.commit.log import ChangeLog
from cdclake.commit.roll_forward import complete_newest
from cdclake.concurrency import executor
from cdclake.control.catalog.sync import sync_catalog
from cdclake.control.jobs.entry import error_line
from cdclake.control.run import metrics
from cdclake.control.run.item_sync import check_not_ahead, lake_attributes, unknown_rollback
from cdclake.control.run.lineage import lineage_events
from cdclake.errors import CdclakeError, ConfigurationError, SchemaDriftError, UnknownTableError
from cdclake.model.change.delay import RecentDelays
from cdclake.model.names import RunState, Sentinel
from cdclake.model.retained import Retained
from cdclake.model.table.attributes import Attribute, attributes_that
from cdclake.model.times import iso_utc

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cdclake.commit.publish import KeepAlive
    from cdclake.control.run.lease import Lease
    from cdclake.control.run.report import TableReport
    from cdclake.model.layout import LakeLayout
    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table.state import TableState
    from cdclake.ports import Ports, StateStore

_SET_BY_HAND = attributes_that(lambda declared: declared.resettable)
FRESH_SECONDS = 1
"""An item that was returned with the lease is read again if it is older, as after the turns of other tables."""
MAX_CHANGES_MEASURED = 20
"""A rebuilt item knows no change, and metrics of old changes are useless. Nor is their lineage told again."""


class TableItem:
    """A table's item, which a run updates from the lake, and in which it records how its rounds end.

    Args:
        lease: The table's lease. Nothing is written without it.
        ports: State table, catalog, metrics.
        report: Collects what was done.
        renew: Renews the leases of the run.

    Attributes:
        state: What the item holds, as far as the run knows.
        changes: The table's change log.
    """

    def __init__(
        self, state: TableState, lease: Lease, layout: LakeLayout, ports: Ports, report: TableReport, renew: KeepAlive
    ) -> None:
        self.state, self.lease, self.layout, self.ports, self.report = state, lease, layout, ports, report
        self.changes = ChangeLog(ports.open_bucket(layout.bucket), layout)
        self._renew_leases = renew
        self._at_acquisition = lease.state
        self._change: int | None = None
        self._acquired_utc = self._begun = ports.clock()

    @property
    def log_fields(self) -> dict[str, object]:
        """Fields of every log line: the table's name, and its newest known change."""
        return {"table": str(self.layout.name), "change": self._change}

    @property
    def log(self) -> logs.BoundLogger:
        """Logs lines with `log_fields`."""
        return logs.bind(__name__, **self.log_fields)

    def keep_alive(self) -> None:
        """Renew the leases of the run.

        Raises:
            BaseException: The table's failure, as when its lease is lost.
        """
        self._renew_leases()
        if self.report.failure:
            raise self.report.failure

    def begin_round(self, changed: Mapping[str, str]) -> None:
        """Remove the pending request, and read the item, before the raw files are listed: a later file sets a new one.

        Args:
            changed: Attributes to write.
        """
        self._begun = self.ports.clock()
        self.keep_alive()  # after a pause, the table and the notes in its item may be another run's
        at_acquisition, self._at_acquisition = self._at_acquisition, None
        is_fresh = (self._begun - self._acquired_utc).total_seconds() <= FRESH_SECONDS
        if changed:
            self.state = self.lease.record(changed, clears_request=True)
        elif at_acquisition and is_fresh:  # the request was removed then
            self.state = at_acquisition
        else:
            self.state = self.ports.states.clear_request(self.state.path)
        if self.state.active:
            self.state.check_types()
            self._change = self.state.last_change or None

    def record(self, changed: Mapping[str, str]) -> None:
        """Write attributes into the item; see `Lease.record`."""
        self.lease.record(changed)
        self.state = self.state.with_attributes(**changed)

    def sync_with_lake(self) -> Snapshot:
        """Finish the work of a run that died, and update the item from the lake.

        A watermark and a date of the last full load that an operator set stay, see `lake_attributes`.

        Returns:
            The newest snapshot.
        """
        change = complete_newest(self.changes, self.keep_alive, self.state.last_change)
        check_not_ahead(self.state, self.layout, change)
        change = self.lease.fence_earlier_holder(self.changes, change, self.keep_alive)
        lake = self.changes.snapshot(change)
        rollback = unknown_rollback(self.changes, self.state, lake.change)
        self._record_lake(lake)
        if rollback:
            self._turn_off(rollback)
        return lake

    def sync_after_load(self) -> Snapshot:
        """Update the item and the catalog from the lake after a load. Returns the newest snapshot."""
        lake = self.changes.after_commit()
        with self.shown_in_catalog(lake):
            self._record_lake(lake)
        return lake

    @contextmanager
    def shown_in_catalog(self, lake: Snapshot) -> Iterator[None]:
        """Update the catalog from the lake table beside the `with` block's work. A failure does not affect the rows."""
        with executor(self.changes.store.calls_at_once) as pool:
            catalog, state, layout = self.ports.catalog, self.state, self.layout
            showing = pool.submit(sync_catalog, catalog, state, layout, lake, self.keep_alive)
            yield
            if changed := showing.result():
                self.record(changed)
        self.report.catalog_error = self.state.item.get(Attribute.LAST_CATALOG_ERROR, "")

    def _turn_off(self, rollback: int) -> None:
        """Turn the table off again, as a rollback did that the item does not know: it was restored from before it.

        Raises:
            ConfigurationError: Always, so that an operator sees it.
        """
        self.keep_alive()
        off = {Attribute.ACTIVE_FLAG: Sentinel.INACTIVE, Attribute.LAST_OFF_BY_ROLLBACK: Sentinel.ACTIVE}
        self.ports.states.set_attributes(self.state.path, off)
        name = self.layout.name
        message = f"Change {rollback} rolled {name} back and turned it off. Its item, which was on, is older than that"
        remedy = (
            f"The table is off again, and nothing was applied. To let runs apply the due files: cdclake tables activate"
            f" {name.typed}; to leave it off: cdclake tables pause {name.typed}"
        )
        raise ConfigurationError(message, remedy=remedy)

    def _record_lake(self, lake: Snapshot) -> None:
        """Write the attributes into the item that differ from the lake, and none that an operator set in between."""
        state = self.state
        self._change = lake.change or None
        attributes = lake_attributes(state, self.changes, lake)
        if lake.change:
            attributes[Attribute.LAST_LINEAGE_CHANGE] = str(self._tell_lineage(lake))
        new = self.changes.records(max(state.last_change, lake.change - MAX_CHANGES_MEASURED) + 1, lake.change)
        delays, now = self.changes.delays(new), self.ports.clock()
        if delays:
            attributes[Attribute.LAST_DELAYS] = str(RecentDelays.of(state.item, now).with_changes(delays, now))
        changed = {name: value for name, value in attributes.items() if state.item.get(name) != value}
        if changed:
            self.keep_alive()
            read = {name: state.item.get(name, "") for name in _SET_BY_HAND}
            item = self.lease.record(changed, unless_edited=read).item
            self.state = state.with_attributes(
                **{name: item[name] for name in (*changed, *_SET_BY_HAND) if name in item}
            )
            self.log.info("updated the item from the lake")
            self.ports.metrics.put(metrics.change_metrics(state, new, delays.values()))

    def _tell_lineage(self, lake: Snapshot) -> int:
        """Log and send the lineage of changes that no run has told, also of those that operators made.

        Returns:
            The newest change that was told. If it could not be sent, the next run tells it again.
        """
        told = max(self.state.last_lineage_change, lake.change - MAX_CHANGES_MEASURED)
        retained = self.changes.retained() if told < lake.change - 1 else Retained()
        for number in range(told + 1, lake.change + 1):
            if number != lake.change and number not in retained:
                continue
            snapshot = lake if number == lake.change else self.changes.snapshot(number)
            events = lineage_events(self.changes.record(number), snapshot, self.layout, self.state)
            if events:  # the start tells nothing that the end does not
                self.log.info("lineage", extra={"openlineage": events[-1]})
            if self.ports.lineage and not self.ports.lineage.send(events):
                break
            told = number
        return min(told, lake.change)

    def end(self, error: BaseException | None = None, *, keeps_lease: bool = False, more: Mapping[str, str]) -> bool:
        """Record how a round ended, and release the lease with the same write.

        Args:
            error: Why it failed; None: it did not.
            more: Further attributes to write.

        Returns:
            Whether the lease was released.
        """
        now, failed = self.ports.clock(), error is not None
        attributes = {
            Attribute.LAST_RUN_STATE: RunState.FAILED if failed else RunState.SUCCEEDED,
            Attribute.LAST_RUN_ID: self.report.run_id,
            Attribute.LAST_RUN_UTC: iso_utc(now),
            Attribute.LAST_ERROR: error_line(error) if error else "",
            Attribute.LAST_ERROR_CODE: error.code if isinstance(error, CdclakeError) else "",
            Attribute.LAST_DRIFT: str(error.details["columns"]) if isinstance(error, SchemaDriftError) else "",
            **more,
        }
        # After a failure, a request that was made meanwhile stays. So events start at most one run of a broken table
        # per quarter of an hour. The Controller tries each time.
        released = not keeps_lease and self.lease.release(even_if_requested=failed, attributes=attributes)
        if not released:
            self.lease.record(attributes)
        seconds = (self.ports.clock() - self._begun).total_seconds()
        self.ports.metrics.put(metrics.run_end_metrics(self.report.table, seconds, failed=failed))
        return released


def read_state(states: StateStore, path: str) -> TableState:
    """Read a registered table's item.

    Raises:
        UnknownTableError: It is not registered.
    """
    state = states.get(path)
    if state is None:
        message = f"No table with the path {path} is registered"
        raise UnknownTableError(message, remedy="Run the Controller, which registers the tables it finds")
    return state
