"""`cdclake files` tells why a raw file is in the lake or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.adapters import aws as aws_clients
from cdclake.adapters.dynamodb import DynamoState, create_state_table
from cdclake.control.run.item_sync import lake_attributes
from cdclake.model.names import STATE_TABLE
from cdclake_cli.target import Target
from tests.cdclake.lake.over_time import TABLE, TableOverTime, versioned_bucket
from tests.cdclake.lake.table import NAME, RAW_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.aws
LAKE, RAW = Target().lake_bucket, Target().raw_bucket
LOAD = "LOAD00000001.csv"
APPLIED, DUE, LATE, GONE, IGNORED = (f"202403{day:02d}-100000000.csv" for day in (5, 6, 1, 4, 7))
COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.fixture
def table(cdclake: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TableOverTime]:
    """A table with a raw file of nearly each fate."""
    with versioned_bucket(monkeypatch, LAKE, RAW):
        item = {"PrimaryKey": "id", "Schema": "id bigint, name string", "MaxQuarantinedRows": "5"}
        item["IgnoreFiles"] = IGNORED
        table = TableOverTime(tmp_path, COLUMNS, item, bucket=LAKE)
        table.load_file(LOAD, b"1,one\n2,two\n5,five\n")
        for name, rows in ((GONE, b"I,3,three\n"), (APPLIED, b"U,1,changed\nD,2,two\nU,x,bad\n")):
            table.put(name, rows)
            assert table.load_incremental()["change"]
        for name in (DUE, LATE, IGNORED, "part-0.csv"):
            table.put(name, b"I,4,four\n")
        table.raw_path(GONE).unlink()
        for path in table.raw_path("").iterdir():
            aws_clients.client("s3").upload_file(str(path), RAW, RAW_PREFIX + path.name)
        dynamodb = aws_clients.client("dynamodb")
        create_state_table(dynamodb, STATE_TABLE)
        state = Target().installation.new_state(NAME).with_attributes(**item, ActiveFlag="true")
        known = lake_attributes(state, table.log, table.log.snapshot(table.log.head()))
        DynamoState(dynamodb, STATE_TABLE).register(state.with_attributes(**known))
        yield table


def test_each_file_has_a_fate_a_change_and_a_reason(table: TableOverTime, cdclake: Any) -> None:
    found = {one["file"]: one for one in cdclake.records("files", TABLE)}
    assert {name: (one["fate"], one["change"], one["rows"], one["quarantined"]) for name, one in found.items()} == {
        LOAD: ("loaded", 1, 3, 0),
        APPLIED: ("applied", 3, 3, 1),
        DUE: ("due", None, None, None),
        LATE: ("late", None, None, None),
        IGNORED: ("ignored", None, None, None),
        "part-0.csv": ("unread", None, None, None),
    }
    assert found[LATE]["reason"] == f"came after {APPLIED}, and is more than 72 hours older"
    (gone,) = cdclake.records("files", TABLE, "--file", GONE)
    assert (gone["fate"], gone["change"], gone["rows"]) == ("gone", 2, 1)
    text = cdclake("files", TABLE, "--fate", "late", "--fate", "gone").stdout
    assert LATE in text
    assert GONE in text
    assert APPLIED not in text.replace(found[LATE]["reason"], "")


def test_the_file_of_a_row_is_found(table: TableOverTime, cdclake: Any) -> None:
    (one,) = cdclake.records("files", TABLE, "--row", "1", "--row", "99")
    assert (one["file"], one["fate"], one["rows_found"]) == (APPLIED, "applied", ['{"id": 1} (row 1)'])
    (gone,) = cdclake.records("files", TABLE, "--row", "3")
    assert (gone["file"], gone["fate"], gone["change"]) == (GONE, "gone", 2)
    assert "The table has no such row." in cdclake("files", TABLE, "--row", "2").output
    assert "Rows that are as the full load had them: 1" in cdclake("files", TABLE, "--row", "5").output


def test_what_stops_a_table_is_why_its_files_wait(table: TableOverTime, cdclake: Any) -> None:
    assert cdclake("tables", "pause", TABLE).exit_code == 0
    (waiting,) = cdclake.records("files", TABLE, "--fate", "waiting")
    assert (waiting["file"], waiting["reason"]) == (DUE, "ActiveFlag is not 'true'")


def test_an_unknown_file_is_named_and_the_last_files_are_shown(table: TableOverTime, cdclake: Any) -> None:
    result = cdclake("files", TABLE, "--file", "20240305-999999999.csv")
    assert result.exit_code == 2
    assert f"{TABLE} has no raw file 20240305-999999999.csv" in result.output
    result = cdclake("files", TABLE, "--limit", "1")
    assert "Files not shown: 5; --limit shows more" in result.output
    assert "Files: 7, applied: 1, loaded: 1, due: 1, late: 1, ignored: 1, unread: 1, gone: 1" in result.output
    assert cdclake.records("files", TABLE, "--since", "2999-01-01") == []
