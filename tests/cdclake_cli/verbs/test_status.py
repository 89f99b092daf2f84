"""`cdclake status` shows the health of every table; exit status 6 means that action is needed."""

import io
import json
from datetime import datetime, timedelta, timezone
from functools import partial

import boto3
import pytest
from rich.console import Console

from cdclake.control.plan.open_findings import OpenFindings
from cdclake.control.status import Health, TableStatus
from cdclake_cli.aws.untyped import Untyped
from cdclake_cli.printing.output import TextOutput
from cdclake_cli.verbs.status import show
from tests.moto_buckets import s3_backend

STORE, PRODUCT = "cdclake-raw/shop/store/", "cdclake-raw/shop/product/"


@pytest.fixture
def lake(store, state):
    """A lake table with three changes, and a table that is turned off; both have raw files."""
    for table in ("store", "product"):
        boto3.client("s3").put_object(Bucket="cdclake-raw", Key=f"shop/{table}/LOAD00000001.csv", Body=b"x")
    state.set_attributes(PRODUCT, {"PrimaryKey": "id"})
    later = (datetime.now(timezone.utc) + timedelta(minutes=1)).strftime("%Y-%m-%d %H:%M:%S")
    ended = {"LastFullLoadDate": later, "LastRunState": "SUCCEEDED", "LastRunId": "jr-7"}
    state.record_run(STORE, {**ended, "LastFindings": str(OpenFindings(3))})
    return state


def records(result):
    return {record["table"]: record for record in map(json.loads, result.stdout.splitlines())}


def health(result):
    return {table: record["standing"] for table, record in records(result).items()}


def test_tables_without_problems_need_no_action_and_nothing_changes(cdclake, lake):
    before = {table.path: dict(table.item) for table in lake.all()}
    result = cdclake.ok("status", "--output", "json")
    assert {table.path: dict(table.item) for table in lake.all()} == before
    assert health(result) == {"shop.store": "up to date", "shop.product": "inactive"}
    store = records(result)["shop.store"]
    assert (store["change"], store["change_kind"], store["run_id"]) == (3, "incremental", "jr-7")
    assert datetime.fromisoformat(store["change_utc"])
    assert (store["lag_seconds"], store["lag_files"]) == (0, 0)


def test_a_failed_table_needs_action_and_shows_its_error(cdclake, lake):
    lake.record_run(STORE, {"LastRunState": "FAILED", "LastError": "BadRowError: Op is X. Correct the file"})
    result = cdclake("status")
    assert result.exit_code == 6
    assert "1 failed (shop.store)" in result.stderr
    assert "BadRowError: Op is X" in result.stderr
    assert cdclake("status", "shop.product").exit_code == 0


def test_a_table_with_quarantined_rows_needs_action(cdclake, lake):
    lake.record_run(STORE, {"LastFindings": str(OpenFindings(3, quarantined_rows=2))})
    assert health(cdclake("status", "--output", "json"))["shop.store"] == "incomplete"
    result = cdclake("status")
    assert result.exit_code == 6
    assert "1 incomplete (shop.store)" in result.stderr
    assert result.stdout.count("quarantined rows that the table lacks: 2") == 1


def test_a_table_that_is_behind_needs_no_action(cdclake, lake):
    lake.record_run(STORE, {"LastFullLoadDate": "1900-01-01 00:00:00"})
    lake.set_attributes(STORE, {"FullLoadQuietMinutes": "0"})
    result = cdclake.ok("status", "--output", "json")
    assert (health(result)["shop.store"], records(result)["shop.store"]["lag_files"]) == ("behind", 1)
    assert "1 file for " in cdclake("status").stdout
    assert cdclake("status", "--late-after-minutes", "0").exit_code == 2


def test_the_delays_of_the_last_day_are_shown(cdclake, lake):
    visible = int(datetime.now(timezone.utc).timestamp()) - 600
    lake.record_run(STORE, {"LastDelays": json.dumps([[1, visible, 42], [2, visible, 40], [3, visible, 185]])})
    assert "42 s, p95 3 min 5 s" in cdclake.ok("status").stdout
    found = records(cdclake.ok("status", "--output", "json"))
    assert [found["shop.store"][name] for name in ("delay_p50_seconds", "delay_p95_seconds")] == [42, 185]
    assert found["shop.product"]["delay_p50_seconds"] is None


def test_a_table_later_than_its_bound_needs_action(cdclake, lake):
    lake.set_attributes(STORE, {"FullLoadQuietMinutes": "0", "MaxDelayMinutes": "30"})
    lake.record_run(STORE, {"LastFullLoadDate": "1900-01-01 00:00:00"})
    assert health(cdclake.ok("status", "--output", "json"))["shop.store"] == "behind"
    file = s3_backend().buckets["cdclake-raw"].keys["shop/store/LOAD00000001.csv"]
    file.last_modified -= timedelta(minutes=40)
    result = cdclake("status")
    assert result.exit_code == 6
    assert "1 late (shop.store)" in result.stderr
    assert "written 40 min" in result.stdout
    assert "MaxDelayMinutes is 30" in result.stdout


def test_a_new_table_needs_action_unless_new_tables_are_ignored(cdclake, lake):
    boto3.client("s3").put_object(Bucket="cdclake-raw", Key="shop/orders/LOAD00000001.csv", Body=b"x")
    result = cdclake("status", "--output", "json")
    assert result.exit_code == 6
    assert health(result)["shop.orders"] == "new"
    assert "cdclake tables activate shop.orders" in result.stderr
    assert cdclake("status", "--ignore-new").exit_code == 0


def test_raw_files_of_no_table_need_action_and_are_named_by_plan_too(cdclake, lake):
    boto3.client("s3").put_object(Bucket="cdclake-raw", Key="shop/LOAD00000001.csv", Body=b"x")
    result = cdclake("status")
    assert result.exit_code == 6
    assert "1 file (LOAD00000001.csv) in cdclake-raw/shop/ not read" in " ".join(result.stdout.split())
    assert "folders with raw files of no table: 1" in " ".join(result.stderr.split())
    assert "in cdclake-raw/shop/ not read" in " ".join(cdclake("plan").stdout.split())


def test_a_change_missing_from_the_lake_affects_its_table_only(cdclake, lake):
    lake.record_run(STORE, {"LastChangeId": "9"})
    assert "unknown" in cdclake("status").stdout
    result = cdclake("status", "--output", "json")
    assert result.exit_code == 6
    assert health(result) == {"shop.store": "broken", "shop.product": "inactive"}
    assert "is missing" in records(result)["shop.store"]["to_do"]


def test_a_long_table_is_cut_after_the_tables_that_need_action(cdclake, lake, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("cdclake_cli.verbs.status.show", partial(show, max_rows=1))
    lake.record_run(STORE, {"LastRunState": "FAILED", "LastError": "BadRowError: Op is X. Correct the file"})
    result = cdclake("status")
    assert result.exit_code == 6
    assert "shop.store" in result.stdout
    assert "shop.product" not in result.stdout
    assert "Tables: 2, inactive: 1, failed: 1. Not shown: 1; --output json lists all" in result.stdout
    assert list(records(cdclake("status", "--output", "json"))) == ["shop.store", "shop.product"]


def test_long_names_fit_a_table_of_100_columns():
    name = "customer_relationship.subscription_invoice_item"
    status = TableStatus(
        table=name,
        path=f"raw/{name.replace('.', '/')}/",
        health=Health.STALE_CATALOG,
        reason="",
        to_do="ConfigurationError: The catalog has no database lake. Create the database lake",
        findings=("1 file is unread",),
        lag_seconds=86_400.4,
        lag_files=1_234,
        delay_p50_seconds=8_423,
        delay_p95_seconds=93_784,
        change=10_234,
        change_kind="incremental",
        change_utc="2026-11-22T10:15:00+00:00",
        rows=5,
        run_state="SUCCEEDED",
        run_id="jr_7",
        run_utc="2026-11-22T10:17:00Z",
        error="",
        leased_by=f"jr_{'0123456789abcdef' * 4}",
        leased_until_utc="2026-11-22T11:00:00Z",
        catalog_table="",
        catalog_error="",
    )
    written = io.StringIO()
    output = TextOutput(Console(file=written, width=100, force_terminal=True, color_system=None))
    show([status], output, {status.path: Untyped(0, "")})
    lines = written.getvalue().splitlines()
    assert max(map(len, lines)) <= 100
    assert [line.split()[0] for line in lines if name in line] == [name, f"{name}:", f"{name}:", f"{name}:"]
    text = " ".join(written.getvalue().split())
    for part in (
        "Table Health Lag Delay",
        "change Last run",
        "leased by jr_0123456789abcdef",
        "until 2026-11-22 11:00:00 UTC",
    ):
        assert part in text
