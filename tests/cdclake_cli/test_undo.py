"""`cdclake rollback` and `cdclake reapply` show the plan, ask, carry it out, and name the next steps."""

import json
import re
from datetime import datetime, timedelta, timezone

import boto3
import pytest

from cdclake.commit.log import ChangeLog
from cdclake.control.plan.open_findings import OpenFindings
from cdclake.model.retained import Retained
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState
from cdclake_devkit.memory import MemoryStore
from tests.builders import LakeBuilder
from tests.moto_buckets import Version, read_bucket, write_bucket

PATH = "cdclake-raw/shop/store/"
RAW_2, RAW_3 = "20240302-000000000.parquet", "20240303-000000000.parquet"


def lake_objects():
    """Every version of every object of the lake."""
    pages = boto3.client("s3").get_paginator("list_object_versions").paginate(Bucket="cdclake-lake")
    versions = [(entry["Key"], entry["VersionId"]) for page in pages for entry in page.get("Versions", ())]
    markers = [(entry["Key"], entry["VersionId"]) for page in pages for entry in page.get("DeleteMarkers", ())]
    return sorted(versions), sorted(markers)


def cells(result, first):
    (cells,) = [line for line in map(split, result.stdout.splitlines()) if line[0] == first]
    return cells


def split(line):
    return re.split(r"\s{2,}", line.strip())


def test_a_dry_run_shows_the_plan_and_changes_nothing_even_while_a_run_has_the_lease(cdclake, store, state):
    state.acquire_lease(PATH, "jr_at_work", datetime.now(timezone.utc), 300)
    before = lake_objects(), dict(state.get(PATH).item)
    result = cdclake.ok("rollback", "shop.store", "--dry-run")
    assert "Changes of shop.store to undo" in result.stdout
    assert "Roll shop.store back to change 2" in result.stdout
    assert cells(result, "Rows") == ["Rows", "70", "150"]
    assert cells(result, "Data files") == ["Data files", "2", "2"]
    assert cells(result, "Last change file") == ["Last change file", RAW_3, RAW_2]
    assert cells(result, "Active") == ["Active", "yes", "no"]
    assert "Data files to restore: 1 (16 bytes)" in result.stdout
    assert "Data files to retire: 1 (48 bytes)" in result.stdout
    assert "Dry run: nothing was changed" in result.stdout
    plan = cdclake.record("rollback", "shop.store", "--to", "1", "--dry-run")
    assert (plan["table"], plan["done"], plan["as_of"], plan["changes"]) == ("shop.store", False, 1, [2, 3])
    assert (plan["rows_before"], plan["rows_after"], plan["watermark_after"]) == (70, 100, "20240301-000000000.parquet")
    assert (lake_objects(), dict(state.get(PATH).item)) == before


def test_rollback_restores_the_same_files_and_the_watermark_and_turns_the_table_off(cdclake, store, state):
    assert cdclake("rollback", "shop.store", "--to", "2", "--yes").exit_code == 0
    assert store.contents() == {
        "000000000001-00001.parquet": b"rows of change 1",
        "000000000002-00001.parquet": b"rows of change 2" * 2,
    }
    item = state.get(PATH).item
    assert item[Attribute.ACTIVE_FLAG] == "false"
    assert item[Attribute.LAST_INCREMENTAL_FILE] == PATH + RAW_2
    assert item[Attribute.LAST_CHANGE_ID] == "4"
    assert Attribute.LEASE_HOLDER not in item


def health(cdclake):
    """Exit status and health of the table in `cdclake status`."""
    result = cdclake("status", "shop.store", "--output", "json")
    return result.exit_code, json.loads(result.stdout)["standing"], json.loads(result.stdout)["to_do"]


@pytest.fixture
def loaded(store, state):
    """The table with its raw files; all are applied."""
    boto3.client("s3").put_object(Bucket="cdclake-raw", Key="shop/store/LOAD00000001.csv", Body=b"x")
    later = (datetime.now(timezone.utc) + timedelta(minutes=1)).strftime("%Y-%m-%d %H:%M:%S")
    ended = {"LastFullLoadDate": later, "LastRunState": "SUCCEEDED", "LastFindings": str(OpenFindings(3))}
    state.record_run(PATH, ended)
    return store


def test_a_rolled_back_table_needs_action_until_it_is_turned_on(cdclake, loaded, state):
    assert health(cdclake)[:2] == (0, "up to date")
    assert "cdclake tables pause shop.store" in cdclake.ok("rollback", "shop.store", "--yes").stdout
    code, standing, to_do = health(cdclake)
    assert (code, standing) == (6, "rolled back")
    assert "cdclake tables activate shop.store" in to_do
    assert "cdclake tables pause shop.store" in to_do
    assert cdclake.ok("reapply", "shop.store", "--yes").stdout
    assert health(cdclake)[:2] == (6, "rolled back")
    cdclake.ok("tables", "activate", "shop.store")
    assert health(cdclake)[1] != "rolled back"
    state.set_attributes(PATH, {Attribute.ACTIVE_FLAG: "false"})
    assert health(cdclake)[:2] == (0, "inactive")


def test_a_rolled_back_table_can_be_left_off_on_purpose(cdclake, loaded, state):
    cdclake.ok("rollback", "shop.store", "--yes", "--leave-off")
    assert not state.get(PATH).active
    assert health(cdclake)[:2] == (0, "inactive")


def test_pausing_a_rolled_back_table_says_that_it_is_meant_to_be_off(cdclake, loaded):
    cdclake.ok("rollback", "shop.store", "--yes")
    (record,) = cdclake.records("tables", "pause", "shop.store")
    assert record["item"]["LastOffByRollback"] == ""
    assert health(cdclake)[:2] == (0, "inactive")
    cdclake.ok("rollback", "shop.store", "--yes")
    assert health(cdclake)[:2] == (6, "rolled back")


def test_rollback_prints_the_result_and_the_next_steps(cdclake, store):
    result = cdclake("rollback", "shop.store", "--yes", "--reason", "wrong prices", CDCLAKE_USER="ann")
    assert "Done, as change 4: shop.store is as it was after change 2; rows: 150." in result.stdout
    assert "To reapply change 3: cdclake reapply shop.store" in result.stdout
    assert "cdclake tables activate shop.store" in result.stdout
    record = store.log.record(4)
    assert (record.reason, record.made_by) == ("wrong prices", "ann")
    assert re.fullmatch(r"by-hand-[0-9a-f]{32}", record.run_id)


def test_reapply_redoes_one_change_at_a_time_and_leaves_the_table_off(cdclake, store, state):
    before = store.visible()
    done = cdclake.record("rollback", "shop.store", "--to", "1", "--yes")
    assert (done["done"], done["change"], done["as_of"], done["changes"]) == (True, 4, 1, [2, 3])
    assert done["run_id"] == store.log.record(4).run_id
    first = cdclake("reapply", "shop.store", "--yes")
    assert "shop.store is as it was after change 2; rows: 150" in first.stdout
    assert "To reapply change 3: cdclake reapply shop.store" in first.stdout
    second = cdclake("reapply", "shop.store", "--yes")
    assert "Reapply change 3 of shop.store" in second.stdout
    assert ": cdclake reapply" not in second.stdout
    assert "The table is turned off" in second.stdout
    assert store.visible() == before
    assert {record.made_by[:8] for record in store.log.records(4, 6)} == {"arn:aws:"}
    assert state.get(PATH).item[Attribute.LAST_INCREMENTAL_FILE] == PATH + RAW_3
    assert not state.get(PATH).active
    assert "no change to reapply" in cdclake.refused("reapply", "shop.store", "--yes")


def test_json_output_never_asks(cdclake, store):
    assert cdclake.at_terminal("rollback", "shop.store", "--output", "json", answer="y").exit_code == 2
    assert store.log.head() == 3


def test_the_user_can_decline(cdclake, store, state):
    result = cdclake.at_terminal("rollback", "shop.store", answer="n")
    assert result.exit_code == 1
    assert "Roll shop.store back to change 2?" in result.stderr
    assert "Nothing was changed." in result.stderr
    assert store.log.head() == 3
    assert state.get(PATH).active


def test_a_change_between_question_and_answer_stops_the_command(cdclake, store, state):
    def apply_and_agree():
        store.change(rows=7)
        return "y"

    result = cdclake.at_terminal("rollback", "shop.store", answer=apply_and_agree)
    assert result.exit_code == 4
    assert "changed after the plan was shown" in result.stderr
    assert "Traceback" not in result.output
    assert store.log.head() == 4
    assert state.get(PATH).active
    assert Attribute.LEASE_HOLDER not in state.get(PATH).item


def test_a_takeover_between_question_and_answer_does_not_stop_the_command(cdclake, store, state, clock):
    def leave_a_lease_behind():
        state.acquire_lease(PATH, "jr_dead", clock(), 1)  # long over by the real clock
        return "y"

    result = cdclake.at_terminal("rollback", "shop.store", answer=leave_a_lease_behind)
    assert result.exit_code == 0, result.output
    assert [record.kind.value for record in store.log.records(4, 5)] == ["takeover", "rollback"]
    assert "takeover" in cdclake("changes", "shop.store").stdout
    assert "jr_dead" in cdclake("changes", "show", "shop.store", "4").stdout


def test_a_change_past_retention_is_an_error_that_names_the_oldest_retained_one(cdclake, store):
    store.log.mark_retained(Retained(1))
    error = cdclake.refused("rollback", "shop.store", "--to", "1", "--yes")
    assert "no longer retained" in error
    assert "change 2" in error
    assert store.log.head() == 3


def test_foreign_files_stop_the_rollback_and_the_error_names_repair(cdclake, store, state):
    boto3.client("s3").put_object(Bucket="cdclake-lake", Key="shop/store/mine.parquet", Body=b"mine")
    result = cdclake("rollback", "shop.store", "--yes")
    assert result.exit_code == 5
    assert "mine.parquet" in result.stderr
    assert "cdclake repair shop.store" in result.stderr
    assert store.log.head() == 3
    assert state.get(PATH).active


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rollback", "shop.store", "--to", "3"], "no change 3 to roll back to"),
        (["rollback", "shop.product"], "no change to undo"),
        (["reapply", "shop.store"], "no change to reapply"),
    ],
)
def test_an_impossible_undo_is_a_clear_error(cdclake, store, arguments, message):
    assert message in cdclake.refused(*arguments, "--yes")
    assert store.log.head() == 3


def test_a_long_rollback_lists_the_last_changes_only(cdclake, store, state):
    saved, memory = read_bucket("cdclake-lake"), MemoryStore()  # 30 changes on moto take seconds
    for key, (*_, newest) in saved.items():
        if newest.content is not None:
            memory.put(key, newest.content)
    longer = LakeBuilder(ChangeLog(memory, store.layout))
    for _ in range(30):
        longer.change(rows=1)
    for entry in memory.list(""):
        written = Version(memory.get(entry.key), {}, entry.modified_utc.replace(tzinfo=None))
        saved[entry.key] = [*saved.get(entry.key, ()), written]
    write_bucket("cdclake-lake", saved)
    assert "and 2 earlier changes" in cdclake("rollback", "shop.store", "--to", "1", "--dry-run").stdout
    assert TableState(state.get(PATH).item).active


def test_the_catalog_is_updated_and_its_errors_are_only_warnings(cdclake, store, state):
    glue = boto3.client("glue")
    state.record_run(PATH, {Attribute.LAST_CATALOG_TABLE: "lake.shop_store"})
    result = cdclake.ok("rollback", "shop.store", "--yes")
    assert "The catalog entry of shop.store is out of date: ConfigurationError" in result.output
    assert "Create the database lake" in state.get(PATH).item[Attribute.LAST_CATALOG_ERROR]
    glue.create_database(DatabaseInput={"Name": "lake"})
    again = cdclake.record("reapply", "shop.store", "--yes")
    assert (again["kind"], again["change"], again["as_of"], again["changes"]) == ("reapply", 5, 3, [3])
    table = glue.get_table(DatabaseName="lake", Name="shop_store")["Table"]
    assert (table["Parameters"]["numRows"], table["Parameters"]["cdclake.change"]) == ("70", "5")
    assert state.get(PATH).item[Attribute.LAST_CATALOG_ERROR] == ""
