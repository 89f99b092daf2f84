"""`cdclake plan` shows what a run would do, and changes nothing."""

import boto3


def put(*keys):
    for key in keys:
        boto3.client("s3").put_object(Bucket="cdclake-raw", Key=key, Body=b"x")


def test_plan_separates_new_inactive_and_due_tables_and_changes_nothing(cdclake, state):
    put("shop/store/LOAD00000001.csv", "shop/product/LOAD00000001.parquet", "shop/productorder/LOAD00000001.parquet")
    assert cdclake("tables", "activate", "shop.store").exit_code == 0
    assert cdclake("tables", "set", "shop.store", "--set", "FullLoadQuietMinutes=0").exit_code == 0
    before = {table.path: dict(table.item) for table in state.all()}
    plan = {record["table"]: record for record in cdclake.records("plan")}
    assert {table: record["action"] for table, record in plan.items()} == {
        "shop.product": "none",
        "shop.productorder": "register",
        "shop.store": "start",
    }
    assert plan["shop.store"]["kind"] == "full load"
    assert {table.path: dict(table.item) for table in state.all()} == before


def test_plan_shows_the_action_needed_and_what_a_table_waits_for(cdclake, state):
    put("shop/store/LOAD00000001.csv", "shop/product/LOAD00000001.parquet", "shop/productorder/LOAD00000001.parquet")
    cdclake("tables", "activate", "shop.store")
    plan = {record["table"]: record for record in cdclake.records("plan")}
    assert (plan["shop.store"]["kind"], plan["shop.store"]["action"]) == ("waiting", "none")
    assert "full load still arriving" in plan["shop.store"]["reason"]
    assert plan["shop.store"]["to_do"] == ""
    for table in ("shop.product", "shop.productorder"):
        assert "tables set" in plan[table]["to_do"]
        assert f"cdclake tables activate {table}" in plan[table]["to_do"]


def test_plan_as_a_table_shows_the_reason(cdclake, state):
    put("shop/store/LOAD00000001.csv")
    result = cdclake.ok("plan", "--table", "shop.store")
    assert "inactive" in result.stdout
    assert "ActiveFlag" in result.stdout
    assert "shop.product" not in result.stdout


def test_a_table_that_cannot_be_planned_fails_the_command_and_is_shown(cdclake, state):
    put("shop/store/LOAD00000001.csv", "shop/product/LOAD00000001.parquet")
    path = "cdclake-raw/shop/store/"
    cdclake("tables", "activate", "shop.store")
    state.record_run(path, {"LastFullLoadDate": "yesterday"})
    result = cdclake("plan")
    assert result.exit_code == 6
    assert "shop.product" in result.stdout
    assert "yesterday" in result.stderr


def test_a_missing_bucket_is_an_error(cdclake, state):
    assert "no-such-bucket" in cdclake.refused("plan", "--raw-bucket", "no-such-bucket")
