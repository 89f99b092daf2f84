"""A Schema that contradicts the lake table is refused, with commands that end the contradiction."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

import pytest

from cdclake.errors import ConfigurationError
from cdclake.model.schema import Column, Schema
from cdclake.model.snapshot import History, Snapshot, check_declared_types
from cdclake.model.table.name import TableName
from cdclake.model.table.state import TableState

NAME = TableName("shop", "orders")
COLUMNS = (Column("Id", "int"), Column("price", "decimal(10,2)"), Column("note", "string"))
LAKE = Snapshot(change=3, schema=Schema(COLUMNS))
WITH_HISTORY = replace(LAKE, history=History(schema=LAKE.schema, primary_key=("Id",), since=1))


def check(lake: Snapshot, *, reloads: bool = False, **attributes: str) -> None:
    state = TableState.new("raw", "shop/", "orders/").with_attributes(**attributes)
    check_declared_types(lake, state.settings, NAME, reloads=reloads)


def refused(lake: Snapshot, *, reloads: bool = False, **attributes: str) -> str:
    with pytest.raises(ConfigurationError) as error:
        check(lake, reloads=reloads, **attributes)
    return str(error.value)


def settings_in(error: str, number: int) -> dict[str, str]:
    """The settings of one of the commands in an error."""
    command = re.findall(r"\(cdclake tables set shop\.orders ((?:'[^']*'|[^')])*)\)", error)[number]
    return dict(word.split("=", 1) for word in shlex.split(command)[1::2])


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("id string", "Schema declares id as string, and in the lake table it is int"),
        ("id int, NOTE bigint", "Schema declares NOTE as bigint, and in the lake table it is string"),
        ("price double, id int", "Schema declares price as double, and in the lake table it is decimal(10,2)"),
    ],
)
def test_a_type_without_a_common_type_is_refused(schema: str, words: str) -> None:
    assert words in refused(LAKE, Schema=schema)


@pytest.mark.parametrize("schema", ["id bigint, price decimal(12,4)", "id smallint", "new date", "null"])
def test_a_type_that_the_lake_can_have_or_become_is_accepted(schema: str) -> None:
    check(LAKE, Schema=schema)


def test_a_history_that_begins_anew_fixes_no_type() -> None:
    item = {"History": "true", "Schema": "id int, note bigint"}
    assert "in its history it is string" in refused(WITH_HISTORY, reloads=True, **item)
    check(WITH_HISTORY, reloads=True, **item, ColumnPolicy="redact price")
    check(WITH_HISTORY, History="true", Schema="id int, note bigint", ColumnPolicy="hash note")
    loaded = Schema((*COLUMNS[:2], Column("note", "bigint")))
    off = replace(WITH_HISTORY, schema=loaded, history=History(LAKE.schema, ("Id",)))
    check(off, reloads=True, **item)
    error = refused(off, History="true", Schema="id int, note bigint")
    assert "in its history it is string" in error
    anew, without = (settings_in(error, number) for number in (0, 1))
    assert anew == {"LastFullLoadDate": "1900-01-01 00:00:00"}
    assert without == {"History": "false"}
    check(off, History="false", Schema="id int, note bigint")


def test_a_table_without_a_lake_or_that_is_loaded_again_may_have_any_type() -> None:
    check(Snapshot(), Schema="id string")
    check(LAKE, Schema="id string", reloads=True)


def test_both_commands_of_the_error_end_it() -> None:
    error = refused(LAKE, Schema="`id` date, price decimal(10,2), note bigint")
    back, reload = (settings_in(error, number) for number in (0, 1))
    assert back == {"Schema": "id int, price decimal(10,2), note string"}
    check(LAKE, Schema=back["Schema"])
    assert reload["LastFullLoadDate"] == "1900-01-01 00:00:00"
    check(LAKE, Schema=reload["Schema"], reloads=True)


def test_a_history_keeps_its_types_also_when_the_table_is_loaded_again() -> None:
    error = refused(WITH_HISTORY, Schema="id date", History="true", reloads=True)
    assert "Schema declares id as date, and in its history it is int" in error
    reload = settings_in(error, 1)
    assert reload["History"] == "false"
    del reload["LastFullLoadDate"]
    check(WITH_HISTORY, **reload, reloads=True)
    check(WITH_HISTORY, Schema="id date", History="false", reloads=True)
