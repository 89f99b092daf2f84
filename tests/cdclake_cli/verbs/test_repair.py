"""`cdclake repair` restores missing files and moves foreign ones."""

from datetime import datetime, timezone

import boto3
import pytest

from cdclake.model.table.attributes import Attribute

PATH = "cdclake-raw/shop/store/"
FOLDER = "shop/store/"
LIVE = "000000000002-00001.parquet"


@pytest.fixture
def disturbed(store):
    """One data file is missing, and a foreign one was added."""
    s3 = boto3.client("s3")
    s3.delete_object(Bucket="cdclake-lake", Key=FOLDER + LIVE)
    s3.put_object(Bucket="cdclake-lake", Key=FOLDER + "sub/mine.parquet", Body=b"mine")
    return store


def test_a_dry_run_names_the_files_and_changes_nothing(cdclake, disturbed):
    before = disturbed.visible()
    result = cdclake.ok("repair", "shop.store", "--dry-run")
    assert "s3://cdclake-lake/shop/store/" in result.stdout
    assert f"{LIVE}" in result.stdout
    assert "restore" in result.stdout
    assert "move to s3://cdclake-lake/_cdclake/shop/store/foreign/sub/mine.parquet" in result.stdout
    assert "Dry run: nothing was changed" in result.stdout
    assert disturbed.visible() == before
    found = cdclake.record("repair", "shop.store", "--dry-run")
    assert (found["done"], found["vanished"], found["foreign"], found["replaced"]) == (
        False,
        [LIVE],
        ["sub/mine.parquet"],
        [],
    )


def test_a_missing_file_that_is_no_longer_retained_is_named_as_lost(cdclake, disturbed):
    s3 = boto3.client("s3")
    for version in s3.list_object_versions(Bucket="cdclake-lake", Prefix=FOLDER + LIVE)["Versions"]:
        s3.delete_object(Bucket="cdclake-lake", Key=version["Key"], VersionId=version["VersionId"])
    assert "none: no longer retained" in cdclake.ok("repair", "shop.store", "--dry-run").stdout


def test_repair_restores_missing_files_and_moves_foreign_ones(cdclake, disturbed, state):
    assert (
        "Done. Files of shop.store restored: 1, retired: 0, moved: 1."
        in cdclake.ok("repair", "shop.store", "--yes").stdout
    )
    assert disturbed.contents() == {
        LIVE: b"rows of change 2" * 2,
        "000000000003-00001.parquet": b"rows of change 3" * 3,
    }
    assert [entry.key for entry in disturbed.log.store.list("_cdclake/shop/store/foreign/")] == [
        "_cdclake/shop/store/foreign/sub/mine.parquet"
    ]
    assert Attribute.LEASE_HOLDER not in state.get(PATH).item
    again = cdclake("repair", "shop.store", "--yes")
    assert (again.exit_code, again.stdout) == (0, "The files of shop.store are correct.\n")


def test_repair_asks_and_stops_if_the_findings_change_meanwhile(cdclake, disturbed):
    assert cdclake("repair", "shop.store").exit_code == 2
    assert cdclake.at_terminal("repair", "shop.store", answer="n").exit_code == 1

    def another_file():
        boto3.client("s3").put_object(Bucket="cdclake-lake", Key=FOLDER + "second.parquet", Body=b"mine")
        return "y"

    result = cdclake.at_terminal("repair", "shop.store", answer=another_file)
    assert result.exit_code == 4
    assert "changed after the plan was shown" in result.stderr
    assert LIVE not in disturbed.visible()
    assert cdclake.at_terminal("repair", "shop.store", answer="y").exit_code == 0
    assert LIVE in disturbed.visible()


def test_an_overwritten_file_is_shown_and_not_repaired(cdclake, disturbed):
    boto3.client("s3").put_object(Bucket="cdclake-lake", Key=FOLDER + "000000000003-00001.parquet", Body=b"other")
    assert "overwritten" in cdclake("repair", "shop.store", "--dry-run").stdout
    before = disturbed.visible()
    result = cdclake("repair", "shop.store", "--yes")
    assert result.exit_code == 5
    assert "overwritten" in result.stderr
    assert disturbed.visible() == before


def test_a_running_job_is_a_warning_in_a_dry_run_and_an_error_otherwise(cdclake, disturbed, state):
    state.acquire_lease(PATH, "jr_at_work", datetime.now(timezone.utc), 300)
    assert "A run is working on shop.store" in cdclake("repair", "shop.store", "--dry-run").stdout
    assert cdclake("repair", "shop.store", "--yes").exit_code == 4


def test_a_table_without_changes_needs_no_repair(cdclake, store):
    assert "are correct" in cdclake("repair", "shop.product", "--yes").stdout
