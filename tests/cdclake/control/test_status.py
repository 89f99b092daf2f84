"""The status of tables."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from cdclake.control.plan.decision import Decision, DecisionKind
from cdclake.control.plan.planned_table import Action, PlannedTable
from cdclake.control.status import NEEDS_ACTION, Health, TableStatus, delay_text, table_status
from cdclake.errors import ConfigurationError
from cdclake.model.change.books import Books
from cdclake.model.table.state import TableState
from cdclake_devkit.memory import ManualClock
from tests.builders import change_record

NOW = ManualClock()()
NEW = TableState.new("raw-bucket", "dms/shop/", "orders/")
ACTIVE = NEW.with_attributes(ActiveFlag="true", PrimaryKey="id", LastRunState="SUCCEEDED", LastChangeId="3")
FAILED = ACTIVE.with_attributes(LastRunState="FAILED", LastError="BadRowError: a row. Correct it")
STALE_CATALOG = {"LastCatalogTable": "lake.shop_orders", "LastCatalogError": "ConfigurationError: no. Grant it"}
STALE = ACTIVE.with_attributes(**STALE_CATALOG)
ROLLED_BACK = ACTIVE.with_attributes(ActiveFlag="false", LastOffByRollback="true")
BOUND = ACTIVE.with_attributes(MaxDelayMinutes="15")
LEASED = {"LeaseHolder": "run-9", "LeaseExpiresUtc": "2024-03-05T10:05:00Z"}
NOTHING_NEW = Decision(DecisionKind.NOTHING_NEW, "every raw file is accounted for")
INACTIVE = Decision(DecisionKind.INACTIVE, "it is off", to_do="turn it on")
FROZEN = Decision(DecisionKind.FROZEN, "files vanished", to_do="unfreeze it")
RECORD = change_record(3, created_utc="2024-03-05T09:59:00+00:00", books=Books(rows_after=7))


def due(minutes: float, kind: DecisionKind = DecisionKind.INCREMENTAL) -> Decision:
    return Decision(kind, "2 change files", files=2, left=5, oldest_utc=NOW - timedelta(minutes=minutes))


def status_of(
    state: TableState, decision: Decision | None, error: Exception | None = None, problem: str = ""
) -> TableStatus:
    planned = PlannedTable(state, Action.NONE, decision, error)
    return table_status(planned, RECORD, problem, NOW, late_after_minutes=180)


def with_findings(decision: Decision) -> Decision:
    return replace(decision, findings=("2 files are unread. Move them", "another"))


@pytest.mark.parametrize(
    ("state", "decision", "health"),
    [
        (NEW, INACTIVE, Health.NEW),
        (NEW.with_attributes(PrimaryKey="id"), INACTIVE, Health.INACTIVE),
        (NEW.with_attributes(LastChangeId="3"), INACTIVE, Health.INACTIVE),
        (FAILED.with_attributes(ActiveFlag="false"), INACTIVE, Health.INACTIVE),
        (ROLLED_BACK, INACTIVE, Health.ROLLED_BACK),
        (ROLLED_BACK.with_attributes(**STALE_CATALOG), INACTIVE, Health.ROLLED_BACK),
        (ROLLED_BACK.with_attributes(ActiveFlag="true"), NOTHING_NEW, Health.UP_TO_DATE),
        (ROLLED_BACK.with_attributes(LastOffByRollback=""), INACTIVE, Health.INACTIVE),
        (ACTIVE, FROZEN, Health.FROZEN),
        (FAILED, FROZEN, Health.FROZEN),
        (FAILED, NOTHING_NEW, Health.FAILED),
        (FAILED.with_attributes(**LEASED), due(1), Health.FAILED),
        (ACTIVE.with_attributes(**LEASED), due(1000, DecisionKind.BUSY), Health.WORKING),
        (ACTIVE.with_attributes(**LEASED), NOTHING_NEW, Health.WORKING),
        (ACTIVE, due(1000, DecisionKind.WAITING), Health.WAITING),
        (ACTIVE, due(179), Health.BEHIND),
        (ACTIVE, due(181), Health.LATE),
        (ACTIVE, due(181, DecisionKind.FULL_LOAD), Health.LATE),
        (ACTIVE, NOTHING_NEW, Health.UP_TO_DATE),
        (STALE, Decision(DecisionKind.RESCAN, "the catalog"), Health.STALE_CATALOG),
        (STALE, due(1), Health.STALE_CATALOG),
        (STALE, due(181), Health.LATE),
        (BOUND, due(15), Health.BEHIND),
        (BOUND, due(16), Health.LATE),
        (BOUND, with_findings(due(16)), Health.LATE),
        (BOUND.with_attributes(**LEASED), due(15, DecisionKind.BUSY), Health.WORKING),
        (BOUND.with_attributes(**LEASED), due(16, DecisionKind.BUSY), Health.LATE),
        (BOUND.with_attributes(LastRunState="FAILED", LastError="no"), due(16), Health.FAILED),
        (BOUND, replace(FROZEN, oldest_utc=NOW - timedelta(minutes=16)), Health.FROZEN),
        (BOUND, due(16, DecisionKind.WAITING), Health.WAITING),
        (BOUND.with_attributes(ActiveFlag="false"), INACTIVE, Health.INACTIVE),
        (ACTIVE.with_attributes(MaxDelayMinutes="600"), due(600), Health.BEHIND),
        (STALE.with_attributes(ActiveFlag="false"), INACTIVE, Health.STALE_CATALOG),
        (ACTIVE, with_findings(NOTHING_NEW), Health.INCOMPLETE),
        (ACTIVE, with_findings(due(1)), Health.INCOMPLETE),
        (ACTIVE.with_attributes(**LEASED), with_findings(due(1)), Health.INCOMPLETE),
        (ACTIVE, with_findings(due(1, DecisionKind.WAITING)), Health.INCOMPLETE),
        (ACTIVE, with_findings(due(181)), Health.LATE),
        (FAILED, with_findings(due(1)), Health.FAILED),
        (NEW.with_attributes(PrimaryKey="id"), with_findings(INACTIVE), Health.INACTIVE),
    ],
)
def test_the_health_is_the_first_that_applies(state: TableState, decision: Decision, health: Health):
    status = status_of(state, decision)
    assert status.health is health
    assert bool(status.to_do) >= status.needs_action


def test_the_findings_of_the_plan_are_shown_in_status():
    status = status_of(ACTIVE, replace(NOTHING_NEW, findings=("1 file is unread",)))
    assert status.findings == ("1 file is unread",)


def test_an_expired_lease_does_not_count():
    over = ACTIVE.with_attributes(LeaseHolder="run-9", LeaseExpiresUtc="2024-03-05T09:59:59Z")
    status = status_of(over, due(1))
    assert (status.health, status.leased_by, status.leased_until_utc) == (Health.BEHIND, "", "")


def test_a_table_without_a_plan_or_a_readable_change_is_broken_and_has_the_reason():
    for status in (
        status_of(ACTIVE, None, error=ConfigurationError("no")),
        status_of(FAILED, NOTHING_NEW, problem="no"),
    ):
        assert status.health is Health.BROKEN
        assert status.reason == status.to_do != ""
    assert status_of(ACTIVE, None, error=ConfigurationError("no")).lag_files is None


def test_the_lag_includes_files_left_for_later_runs_and_is_unknown_for_an_inactive_table():
    status = status_of(ACTIVE, due(2))
    assert (status.lag_seconds, status.lag_files) == (120, 7)
    status = status_of(NEW, INACTIVE)
    assert (status.lag_seconds, status.lag_files) == (None, None)


def test_the_action_for_a_failed_table_is_its_error_and_for_a_late_one_to_check_the_controller():
    assert status_of(FAILED, due(1)).to_do == "BadRowError: a row. Correct it"
    assert "Controller" in status_of(ACTIVE, due(181)).to_do
    assert status_of(ACTIVE, FROZEN).to_do == "unfreeze it"


def test_the_action_for_a_failed_table_that_waits_is_what_ends_the_wait():
    waiting = due(1, DecisionKind.WAITING)
    assert status_of(FAILED, replace(waiting, to_do="reload it")).to_do == "reload it"
    assert status_of(FAILED, waiting).to_do == "BadRowError: a row. Correct it"


def test_health_that_does_not_recover_by_itself_needs_action():
    by_itself = {Health.INACTIVE, Health.WORKING, Health.WAITING, Health.BEHIND, Health.UP_TO_DATE}
    assert set(Health) - NEEDS_ACTION == by_itself


def test_a_status_can_be_written_as_json():
    status = json.loads(json.dumps(status_of(ACTIVE.with_attributes(**LEASED), NOTHING_NEW).to_json()))
    assert status == {
        "table": "shop.orders",
        "path": "raw-bucket/dms/shop/orders/",
        "standing": "working",
        "reason": NOTHING_NEW.reason,
        "to_do": "",
        "findings": [],
        "lag_seconds": 0,
        "lag_files": 0,
        "delay_p50_seconds": None,
        "delay_p95_seconds": None,
        "change": 3,
        "change_kind": "incremental",
        "change_utc": RECORD.created_utc,
        "rows": RECORD.books.rows_after,
        "run_state": "SUCCEEDED",
        "run_id": "",
        "run_utc": "",
        "error": "",
        "leased_by": "run-9",
        "leased_until_utc": "2024-03-05T10:05:00Z",
        "catalog_table": "",
        "catalog_error": "",
        "needs_a_person": False,
    }
    without = table_status(PlannedTable(replace(NEW), Action.NONE, INACTIVE), None, "", NOW, 180)
    assert (without.change, without.change_kind, without.change_utc, without.rows) == (None, "", "", None)


def test_the_delays_of_the_last_day_are_shown_as_median_and_95th_percentile():
    visible = int(NOW.timestamp())
    delays = [[3, visible - 86_400, 9_000], *([3 + number, visible - 60, 10 * number] for number in range(1, 21))]
    status = status_of(ACTIVE.with_attributes(LastDelays=json.dumps(delays)), NOTHING_NEW)
    assert (status.delay_p50_seconds, status.delay_p95_seconds) == (100, 190)
    assert delay_text(status) == "1 min 40 s, p95 3 min 10 s"
    assert delay_text(status_of(ACTIVE, NOTHING_NEW)) == ""


def test_the_action_for_a_stale_catalog_is_its_error():
    status = status_of(STALE, NOTHING_NEW)
    assert (status.to_do, status.catalog_error) == ("ConfigurationError: no. Grant it",) * 2
    assert (status.catalog_table, status.needs_action) == ("lake.shop_orders", True)
