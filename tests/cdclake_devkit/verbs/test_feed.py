"""`cdclake local feed`: the same seed gives the same bytes, in a folder or a bucket; impossible feeds are refused."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import boto3
import pyarrow.parquet as pq
import pytest

from cdclake.model.table.attributes import Attribute

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Command = Callable[..., Any]

SMALL = ("--rows", "30", "--changes", "40", "--files", "4")


@pytest.fixture
def feed(cdclake: Command) -> Command:
    return partial(cdclake, "local", "feed")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_same_seed_generates_the_same_bytes(feed: Command, tmp_path: Path) -> None:
    made = []
    for number, seed in enumerate(("1", "1", "2")):
        raw, expected = tmp_path / f"raw-{number}", tmp_path / f"expected-{number}"
        done = feed(str(raw), "--expected", str(expected), "--seed", seed, "--history", *SMALL)
        assert done.exit_code == 0, done.output
        made.append((contents(raw), contents(expected)))
    assert made[0] == made[1]
    assert made[0][0].keys() == made[2][0].keys()
    assert not made[0][0].items() & made[2][0].items()


def test_rounds_written_one_by_one_equal_the_feed_written_at_once(feed: Command, tmp_path: Path) -> None:
    options = ("--rounds", "2", "--late", "1", "--repeated", "1", *SMALL)
    for folder, rounds in (("whole", [()]), ("parts", [("--only-round", "1"), ("--only-round", "2")])):
        for one in rounds:
            place = (str(tmp_path / folder), "--expected", str(tmp_path / f"{folder}-expected"))
            assert feed(*place, *options, *one).exit_code == 0
    assert contents(tmp_path / "whole") == contents(tmp_path / "parts")
    whole, parts = (contents(tmp_path / f"{one}-expected") for one in ("whole", "parts"))
    assert whole["table/part-00000.parquet"] == parts["table/part-00000.parquet"]
    listed = json.loads(whole["feed.json"])["files"]
    assert json.loads(parts["feed.json"])["files"] == [one for one in listed if one["round"] == 2]
    special = sorted(one["kind"] for one in listed if one["kind"] != "change")
    assert special == ["again", "full load", "late", "repeated"]


def test_the_result_reports_the_files_and_the_attributes_to_set(feed: Command, tmp_path: Path) -> None:
    place = (str(tmp_path / "raw"), "--expected", str(tmp_path / "expected"))
    done = feed(*place, *SMALL, "--fault", "bad-rows", "--output", "json")
    answer = json.loads(done.stdout)
    sizes = [len(data) for data in contents(tmp_path / "raw").values()]
    assert (answer["files"], answer["bytes"]) == (len(sizes), sum(sizes)) == (5, sum(sizes))
    assert answer["rows"] == 30 + 40 + 5
    assert answer["expected_rows"] == pq.read_table(tmp_path / "expected" / "table").num_rows
    assert answer["faults"] == json.loads((tmp_path / "expected" / "feed.json").read_text())["faults"]
    assert answer["attributes"][Attribute.MAX_QUARANTINED_ROWS] == "5"
    assert "shop.orders" in feed(*place, *SMALL).stdout


def test_a_bucket_gets_the_files_below_its_prefix(feed: Command, aws: None, tmp_path: Path) -> None:
    client = boto3.client("s3")
    client.create_bucket(Bucket="raw", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    small = (*SMALL, "--fault", "bad-rows")
    assert feed("s3://raw/dms/", "--expected", str(tmp_path / "bucket"), *small).exit_code == 0
    assert feed(str(tmp_path / "raw"), "--expected", str(tmp_path / "folder"), *small).exit_code == 0
    keys = [entry["Key"] for entry in client.list_objects_v2(Bucket="raw")["Contents"]]
    found = {key: client.get_object(Bucket="raw", Key=key)["Body"].read() for key in keys}
    assert found == {f"dms/{path}": data for path, data in contents(tmp_path / "raw").items()}
    listed = json.loads((tmp_path / "bucket" / "feed.json").read_text())["files"]
    assert {one["key"] for one in listed} == set(keys)
    assert {one["key"] for one in json.loads((tmp_path / "bucket" / "feed.json").read_text())["faults"]} < set(keys)


def test_settings_come_from_a_file_and_from_options(feed: Command, tmp_path: Path) -> None:
    (tmp_path / "dms.json").write_text('{"DataFormat": "csv", "CsvDelimiter": ";", "AddColumnName": true}')
    (tmp_path / "columns.txt").write_text("key bigint, city string, at time\n")
    place = (str(tmp_path / "raw"), "--expected", str(tmp_path / "expected"))
    settings = ("--settings", str(tmp_path / "dms.json"), "--set", "CsvDelimiter=|")
    columns = ("--schema", str(tmp_path / "columns.txt"), "--primary-key", "key")
    done = feed(*place, *SMALL, *settings, *columns)
    assert done.exit_code == 0, done.output
    load = (tmp_path / "raw" / "shop" / "orders" / "LOAD00000001.csv").read_text()
    assert load.startswith("key|city|at\n1|")
    attributes = json.loads((tmp_path / "expected" / "table.json").read_text())
    assert (attributes["CsvDelimiter"], attributes["Schema"]) == ("|", "key bigint, city string, at string")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--insert", "0.5"), "0.5 + 0.5 + 0.2"),
        (("--insert", "1.3", "--update", "-0.3", "--delete", "0"), "shares"),
        (("--rows", "-1"), "rows is -1"),
        (("--files", "0"), "need at least one change file"),
        (("--rounds", "0"), "rounds is 0"),
        (("--only-round", "2"), "no round 2"),
        (("--late", "1"), "two rounds"),
        (("--late", "3", "--rounds", "2"), "do not fit"),
        (("--resumed", "9"), "do not fit"),
        (("--schema-changes", "4"), "than schema changes"),
        (("--primary-key", "price"), "price"),
        (("--primary-key", ""), "needs a primary key"),
        (("--columns", "id uuid"), "'uuid' is not a column type"),
        (("--columns", "id bigint", "--draw-columns", "3"), "more than once"),
        (("--table", "orders"), "not a table name"),
        (("--set", "CsvDelimiter"), "is not a setting"),
        (("--set", "Rfc4810=true"), "Rfc4810"),
        (("--set", "HeaderColumns=AR_H_MOON"), "AR_H_MOON"),
        (("--set", "DataFormat=csv", "--schema-changes", "1"), "header line"),
        (("--set", "DataFormat=csv", "--set", "Rfc4180=false", "--set", "CsvDelimiter=."), "CsvDelimiter"),
        (("--set", "DataFormat=csv", "--fault", "truncated"), "Truncation"),
        (("--fault", "vanished-load"), "gap"),
        (("--hot-share", "2"), "hot keys"),
        (("--transaction-rows", "0"), "transaction_rows is 0"),
    ],
)
def test_an_impossible_feed_is_refused(feed: Command, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    done = feed(str(tmp_path / "raw"), "--expected", str(tmp_path / "expected"), *SMALL, *arguments)
    assert done.exit_code == 2, done.output
    assert words in done.stderr
    assert not (tmp_path / "raw").exists()


def test_names_that_go_backwards_need_a_sequence(feed: Command, tmp_path: Path) -> None:
    zone = ("--set", "DatePartitionEnabled=true", "--set", "DatePartitionTimezone=Europe/Berlin")
    arguments = (*SMALL, *zone, "--start", "2024-10-27T00:57:00", "--expected", str(tmp_path / "expected"))
    done = feed(str(tmp_path / "raw"), *arguments)
    assert done.exit_code == 2
    assert "AR_H_CHANGE_SEQ" in done.stderr
    assert feed(str(tmp_path / "raw"), *arguments, "--set", "HeaderColumns=AR_H_CHANGE_SEQ").exit_code == 0


def test_two_files_with_the_same_name_are_refused(feed: Command, tmp_path: Path) -> None:
    zone = ("--set", "DatePartitionEnabled=true", "--set", "DatePartitionTimezone=Europe/Berlin")
    more = ("--set", "HeaderColumns=AR_H_CHANGE_SEQ", "--files", "80", "--changes", "80", "--rows", "5")
    place = (str(tmp_path / "raw"), "--expected", str(tmp_path / "expected"), "--start", "2024-10-27T00:00:00")
    done = feed(*place, *zone, *more)
    assert done.exit_code == 2
    assert "Two change files would have the name" in done.stderr
