"""`cdclake repair` and `cdclake clean-up`: what they find, what they do, and what they leave alone."""

import json

import boto3
import pytest

from cdclake.model.names import Attribute

PATH = "cdclake-raw/shop/store/"
FOLDER = "shop/store/"
LIVE = "000000000002-00001.parquet"
DAYS = "--retention-days"


def objects(prefix):
    return [
        entry["Key"]
        for entry in boto3.client("s3").list_objects_v2(Bucket="cdclake-lake", Prefix=prefix).get("Contents", [])
    ]


def the_json(result):
    assert result.exit_code == 0, result.output
    (line,) = result.stdout.splitlines()
    return json.loads(line)


@pytest.fixture
def disturbed(store):
    """One data file was removed and a stranger added."""
    s3 = boto3.client("s3")
    s3.delete_object(Bucket="cdclake-lake", Key=FOLDER + LIVE)
    s3.put_object(Bucket="cdclake-lake", Key=FOLDER + "sub/mine.parquet", Body=b"mine")
    return store


def test_repair_dry_run_names_the_files_and_does_nothing(cdclake, disturbed):
    before = disturbed.visible()
    result = cdclake("repair", "shop.store", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "s3://cdclake-lake/shop/store/" in result.stdout
    assert f"{LIVE}" in result.stdout
    assert "restore" in result.stdout
    assert "move to s3://cdclake-lake/_cdclake/shop/store/foreign/sub/mine.parquet" in result.stdout
    assert "Dry run: nothing was changed" in result.stdout
    assert disturbed.visible() == before
    found = the_json(cdclake("repair", "shop.store", "--dry-run", "-o", "json"))
    assert (found["done"], found["vanished"], found["foreign"], found["replaced"]) == (
        False,
        [LIVE],
        ["sub/mine.parquet"],
        [],
    )


def test_repair_brings_vanished_files_back_and_moves_foreign_ones_aside(cdclake, disturbed, state):
    result = cdclake("repair", "shop.store", "--yes")
    assert result.exit_code == 0, result.output
    assert "Done: 1 files restored, 1 moved." in result.stdout
    assert disturbed.contents() == {
        LIVE: b"rows of change 2" * 2,
        "000000000003-00001.parquet": b"rows of change 3" * 3,
    }
    assert objects("_cdclake/shop/store/foreign/") == ["_cdclake/shop/store/foreign/sub/mine.parquet"]
    assert Attribute.LEASE_HOLDER not in state.get(PATH).item
    again = cdclake("repair", "shop.store", "--yes")
    assert (again.exit_code, again.stdout) == (0, "The files of shop.store are correct.\n")


def test_repair_asks_and_stops_if_something_else_is_found_after_the_answer(cdclake, disturbed):
    assert cdclake("repair", "shop.store").exit_code == 2
    assert cdclake.asked("repair", "shop.store", answer="n").exit_code == 1

    def another_file():
        boto3.client("s3").put_object(Bucket="cdclake-lake", Key=FOLDER + "second.parquet", Body=b"mine")
        return "y"

    result = cdclake.asked("repair", "shop.store", answer=another_file)
    assert result.exit_code == 4
    assert "changed after the plan was shown" in result.stderr
    assert LIVE not in disturbed.visible()
    assert cdclake.asked("repair", "shop.store", answer="y").exit_code == 0
    assert LIVE in disturbed.visible()


def test_an_overwritten_file_is_shown_and_not_repaired(cdclake, disturbed):
    boto3.client("s3").put_object(Bucket="cdclake-lake", Key=FOLDER + "000000000003-00001.parquet", Body=b"other")
    assert "overwritten" in cdclake("repair", "shop.store", "--dry-run").stdout
    before = disturbed.visible()
    result = cdclake("repair", "shop.store", "--yes")
    assert result.exit_code == 5
    assert "overwritten" in result.stderr
    assert disturbed.visible() == before


def test_while_a_run_is_at_work_what_is_found_is_said_to_be_in_doubt(cdclake, disturbed, state, clock):
    state.acquire_lease(PATH, "jr_at_work", clock(), 10**9)
    assert "A run is working on shop.store" in cdclake("repair", "shop.store", "--dry-run").stdout
    assert "A run is working on shop.store" in cdclake("clean-up", "shop.store", "--dry-run").stdout
    assert cdclake("repair", "shop.store", "--yes").exit_code == 4
    assert cdclake("clean-up", "shop.store", "--yes").exit_code == 4


def test_clean_up_dry_run_counts_and_deletes_nothing(cdclake, store):
    before = objects("")
    result = cdclake("clean-up", "shop.store", DAYS, "1", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "Clean-up of shop.store (days retained: 1)" in result.stdout
    (line,) = [line for line in result.stdout.splitlines() if "Retired data files" in line]
    assert line.split()[-1] == "1"
    assert "you can roll back to change 3 or later" in result.stdout
    assert "Dry run: nothing was changed" in result.stdout
    assert objects("") == before
    counts = the_json(cdclake("clean-up", "shop.store", DAYS, "1", "--dry-run", "-o", "json"))
    assert (counts["done"], counts["first_retained"], counts["data_files"], counts["snapshots"]) == (False, 3, 1, 2)


def test_clean_up_deletes_what_is_too_old_and_leaves_the_table_alone(cdclake, store):
    visible = store.visible()
    assert cdclake("clean-up", "shop.store", DAYS, "1", "--yes").exit_code == 0
    assert store.visible() == visible
    versions = boto3.client("s3").list_object_versions(Bucket="cdclake-lake", Prefix=FOLDER)
    assert "DeleteMarkers" not in versions
    assert len(versions["Versions"]) == 2
    result = cdclake("rollback", "shop.store", "--to", "2", "--yes")
    assert result.exit_code == 2
    assert "no longer retained" in result.stderr
    assert len(cdclake("changes", "shop.store", "-o", "json").stdout.splitlines()) == 3
    again = cdclake("clean-up", "shop.store", DAYS, "1", "--yes")
    assert "There is nothing to delete." in again.stdout


def test_clean_up_keeps_as_long_as_the_table_says_unless_told_otherwise(cdclake, store):
    assert the_json(cdclake("clean-up", "shop.store", "--dry-run", "-o", "json"))["retention_days"] == 30
    assert cdclake("tables", "set", "shop.store", "--set", "RetentionDays=36000").exit_code == 0
    kept = the_json(cdclake("clean-up", "shop.store", "--dry-run", "-o", "json"))
    assert (kept["retention_days"], kept["first_retained"], kept["data_files"]) == (36000, 1, 0)
    less = the_json(cdclake("clean-up", "shop.store", DAYS, "2", "--dry-run", "-o", "json"))
    assert (less["retention_days"], less["first_retained"]) == (2, 3)


def test_clean_up_asks_before_it_deletes(cdclake, store):
    assert cdclake("clean-up", "shop.store").exit_code == 2
    result = cdclake.asked("clean-up", "shop.store", answer="n")
    assert result.exit_code == 1
    assert "Permanently delete" in result.stderr
    assert store.log.first_retained() == 1
    assert cdclake.asked("clean-up", "shop.store", answer="y").exit_code == 0
    assert store.log.first_retained() == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["repair", "shop.none"], "not registered"),
        (["clean-up", "shop.none"], "not registered"),
        (["clean-up", "shop.store", DAYS, "-1"], "Invalid value for '--retention-days'"),
        (["clean-up", "shop.store", DAYS, "99999999"], "Invalid value for '--retention-days'"),
    ],
)
def test_wrong_arguments_are_clear_errors(cdclake, store, arguments, message):
    result = cdclake(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_a_table_without_changes_needs_neither(cdclake, store):
    assert "are correct" in cdclake("repair", "shop.product", "--yes").stdout
    assert "nothing to delete" in cdclake("clean-up", "shop.product", "--yes").stdout
