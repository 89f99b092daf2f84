"""`cdclake quarantine` lists, shows and releases bad rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.adapters import aws as aws_clients
from cdclake.adapters.dynamodb import DynamoState, create_state_table
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
COLUMNS = pa.schema([("id", pa.int64()), ("price", pa.decimal128(10, 2))])


@pytest.fixture
def table(cdclake: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TableOverTime]:
    """A registered table whose prices are too wide for its declared schema."""
    with versioned_bucket(monkeypatch, LAKE, RAW):
        item = {"PrimaryKey": "id", "Schema": "id bigint, price decimal(4,2)", "MaxQuarantinedRows": "5"}
        table = TableOverTime(tmp_path, COLUMNS, item, bucket=LAKE)
        table.load_file(LOAD, b"1,1.50\n2,2222.50\n3,3333.50\nx,1.00\n")
        aws_clients.client("s3").upload_file(str(table.raw_path(LOAD)), RAW, RAW_PREFIX + LOAD)
        dynamodb = aws_clients.client("dynamodb")
        create_state_table(dynamodb, STATE_TABLE)
        state = Target().installation.new_state(NAME).with_attributes(**item, FencingToken=str(table.runs))
        DynamoState(dynamodb, STATE_TABLE).register(state)
        yield table


def test_a_session_lists_shows_fixes_and_releases(table: TableOverTime, cdclake: Any) -> None:
    (listed,) = cdclake.records("quarantine", "list")
    assert (listed["table"], listed["change"], listed["raw_file"], listed["rows"]) == (TABLE, 1, LOAD, 3)
    assert "A value of column price is not a valid decimal(4,2)" in cdclake("quarantine", "list", TABLE).stdout
    shown = cdclake.records("quarantine", "show", TABLE, "--limit", "2")
    assert [(one["row"], one["content"]["price"]) for one in shown] == [(1, "2222.50"), (2, "3333.50")]
    text = cdclake("quarantine", "show", TABLE, "--limit", "2")
    assert "id=2, price=2222.50" in text.stdout
    assert [line.split()[2] for line in text.stdout.splitlines() if LOAD in line] == ["2", "3"]  # JSON counts from 0
    assert f"Rows of {TABLE} not shown: 1; --limit shows more" in text.output
    assert "There are no quarantined rows." in cdclake("quarantine", "show", TABLE, "--change", "7").output

    wide = "id bigint, price decimal(10,2)"
    assert cdclake("tables", "set", TABLE, "--schema", wide).exit_code == 0
    dry = cdclake("quarantine", "release", TABLE, "--dry-run")
    assert (dry.exit_code, "Dry run: nothing was changed" in dry.output) == (0, True)
    assert table.log.head() == 1
    done = cdclake.at_terminal("quarantine", "release", TABLE, "--reason", "wider", answer="y")
    assert done.exit_code == 0, done.output
    assert f"Done, as change 2 of {TABLE}. Rows inserted: 2," in done.output
    assert "still bad: 1." in done.output
    assert table.log.snapshot(2).rows == 3
    assert table.log.record(2).reason == "wider"
    (left,) = cdclake.records("quarantine", "list", TABLE)
    assert (left["change"], left["rows"]) == (2, 1)
    unknown = cdclake("quarantine", "release", TABLE, "--file", "another.csv", "--yes")
    assert (unknown.exit_code, "another.csv has no quarantined rows" in unknown.output) == (2, True)
