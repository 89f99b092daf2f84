"""`cdclake plan` shows what a run would do, and changes nothing."""

import io
import json
import zipfile

import boto3
from botocore.stub import Stubber

from cdclake.control.run.small_loads import MOST_RAW_BYTES
from cdclake.model.names import FUNCTION_SMALL_CHANGES
from cdclake_cli.aws import services
from cdclake_cli.aws.function import small_changes_function


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
    result = cdclake.ok("plan", "shop.store")
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


def deploy_function():
    role = boto3.client("iam").create_role(RoleName="function", AssumeRolePolicyDocument=json.dumps({}))["Role"]["Arn"]
    code = io.BytesIO()
    zipfile.ZipFile(code, "w").close()
    boto3.client("lambda").create_function(
        FunctionName=FUNCTION_SMALL_CHANGES,
        Runtime="python3.13",
        Role=role,
        Handler="handler.handler",
        Code={"ZipFile": code.getvalue()},
        MemorySize=1769,
        Timeout=300,
    )


def test_plan_shows_whether_the_function_or_spark_does_the_work_and_why(cdclake, state):
    for table, last in (("store", "20240302-000000000.csv"), ("product", "20240302-000000000.parquet")):
        put(f"shop/{table}/LOAD00000001.parquet", f"shop/{table}/{last}")
        state.set_attributes(f"cdclake-raw/shop/{table}/", {"ActiveFlag": "true", "FullLoadQuietMinutes": "0"})
    loaded = {"LastFullLoadDate": "2100-01-01 00:00:00", "LastIncrementalFile": "cdclake-raw/shop/product/0.parquet"}
    state.record_run("cdclake-raw/shop/product/", loaded)

    def places():
        return {record["table"]: record["place"] for record in cdclake.records("plan")}

    assert places() == {"shop.product": "", "shop.store": ""}
    assert "Place" not in cdclake.ok("plan").stdout
    deploy_function()
    spark = "Spark, at least 1.5 cents: "
    assert places() == {"shop.product": "function, at most 0.69 cents", "shop.store": f"{spark}it is a full load"}
    assert "Place" in cdclake.ok("plan").stdout
    state.record_run("cdclake-raw/shop/product/", {"LastDeaths": "1"})
    assert places()["shop.product"] == f"{spark}a run died at the table"
    boto3.client("s3").put_object(
        Bucket="cdclake-raw", Key="shop/product/20240302-000000001.parquet", Body=bytes(MOST_RAW_BYTES)
    )
    assert places()["shop.product"] == f"{spark}its raw files have 16,777,217 bytes, of at most 16,777,216"


def test_a_plan_does_not_need_to_know_the_function(cdclake, state, monkeypatch):
    put("shop/store/LOAD00000001.csv")

    def asked(client, name_prefix):
        with Stubber(client) as stub:
            stub.add_client_error("get_function_configuration", "AccessDeniedException")
            return small_changes_function(client, name_prefix)

    monkeypatch.setattr(services, "small_changes_function", asked)
    result = cdclake.ok("plan", "shop.store")
    assert "Whether the function for small changes is deployed is unknown" in result.output
    assert "lambda:GetFunctionConfiguration" in result.output
