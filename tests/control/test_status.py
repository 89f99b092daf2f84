"""How tables stand."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from cdclake.adapters.memory import ManualClock
from cdclake.control.controller import Action, PlannedTable
from cdclake.control.plan.decision import Decision, DecisionKind
from cdclake.control.status import NEEDS_A_PERSON, Standing, TableStatus, table_status
from cdclake.model.change import Books, ChangeKind, ChangeRecord
from cdclake.model.table import TableState

NOW = ManualClock()()
NEW = TableState.new("raw-bucket", "dms/shop/", "orders/")
ACTIVE = NEW.with_attributes(ActiveFlag="true", PrimaryKey="id", LastRunState="SUCCEEDED", LastChangeId="3")
FAILED = ACTIVE.with_attributes(LastRunState="FAILED", LastError="BadRowError: a row. Correct it")
STALE = ACTIVE.with_attributes(LastCatalogTable="lake.shop_orders", LastCatalogError="ConfigurationError: no. Grant it")
LEASED = {"LeaseHolder": "run-9", "LeaseExpiresUtc": "2024-03-05T10:05:00Z"}
NOTHING_NEW = Decision(DecisionKind.NOTHING_NEW, "every raw file is accounted for")
INACTIVE = Decision(DecisionKind.INACTIVE, "it is off", to_do="turn it on")
FROZEN = Decision(DecisionKind.FROZEN, "files vanished", to_do="thaw it")
RECORD = ChangeRecord(
    3, ChangeKind.INCREMENTAL, "2024-03-05T09:59:00+00:00", "jr-1", 1, (), Books(rows_after=7), (), (), "key"
)


def due(minutes: float, kind: DecisionKind = DecisionKind.INCREMENTAL) -> Decision:
    return Decision(kind, "2 change files", files=2, left=5, oldest_utc=NOW - timedelta(minutes=minutes))


def stands(state: TableState, decision: Decision | None, error: str = "", problem: str = "") -> TableStatus:
    planned = PlannedTable(state, Action.NONE, decision, error)
    return table_status(planned, RECORD, problem, NOW, late_after_minutes=180)


@pytest.mark.parametrize(
    ("state", "decision", "standing"),
    [
        (NEW, INACTIVE, Standing.NEW),
        (NEW.with_attributes(PrimaryKey="id"), INACTIVE, Standing.INACTIVE),
        (NEW.with_attributes(LastChangeId="3"), INACTIVE, Standing.INACTIVE),
        (FAILED.with_attributes(ActiveFlag="false"), INACTIVE, Standing.INACTIVE),
        (ACTIVE, FROZEN, Standing.FROZEN),
        (FAILED, FROZEN, Standing.FROZEN),
        (FAILED, NOTHING_NEW, Standing.FAILED),
        (FAILED.with_attributes(**LEASED), due(1), Standing.FAILED),
        (ACTIVE.with_attributes(**LEASED), due(1000, DecisionKind.BUSY), Standing.WORKING),
        (ACTIVE.with_attributes(**LEASED), NOTHING_NEW, Standing.WORKING),
        (ACTIVE, due(1000, DecisionKind.WAITING), Standing.WAITING),
        (ACTIVE, due(179), Standing.BEHIND),
        (ACTIVE, due(181), Standing.LATE),
        (ACTIVE, due(181, DecisionKind.FULL_LOAD), Standing.LATE),
        (ACTIVE, NOTHING_NEW, Standing.UP_TO_DATE),
        (STALE, Decision(DecisionKind.LOOK, "the catalog"), Standing.STALE_CATALOG),
        (STALE, due(1), Standing.STALE_CATALOG),
        (STALE, due(181), Standing.LATE),
        (STALE.with_attributes(ActiveFlag="false"), INACTIVE, Standing.STALE_CATALOG),
    ],
)
def test_a_table_stands_as_the_first_that_fits(state: TableState, decision: Decision, standing: Standing):
    found = stands(state, decision)
    assert found.standing is standing
    assert bool(found.to_do) >= found.needs_a_person


def test_a_lease_that_ran_out_is_no_lease():
    over = ACTIVE.with_attributes(LeaseHolder="run-9", LeaseExpiresUtc="2024-03-05T09:59:59Z")
    found = stands(over, due(1))
    assert (found.standing, found.leased_by, found.leased_until_utc) == (Standing.BEHIND, "", "")


def test_a_table_that_cannot_be_planned_or_whose_change_cannot_be_read_is_broken_and_says_why():
    for found in (stands(ACTIVE, None, error="ConfigurationError: no"), stands(FAILED, NOTHING_NEW, problem="no")):
        assert found.standing is Standing.BROKEN
        assert found.reason == found.to_do != ""
    assert stands(ACTIVE, None, error="no").lag_files is None


def test_the_lag_counts_what_later_runs_will_take_as_well_and_is_not_known_of_an_inactive_table():
    found = stands(ACTIVE, due(2))
    assert (found.lag_seconds, found.lag_files) == (120, 7)
    found = stands(NEW, INACTIVE)
    assert (found.lag_seconds, found.lag_files) == (None, None)


def test_what_failed_tells_its_error_and_what_is_late_where_to_look():
    assert stands(FAILED, due(1)).to_do == "BadRowError: a row. Correct it"
    assert "Controller" in stands(ACTIVE, due(181)).to_do
    assert stands(ACTIVE, FROZEN).to_do == "thaw it"


def test_a_person_is_needed_where_nothing_goes_on_by_itself():
    by_itself = {Standing.INACTIVE, Standing.WORKING, Standing.WAITING, Standing.BEHIND, Standing.UP_TO_DATE}
    assert set(Standing) - NEEDS_A_PERSON == by_itself


def test_a_status_is_good_for_json():
    found = json.loads(json.dumps(stands(ACTIVE.with_attributes(**LEASED), NOTHING_NEW).to_json()))
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
    found = stands(STALE, NOTHING_NEW)
    assert (found.to_do, found.catalog_error) == ("ConfigurationError: no. Grant it",) * 2
    assert (found.catalog_table, found.needs_a_person) == ("lake.shop_orders", True)
