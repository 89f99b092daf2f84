"""`cdclake status` tells how tables stand, and by its exit status whether something needs a person."""

import json
from datetime import datetime, timedelta, timezone

import boto3
import pytest

STORE, PRODUCT = "cdclake-raw/shop/store/", "cdclake-raw/shop/product/"


@pytest.fixture
def lake(store, state):
    """A lake table with three changes, and another table that a person has turned off; both have raw files."""
    for table in ("store", "product"):
        boto3.client("s3").put_object(Bucket="cdclake-raw", Key=f"shop/{table}/LOAD00000001.csv", Body=b"x")
    state.set_attributes(PRODUCT, {"PrimaryKey": "id"})
    later = (datetime.now(timezone.utc) + timedelta(minutes=1)).strftime("%Y-%m-%d %H:%M:%S")
    state.record_run(STORE, {"LastFullLoadDate": later, "LastRunState": "SUCCEEDED", "LastRunId": "jr-7"})
    return state


def told(result):
    return {record["table"]: record for record in map(json.loads, result.stdout.splitlines())}


def test_status_of_tables_that_go_on_by_themselves_is_good(cdclake, lake):
    result = cdclake("status", "--output", "json")
    assert result.exit_code == 0, result.output
    tables = told(result)
    assert {table: record["standing"] for table, record in tables.items()} == {
        "shop.store": "up to date",
        "shop.product": "inactive",
    }
    store = tables["shop.store"]
    assert (store["change"], store["change_kind"], store["run_id"]) == (3, "incremental", "jr-7")
    assert datetime.fromisoformat(store["change_utc"])
    assert (store["lag_seconds"], store["lag_files"]) == (0, 0)


def test_status_of_a_failed_table_needs_a_person_and_tells_the_error(cdclake, lake):
    lake.record_run(STORE, {"LastRunState": "FAILED", "LastError": "BadRowError: Op is X. Correct the file"})
    result = cdclake("status")
    assert result.exit_code == 6
    assert "1 failed (shop.store)" in result.stderr
    assert "BadRowError: Op is X" in result.stderr
    assert cdclake("status", "--table", "shop.product").exit_code == 0


def test_status_of_a_late_table_needs_a_person(cdclake, lake):
    lake.record_run(STORE, {"LastFullLoadDate": "1900-01-01 00:00:00"})
    lake.set_attributes(STORE, {"FullLoadQuietMinutes": "0"})
    result = cdclake("status", "--output", "json")
    assert result.exit_code == 0, result.output
    assert (told(result)["shop.store"]["standing"], told(result)["shop.store"]["lag_files"]) == ("behind", 1)
    assert cdclake("status", "--late-after-minutes", "0").exit_code == 2


def test_status_of_a_new_table_needs_a_person_unless_new_tables_are_ignored(cdclake, lake):
    boto3.client("s3").put_object(Bucket="cdclake-raw", Key="shop/orders/LOAD00000001.csv", Body=b"x")
    result = cdclake("status", "--output", "json")
    assert result.exit_code == 6
    assert told(result)["shop.orders"]["standing"] == "new"
    assert "cdclake tables activate shop.orders" in result.stderr
    assert cdclake("status", "--ignore-new").exit_code == 0


def test_a_change_that_the_lake_lacks_is_told_as_its_tables_own_trouble(cdclake, lake):
    lake.record_run(STORE, {"LastChangeId": "9"})
    result = cdclake("status", "--output", "json")
    assert result.exit_code == 6
    assert {table: record["standing"] for table, record in told(result).items()} == {
        "shop.store": "broken",
        "shop.product": "inactive",
    }
    assert "is missing" in told(result)["shop.store"]["to_do"]


def test_status_changes_nothing(cdclake, lake):
    before = {table.path: dict(table.item) for table in lake.all()}
    cdclake("status")
    assert {table.path: dict(table.item) for table in lake.all()} == before


def test_a_table_for_people_shows_those_first_that_need_one_and_no_more_than_can_be_read(
    cdclake, lake, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("cdclake.cli.verbs.status.MOST_ROWS", 1)
    lake.record_run(STORE, {"LastRunState": "FAILED", "LastError": "BadRowError: Op is X. Correct the file"})
    result = cdclake("status")
    assert result.exit_code == 6
    assert "shop.store" in result.stdout
    assert "shop.product" not in result.stdout
    assert "2 tables, 1 inactive, 1 failed. 1 are not shown; --output json lists all" in result.stdout
    assert list(told(cdclake("status", "--output", "json"))) == ["shop.store", "shop.product"]
