"""`cdclake clean-up` deletes what the retention time does not need, and leaves the table as it is."""

from datetime import datetime, timezone

import boto3
import pytest

from cdclake.commit.clean_up import CleanUpPlan
from cdclake.model.retained import Retained
from cdclake_cli.verbs.clean_up import _KINDS

DAYS = "--retention-days"


def test_a_dry_run_counts_and_deletes_nothing(cdclake, store):
    before = list(store.log.store.list(""))
    result = cdclake.ok("clean-up", "shop.store", DAYS, "1", "--dry-run")
    assert "Clean-up of shop.store (days retained: 1)" in result.stdout
    (line,) = [line for line in result.stdout.splitlines() if "Retired data files" in line]
    assert line.split()[-1] == "1"
    assert "you can roll back to change 3 or a later one" in result.stdout
    assert "Dry run: nothing was changed" in result.stdout
    assert list(store.log.store.list("")) == before
    counts = cdclake.record("clean-up", "shop.store", DAYS, "1", "--dry-run")
    assert (counts["done"], counts["first_retained"], counts["data_files"], counts["snapshots"]) == (False, 3, 1, 2)


def test_it_deletes_old_objects_and_leaves_the_table_as_it_is(cdclake, store):
    visible = store.visible()
    assert cdclake("clean-up", "shop.store", DAYS, "1", "--yes").exit_code == 0
    assert store.visible() == visible
    versions = boto3.client("s3").list_object_versions(Bucket="cdclake-lake", Prefix="shop/store/")
    assert "DeleteMarkers" not in versions
    assert len(versions["Versions"]) == 2
    assert "no longer retained" in cdclake.refused("rollback", "shop.store", "--to", "2", "--yes")
    assert len(cdclake.records("changes", "shop.store")) == 3
    assert "shop.store: there is nothing to delete." in cdclake("clean-up", "shop.store", DAYS, "1", "--yes").stdout


def test_the_retention_days_of_the_table_are_the_default(cdclake, store):
    assert cdclake.record("clean-up", "shop.store", "--dry-run")["retention_days"] == 30
    assert (
        cdclake(
            "tables", "set", "shop.store", "--set", "RetentionDays=36000", "--set", "KeepEveryState=36000"
        ).exit_code
        == 0
    )
    kept = cdclake.record("clean-up", "shop.store", "--dry-run")
    assert (kept["retention_days"], kept["first_retained"], kept["data_files"]) == (36000, 1, 0)
    less = cdclake.record("clean-up", "shop.store", DAYS, "2", "--dry-run")
    assert (less["retention_days"], less["first_retained"]) == (2, 3)


def test_it_asks_before_it_deletes(cdclake, store):
    result = cdclake.at_terminal("clean-up", "shop.store", answer="n")
    assert result.exit_code == 1
    assert "Permanently delete" in result.stderr
    assert store.log.retained().first == 1
    assert cdclake.at_terminal("clean-up", "shop.store", answer="y").exit_code == 0
    assert store.log.retained().first == 3


def test_a_running_job_is_a_warning_in_a_dry_run(cdclake, store, state):
    state.acquire_lease("cdclake-raw/shop/store/", "jr_at_work", datetime.now(timezone.utc), 300)
    assert "A run is working on shop.store" in cdclake("clean-up", "shop.store", "--dry-run").stdout


@pytest.mark.parametrize("days", ["-1", "99999999"])
def test_a_wrong_number_of_days_is_refused(cdclake, days):
    assert "Invalid value for '--retention-days'" in cdclake.refused("clean-up", "shop.store", DAYS, days)


def test_a_table_without_changes_needs_no_clean_up(cdclake, store):
    shown = cdclake("clean-up", "shop.product", "--yes").stdout
    assert "nothing to delete" in shown
    assert "roll back" not in shown


def test_the_table_shows_all_kinds_of_objects() -> None:
    plan = CleanUpPlan(Retained())
    assert set(_KINDS) == {name for name, value in vars(plan).items() if isinstance(value, tuple)}
