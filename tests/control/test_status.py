"""The status of tables."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from cdclake.adapters.memory import ManualClock
from cdclake.control.plan.decision import Decision, DecisionKind
from cdclake.control.plan.planned_table import Action, PlannedTable
from cdclake.control.status import NEEDS_ACTION, Health, TableStatus, table_status
from cdclake.model.change import Books
from cdclake.model.table import TableState
from tests.builders import change_record

NOW = ManualClock()()
NEW = TableState.new("raw-bucket", "dms/shop/", "orders/")
ACTIVE = NEW.with_attributes(ActiveFlag="true", PrimaryKey="id", LastRunState="SUCCEEDED", LastChangeId="3")
FAILED = ACTIVE.with_attributes(LastRunState="FAILED", LastError="BadRowError: a row. Correct it")
STALE = ACTIVE.with_attributes(LastCatalogTable="lake.shop_orders", LastCatalogError="ConfigurationError: no. Grant it")
LEASED = {"LeaseHolder": "run-9", "LeaseExpiresUtc": "2024-03-05T10:05:00Z"}
NOTHING_NEW = Decision(DecisionKind.NOTHING_NEW, "every raw file is accounted for")
INACTIVE = Decision(DecisionKind.INACTIVE, "it is off", to_do="turn it on")
FROZEN = Decision(DecisionKind.FROZEN, "files vanished", to_do="thaw it")
RECORD = change_record(3, created_utc="2024-03-05T09:59:00+00:00", books=Books(rows_after=7))


def due(minutes: float, kind: DecisionKind = DecisionKind.INCREMENTAL) -> Decision:
    return Decision(kind, "2 change files", files=2, left=5, oldest_utc=NOW - timedelta(minutes=minutes))


def status_of(state: TableState, decision: Decision | None, error: str = "", problem: str = "") -> TableStatus:
    planned = PlannedTable(state, Action.NONE, decision, error)
    return table_status(planned, RECORD, problem, NOW, late_after_minutes=180)


@pytest.mark.parametrize(
    ("state", "decision", "health"),
    [
        (NEW, INACTIVE, Health.NEW),
        (NEW.with_attributes(PrimaryKey="id"), INACTIVE, Health.INACTIVE),
        (NEW.with_attributes(LastChangeId="3"), INACTIVE, Health.INACTIVE),
        (FAILED.with_attributes(ActiveFlag="false"), INACTIVE, Health.INACTIVE),
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
        (STALE, Decision(DecisionKind.LOOK, "the catalog"), Health.STALE_CATALOG),
        (STALE, due(1), Health.STALE_CATALOG),
        (STALE, due(181), Health.LATE),
        (STALE.with_attributes(ActiveFlag="false"), INACTIVE, Health.STALE_CATALOG),
    ],
)
def test_the_health_is_the_first_that_applies(state: TableState, decision: Decision, health: Health):
    found = status_of(state, decision)
    assert found.health is health
    assert bool(found.to_do) >= found.needs_action


def test_a_lease_that_ran_out_is_no_lease():
    over = ACTIVE.with_attributes(LeaseHolder="run-9", LeaseExpiresUtc="2024-03-05T09:59:59Z")
    found = status_of(over, due(1))
    assert (found.health, found.leased_by, found.leased_until_utc) == (Health.BEHIND, "", "")


def test_a_table_that_cannot_be_planned_or_whose_change_cannot_be_read_is_broken_and_says_why():
    for found in (
        status_of(ACTIVE, None, error="ConfigurationError: no"),
        status_of(FAILED, NOTHING_NEW, problem="no"),
    ):
        assert found.health is Health.BROKEN
        assert found.reason == found.to_do != ""
    assert status_of(ACTIVE, None, error="no").lag_files is None


def test_the_lag_counts_what_later_runs_will_take_as_well_and_is_not_known_of_an_inactive_table():
    found = status_of(ACTIVE, due(2))
    assert (found.lag_seconds, found.lag_files) == (120, 7)
    found = status_of(NEW, INACTIVE)
    assert (found.lag_seconds, found.lag_files) == (None, None)


def test_what_failed_tells_its_error_and_what_is_late_where_to_look():
    assert status_of(FAILED, due(1)).to_do == "BadRowError: a row. Correct it"
    assert "Controller" in status_of(ACTIVE, due(181)).to_do
    assert status_of(ACTIVE, FROZEN).to_do == "thaw it"


def test_a_person_is_needed_where_nothing_goes_on_by_itself():
    by_itself = {Health.INACTIVE, Health.WORKING, Health.WAITING, Health.BEHIND, Health.UP_TO_DATE}
    assert set(Health) - NEEDS_ACTION == by_itself


def test_a_status_is_good_for_json():
    found = json.loads(json.dumps(status_of(ACTIVE.with_attributes(**LEASED), NOTHING_NEW).to_json()))
    assert found == {
        "table": "shop.orders",
        "path": "raw-bucket/dms/shop/orders/",
        "standing": "working",
        "reason": NOTHING_NEW.reason,
        "to_do": "",
        "lag_seconds": 0,
        "lag_files": 0,
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


def test_what_is_wrong_with_the_catalog_is_what_a_person_must_see_to():
    found = status_of(STALE, NOTHING_NEW)
    assert (found.to_do, found.catalog_error) == ("ConfigurationError: no. Grant it",) * 2
    assert (found.catalog_table, found.needs_action) == ("lake.shop_orders", True)
