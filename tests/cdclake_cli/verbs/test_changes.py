"""`cdclake changes` lists the change log and shows single changes, from the lake alone."""

import json
import re
from dataclasses import asdict
from datetime import datetime, timedelta, timezone

import boto3
import pytest

from cdclake.model.change.place import Place
from cdclake.model.change.record import ChangeKind, ChangeRecord
from cdclake.model.drift import ColumnDrift
from cdclake.model.names import FUNCTION_SMALL_CHANGES, JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL
from cdclake.model.retained import Retained
from cdclake.model.table.name import TableName
from cdclake.model.times import iso_utc
from cdclake_cli.target import Target


def line_of(result, first):
    """The cells of the line that begins with this."""
    (line,) = [line for line in result.stdout.splitlines() if line.split()[:1] == [first]]
    return line.split()


def test_the_list_has_the_figures_of_every_change_newest_last(cdclake, store):
    result = cdclake.ok("changes", "shop.store")
    figures = ["1", "20", "20", "0", "0", "70", "1", "1", "0", "48", "1.8", "current"]
    assert line_of(result, "3") == ["3", "2024-03-05", "12:00:00", "UTC", "incremental", *figures]
    lines = cdclake.records("changes", "shop.store")
    assert [(line["change"], line["kind"], line["rows"]) for line in lines] == [
        (1, "full load", 100),
        (2, "incremental", 150),
        (3, "incremental", 70),
    ]
    assert [line["shown"] for line in lines] == [False, False, True]
    assert all(line["retained"] for line in lines)
    assert not any(line["undone"] for line in lines)


def test_the_word_list_is_optional_and_options_may_come_first(cdclake, store):
    result = cdclake("changes", "shop.store")
    assert cdclake("changes", "list", "shop.store").stdout == result.stdout
    assert cdclake("changes", "--last", "9", "shop.store").stdout == result.stdout


def test_after_a_rollback_the_list_marks_the_current_and_the_undone_changes(cdclake, store):
    assert cdclake("rollback", "shop.store", "--yes", "--reason", "wrong prices").exit_code == 0
    result = cdclake("changes", "shop.store")
    assert line_of(result, "2")[-1] == "current"
    assert line_of(result, "3")[-1] == "undone"
    assert "rollback to change 2" in result.stdout
    shown = cdclake("changes", "show", "shop.store", "4").stdout
    for part in ("rollback to change 2", "wrong prices", "files restored (1)", "files retired (1)", "by-hand-"):
        assert part in shown
    store.token = store.log.fencing_token(4)
    store.change(rows=5)
    lines = cdclake.records("changes", "shop.store")
    assert [line["undone"] for line in lines] == [False, False, True, False, False]
    assert [line["shown"] for line in lines] == [False, False, False, False, True]


def test_after_a_rollback_of_everything_the_table_is_as_before_any_change(cdclake, store):
    assert cdclake("rollback", "shop.store", "--to", "0", "--yes").exit_code == 0
    result = cdclake("changes", "shop.store")
    assert "rollback to the table before any change" in result.stdout
    assert "The table is as it was before any change." in result.stdout
    assert [line["undone"] for line in cdclake.records("changes", "shop.store")] == [True] * 3 + [False]


def test_a_long_list_is_cut_with_a_remark(cdclake, store):
    result = cdclake("changes", "shop.store", "--last", "1")
    assert line_of(result, "3")
    assert "The newest 1 of 3 changes" in result.stdout
    assert cdclake("rollback", "shop.store", "--to", "1", "--yes").exit_code == 0
    result = cdclake("changes", "shop.store", "--last", "2")
    assert line_of(result, "3")[-1] == "undone"
    assert "The table is as it was after change 1." in result.stdout


def test_thinned_changes_are_marked_and_the_kept_ones_named(cdclake, store):
    store.log.mark_retained(Retained(2, (1,)))
    listed = cdclake.records("changes", "shop.store")
    assert [(one["change"], one["retained"], "not retained" in one["note"]) for one in listed] == [
        (number, number != 2, number == 2) for number in range(1, store.log.head() + 1)
    ]
    assert "You can roll back to change 1, or to change 3 or a later one." in cdclake("changes", "shop.store").stdout
    assert [cdclake.record("changes", "show", "shop.store", str(one))["retained"] for one in (1, 2)] == [True, False]
    lake = cdclake.record("tables", "show", "shop.store")["lake"]
    assert (lake["first_retained"], lake["all_retained_from"], lake["retained_before"]) == (1, 3, [1])


def test_changes_that_are_no_longer_retained_are_marked(cdclake, store):
    store.log.mark_retained(Retained(1))
    result = cdclake("changes", "shop.store")
    assert line_of(result, "1")[-2:] == ["not", "retained"]
    assert "You can roll back to change 2 or a later one." in result.stdout
    assert [line["retained"] for line in cdclake.records("changes", "shop.store")] == [False, True, True]


def test_the_log_needs_only_the_lake(cdclake, store, state):
    boto3.client("dynamodb").delete_table(TableName="DMSCDC_Controller")
    assert len(cdclake.records("changes", "shop.store")) == 3
    assert cdclake("changes", "show", "shop.store", "3").exit_code == 0


def test_a_table_without_changes_is_an_empty_list_with_the_location(cdclake, state):
    result = cdclake("changes", "shop.product")
    assert (result.exit_code, result.stdout) == (0, "shop.product has no changes in s3://cdclake-lake/\n")
    assert cdclake("changes", "shop.product", "-o", "json").stdout == ""


def test_show_prints_a_change_in_full(cdclake, store):
    result = cdclake.ok("changes", "show", "shop.store", "2")
    for part in (
        "Change 2 of shop.store",
        "2024-03-05 11:00:00",
        "run-2",
        "Raw files read (1)",
        "20240302-000000000.parquet",
        "s3://cdclake-lake/_cdclake/shop/store/quarantine/000000000002-run-2/rows.jsonl",
        "000000000002-00001.parquet",
        "rewrite",
        "s3://cdclake-lake/_cdclake/shop/store/changes/000000000002.json",
    ):
        assert part in result.stdout
    assert line_of(result, "inserted") == ["inserted", "50"]


def test_show_as_json_is_the_change_record_with_its_content_change(cdclake, store):
    (shown,) = cdclake.records("changes", "show", "shop.store", "2")
    assert (shown.pop("table"), shown.pop("shows"), shown.pop("retained")) == ("shop.store", 2, True)
    assert {shown.pop(name) for name in ("visible_utc", "delay_seconds", "newest_delay_seconds")} == {None}
    record = store.log.record(2)
    assert shown["seconds"].keys() >= {*record.seconds, "publish"}
    assert ChangeRecord.from_bytes(json.dumps({**shown, "seconds": record.seconds}).encode(), "key") == record


def test_a_direct_change_shows_its_author_and_reason(cdclake, store):
    record = store.change(rows=5, kind=ChangeKind.DIRECT, reason="typing error", made_by="ann")
    (line,) = [line for line in cdclake("changes", "shop.store").stdout.splitlines() if "direct" in line]
    assert line.rstrip().endswith("current, by ann: typing error")
    listed_last = cdclake.records("changes", "shop.store")[-1]
    assert (listed_last["kind"], listed_last["made_by"], listed_last["reason"]) == ("direct", "ann", "typing error")
    shown = cdclake("changes", "show", "shop.store", str(record.change)).stdout
    assert ("direct" in shown, "ann" in shown, "typing error" in shown) == (True, True, True)
    assert "Raw files read" not in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "shop.store", "4"], "has no change 4: the newest is 3"),
        (["show", "shop.product", "1"], "the newest is none"),
        (["show", "shop.store", "0"], "greater than or equal to 1"),
        (["store"], "is not a table name"),
        (["shop.store", "--last", "0"], "greater than or equal to 1"),
        (["shop.store", "--lake-bucket", "no-such-lake"], "no-such-lake"),
    ],
)
def test_an_unknown_change_or_table_is_an_error_without_a_traceback(cdclake, store, arguments, message):
    assert message in cdclake.refused("changes", *arguments)


def test_the_lake_prefix_is_used(cdclake, store, state):
    elsewhere = Target(lake_prefix="other").installation.layout(TableName("shop", "store"))
    assert cdclake("changes", "shop.store", "--lake-prefix", "other").stdout.startswith("shop.store has no changes")
    assert elsewhere.table_prefix == "other/shop/store/"


def test_columns_that_changed_are_in_the_list_and_in_the_change(cdclake, store):
    store.change(rows=5, drift=(ColumnDrift("added", "note", "string", file="20240306-000000000.parquet"),))
    assert "columns: note string added" in cdclake("changes", "shop.store").stdout
    assert cdclake.records("changes", "shop.store")[-1]["drift"] == ["note string added"]
    shown = cdclake("changes", "show", "shop.store", "4").stdout
    assert "note string added, first in 20240306-000000000.parquet" in shown
    (drift,) = cdclake.record("changes", "show", "shop.store", "4")["drift"]
    assert (drift["kind"], drift["column"], drift["type"]) == ("added", "note", "string")


def test_the_delay_of_a_change_is_in_the_list_and_in_the_change(cdclake, store):
    now = datetime.now(timezone.utc)
    written = [iso_utc(now - timedelta(seconds=seconds)) for seconds in (7322, 95)]
    store.change(created_utc=now.isoformat(), oldest_written_utc=written[0], newest_written_utc=written[1])
    listed = cdclake.records("changes", "shop.store")
    assert [line["delay_seconds"] for line in listed] == [None, None, None, pytest.approx(7322, abs=30)]
    assert " 2 h 2 min " in cdclake("changes", "shop.store").stdout
    shown = cdclake("changes", "show", "shop.store", "4").stdout
    assert re.search(r"Delay +2 h 2 min, and 1 min \d+ s of the newest file", shown)
    change = cdclake.record("changes", "show", "shop.store", "4")
    assert change["delay_seconds"] - change["newest_delay_seconds"] == 7322 - 95
    visible = datetime.fromisoformat(change["visible_utc"].replace("Z", "+00:00"))
    assert (visible - now).total_seconds() == pytest.approx(0, abs=30)
    assert "Delay" not in cdclake("changes", "show", "shop.store", "3").stdout
    assert "Delay" not in cdclake("rollback", "shop.store", "--dry-run").stdout


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        (Place(FUNCTION_SMALL_CHANGES, 1769), ("cdclake-small-changes", "about 0.0")),
        (Place(JOB_LOAD_INCREMENTAL), ("DMSCDC_LoadIncremental", "at least 1.5 cents")),
        (Place(JOB_LOAD_INITIAL, spark_reason="it is a full load"), ("because it is a full load", "at least 1.5")),
    ],
)
def test_show_tells_where_a_change_was_computed_and_what_that_cost(cdclake, store, place, shown):
    assert "Computed by" not in cdclake("changes", "show", "shop.store", "3").stdout
    store.change(place=place, seconds={"merge": 20.0})
    output = cdclake.ok("changes", "show", "shop.store", "4").stdout
    assert all(text in output for text in (*shown, "Computed by", "Cost"))
    assert cdclake.record("changes", "show", "shop.store", "4")["place"] == asdict(place)
