"""`cdclake erase` shows the rows and what it does not reach, asks, and erases."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from cdclake.adapters import aws as aws_clients
from cdclake.adapters.dynamodb import DynamoState, create_state_table
from cdclake.model.names import STATE_TABLE
from cdclake.model.table.attributes import Attribute
from cdclake_cli.target import Target
from tests.cdclake.lake.operations.erase.erasable_table import (
    COLUMNS,
    SECRET_ID,
    SECRET_NAME,
    ErasableTable,
    disable_compression,
    objects_containing,
    row,
    secret,
)
from tests.cdclake.lake.over_time import TABLE, versioned_bucket
from tests.cdclake.lake.table import NAME, RAW_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.aws
LAKE, RAW = Target().lake_bucket, Target().raw_bucket
WHICH = ("--key", str(SECRET_ID), "--reason", "request 2024-17")


@pytest.fixture
def table(cdclake: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ErasableTable]:
    """A registered table of a full load and two changes, with its raw files in the raw bucket."""
    disable_compression(monkeypatch)
    with versioned_bucket(monkeypatch, LAKE, RAW):
        table = ErasableTable(tmp_path, COLUMNS, bucket=LAKE)
        table.write_load([row(1), secret()])
        deliver(table)
        table.load_initial()
        table.apply(("U", secret("Bonn")), ("U", row(1, "Rom")))
        table.apply(("I", row(2)))
        deliver(table)
        dynamodb = aws_clients.client("dynamodb")
        create_state_table(dynamodb, STATE_TABLE)
        state = Target().installation.new_state(NAME).with_attributes(**table.item, FencingToken=str(table.runs))
        DynamoState(dynamodb, STATE_TABLE).register(state)
        yield table


def deliver(table: ErasableTable) -> None:
    """Copy new raw files to the raw bucket, and give the local files the same modification time."""
    s3, there = aws_clients.client("s3"), in_raw()
    for path in (table.raw / RAW_PREFIX).iterdir():
        key = RAW_PREFIX + path.name
        if key not in there:
            s3.upload_file(str(path), RAW, key)
            moment = s3.head_object(Bucket=RAW, Key=key)["LastModified"].timestamp()
            os.utime(path, (moment, moment))


def in_raw() -> dict[str, bytes]:
    s3 = aws_clients.client("s3")
    found = s3.list_objects_v2(Bucket=RAW).get("Contents", [])
    return {entry["Key"]: s3.get_object(Bucket=RAW, Key=entry["Key"])["Body"].read() for entry in found}


@pytest.mark.long
def test_a_session_shows_first_then_erases(table: ErasableTable, cdclake: Any) -> None:
    result = cdclake.ok("erase", TABLE, *WHICH, "--dry-run")
    assert "Rows of shop.orders to erase (keys: 1)" in result.stdout
    assert "the raw bucket" not in result.stdout
    assert "Dry run: nothing was changed" in result.output
    assert "- The raw bucket, with earlier versions of its files: a reload" in result.output
    found = cdclake.record("erase", TABLE, *WHICH, "--dry-run")
    assert (found["done"], found["rows"], found["versions"], found["change_rows"]) == (False, 1, 2, 0)
    assert table.log.head() == 3

    assert "contains a key" in cdclake.refused("erase", TABLE, "--key", "5", "--reason", "5 wants it")
    assert "needs a confirmation" in cdclake.refused("erase", TABLE, *WHICH)
    declined = cdclake.at_terminal("erase", TABLE, *WHICH, answer="n")
    assert (declined.exit_code, "Nothing was changed." in declined.output) == (1, True)
    assert objects_containing(table, SECRET_NAME)

    done = cdclake.at_terminal("erase", TABLE, *WHICH, answer="y")
    assert done.exit_code == 0, done.output
    assert "Done, as change 4. Rows of shop.orders erased, with all earlier states: 1." in done.output
    assert f"s3://{LAKE}/{table.layout.erasure_key(4)}" in done.output
    assert objects_containing(table, SECRET_ID, SECRET_NAME) == {}
    assert [values["id"] for values in table.rows_as_of(4)] == [1, 2]
    state = DynamoState(aws_clients.client("dynamodb"), STATE_TABLE).get(f"{RAW}/{RAW_PREFIX}")
    assert state
    assert state.item[Attribute.LAST_CHANGE_ID] == "4"
    shown = cdclake("changes", "show", TABLE, "4")
    for text in ("erasure", "request 2024-17", "erased"):
        assert text in shown.stdout

    again = cdclake("erase", TABLE, *WHICH, "--yes")
    assert (again.exit_code, "There is nothing to erase." in again.output) == (0, True)

    assert SECRET_NAME.encode() in b"".join(in_raw().values())
    unknown = RAW_PREFIX + "LOAD1.csv"
    aws_clients.client("s3").put_object(Bucket=RAW, Key=unknown, Body=b"x")
    dry = cdclake.record("erase", TABLE, *WHICH, "--raw", "--dry-run")
    raw = cdclake.record("erase", TABLE, *WHICH, "--raw", "--yes")
    assert dry.keys() == raw.keys()
    assert (dry["done"], dry["not_searched"]) == (False, raw["not_searched"])
    assert [unknown] in raw["not_searched"].values()
    assert (raw["done"], raw["change"], raw["full_load_files"], raw["change_rows"]) == (True, 5, 1, 1)
    assert raw.keys() >= {"versions", "object_versions"}  # of the history, and of the bucket
    assert sorted(in_raw()) == [*(RAW_PREFIX + f"20240305-100{number}00000.parquet" for number in (1, 2)), unknown]
    assert SECRET_NAME.encode() not in b"".join(in_raw().values())


def test_an_erasure_needs_a_reason(cdclake: Any) -> None:
    assert "needs a reason" in cdclake.refused("erase", TABLE, "--key", "5", "--reason", " ")
