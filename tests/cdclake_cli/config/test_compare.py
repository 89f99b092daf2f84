"""A file of tables is compared with the tables, and each difference has its meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.control.admin.installation import Installation
from cdclake.errors import ConfigurationError
from cdclake.model.schema import Column, Schema
from cdclake.model.snapshot import Snapshot
from cdclake.model.table.name import TableName
from cdclake_cli.config.compare import Comparison, Effect, TableChange, compare, differences
from cdclake_cli.config.export import exported
from cdclake_cli.config.model import Config
from cdclake_cli.config.read import read_config
from cdclake_cli.config.write import config_text

if TYPE_CHECKING:
    from cdclake.model.table.state import TableState

HERE = Installation()
ORDERS, ITEMS, LOG = TableName("shop", "orders"), TableName("shop", "items"), TableName("crm", "log")
LAKE = Snapshot(
    change=3,
    schema=Schema((Column("id", "int"), Column("price", "double"))),
    primary_key=("id",),
    partition_key=(),
    order_column="",
)


def table(name: TableName = ORDERS, **item: str) -> TableState:
    return HERE.new_state(name).with_attributes(**item)


def compared(settings: dict[str, str], *states: TableState, **more: Any) -> Comparison:
    return compare(Config({}, {"shop.*": settings}), states or [table()], **more)


def effects(before: TableState, lake: Snapshot | None = LAKE, **settings: str) -> dict[str, Effect]:
    change = TableChange(before, settings).checked(lake)
    return {one.setting: one.effect for one in change.differences}


def test_only_what_the_file_sets_and_means_something_else_is_changed():
    state = table(LateWindowHours="48", PrimaryKey="id,region", CleanUp="manual")
    wanted = {"LateWindowHours": "72", "PrimaryKey": "id, region", "RetentionDays": "30", "Readers": "both"}
    (change,) = compared(wanted, state).changes
    assert change.settings == {"LateWindowHours": "72", "Readers": "both"}
    assert change.after.item["CleanUp"] == "manual"


def test_tables_that_the_file_does_not_match_are_left_alone_and_counted():
    assert compare(Config({}, {"*": {}}), [table(ORDERS), table(LOG)]).equal == 2
    config = Config({"Readers": "both"}, {"shop.orders": {}, "shop.itemz": {}, "old.*": {}, "crm.x": {}})
    found = compare(config, [table(ORDERS, Readers="both"), table(ITEMS), table(LOG)])
    assert found.changes == ()
    assert (found.equal, found.unmatched, found.unused) == (1, (LOG, ITEMS), ("old.*",))
    assert found.unregistered == (TableName("shop", "itemz"), TableName("crm", "x"))


def test_a_table_that_is_not_registered_becomes_a_new_one_if_asked():
    config = Config({"Readers": "both"}, {"shop.orders": {"PrimaryKey": "id"}, "shop.new*": {}, "shop.items": {}})
    found = compare(config, [table(ORDERS, Readers="both", PrimaryKey="id")], HERE.new_state)
    (change,) = found.changes
    assert (change.name, change.is_new, change.settings) == (ITEMS, True, {"Readers": "both"})
    assert (found.equal, found.unregistered, found.unused) == (1, (), ("shop.new*",))


def test_a_name_whose_brackets_are_escaped_is_registered_and_a_pattern_is_not():
    config = Config({}, {"shop.a[[]1]": {"PrimaryKey": "id"}, "shop.b[1]": {}})
    found = compare(config, [], HERE.new_state)
    (change,) = found.changes
    assert (change.name, change.settings) == (TableName("shop", "a[1]"), {"PrimaryKey": "id"})
    assert found.unused == ("shop.b[1]",)
    assert compare(config, [], None).unregistered == (TableName("shop", "a[1]"),)


def test_a_table_that_a_rollback_turned_off_is_not_turned_on():
    state = table(LastOffByRollback="true")
    found = compared({"ActiveFlag": "true", "History": "true"}, state)
    assert [change.settings for change in found.changes] == [{"History": "true"}]
    assert found.rolled_back == (ORDERS,)
    assert compared({"ActiveFlag": "false"}, state).rolled_back == ()


@pytest.mark.parametrize(
    ("item", "settings", "effect"),
    [
        ({}, {"LateWindowHours": "48"}, Effect.NEXT_RUN),
        ({}, {"ActiveFlag": "True"}, Effect.SWITCHES_ON),
        ({"ActiveFlag": "true"}, {"ActiveFlag": "false"}, Effect.SWITCHES_OFF),
        ({}, {"PrimaryKey": "ID"}, Effect.NEXT_RUN),
        ({}, {"PrimaryKey": "id,price"}, Effect.RELOAD),
        ({}, {"PartitionKey": "price"}, Effect.RELOAD),
        ({}, {"OrderColumn": "price"}, Effect.RELOAD),
        ({}, {"Schema": "id bigint, price double"}, Effect.NEXT_RUN),
        ({}, {"Schema": "id timestamp, price double"}, Effect.RELOAD),
        ({}, {"History": "true"}, Effect.REWRITE),
        ({"History": "true"}, {"History": "false"}, Effect.NEXT_RUN),
        ({}, {"DeleteMode": "soft"}, Effect.NEXT_RUN),
        ({"DeleteMode": "soft"}, {"DeleteMode": "hard"}, Effect.REWRITE),
        ({}, {"Readers": "iceberg"}, Effect.REWRITE),
        ({"Readers": "wrong"}, {"Readers": "folder"}, Effect.REWRITE),
    ],
)
def test_each_difference_of_a_loaded_table_has_its_meaning(
    item: dict[str, Any], settings: dict[str, Any], effect: Effect
):
    before = table(**{"PrimaryKey": "id", "LastChangeId": "3", **item})
    assert effects(before, **settings) == dict.fromkeys(settings, effect)


def test_what_is_set_by_hand_has_the_same_meaning():
    loaded = table(LastChangeId="3")
    set_by_hand = {"History": "true", "CatalogTable": "orders", "LastChangeId": "3"}
    found = [one.effect for one in differences(loaded, set_by_hand)]
    assert found == [Effect.REWRITE, Effect.NEXT_RUN, Effect.NOTHING]
    reloaded = differences(loaded, {**set_by_hand, "LastFullLoadDate": "1900-01-01 00:00:00", "ActiveFlag": "true"})
    assert [one.effect for one in reloaded] == [
        *[Effect.RELOAD] * 2,
        Effect.NOTHING,
        Effect.NOTHING,
        Effect.SWITCHES_ON,
    ]


def test_programs_see_what_is_stored_and_people_the_default():
    unset, same = differences(table(PrimaryKey="id"), {"LateWindowHours": "9", "PrimaryKey": "id"})
    assert unset.record == {
        "setting": "LateWindowHours",
        "before": None,
        "after": "9",
        "effect": "from the first load on",
    }
    assert unset.line == {**unset.record, "before": "72 (default)"}
    assert same.record == same.line == {**same.record, "before": "id", "after": "id", "effect": "none: it was so"}


def test_all_is_new_to_a_table_without_a_lake():
    settings = {"PrimaryKey": "x", "History": "true", "ActiveFlag": "true"}
    expected = {"PrimaryKey": Effect.FIRST_LOAD, "History": Effect.FIRST_LOAD, "ActiveFlag": Effect.SWITCHES_ON}
    assert effects(table(), None, **settings) == expected
    assert effects(table(), Snapshot(), **settings) == expected


def test_a_reload_is_started_with_what_needs_it_and_not_otherwise():
    loaded = table(PrimaryKey="id", LastFullLoadDate="2024-03-05 00:00:00")
    needed = TableChange(loaded, {"PrimaryKey": "price", "History": "false"}).checked(LAKE)
    assert (needed.reloads, needed.settings["LastFullLoadDate"]) == (True, "1900-01-01 00:00:00")
    other = TableChange(loaded, {"Readers": "both", "LateWindowHours": "9"}).checked(LAKE)
    assert (other.reloads, other.settings) == (False, {"Readers": "both", "LateWindowHours": "9"})


@pytest.mark.parametrize(
    "settings",
    [
        {"Readers": "wrong"},
        {"PartitionKey": "_hidden"},
        {"PrimaryKey": "f(id)"},
        {"History": "true", "CsvNoSupValue": "?"},
    ],
)
def test_settings_that_the_jobs_would_refuse_are_refused(settings: dict[str, Any]):
    with pytest.raises(ConfigurationError):
        TableChange(table(), settings).checked(LAKE)


ITEM_VALUES = {
    "PrimaryKey": ["null", "id", "id, region", "ID"],
    "ActiveFlag": ["true", "false", "True"],
    "LateWindowHours": ["72", "48", "24"],
    "CsvNullValue": ["NULL", "null", "", "$x"],
    "CsvNoSupValue": ["?", "null"],
    "MissingColumns": ["keep", "null"],
    "CsvDelimiter": [";", "\\t", "wrong"],
    "History": ["true", "false", "maybe"],
    "UnknownKeys": ["warn", "null"],
    "CdcPath": ["cdc", "/cdc/", "a: b #c"],
}
ITEMS_OF_TABLES = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from(all_) for name, all_ in ITEM_VALUES.items()}
)
TABLES = st.dictionaries(
    st.builds(TableName, st.sampled_from(["a", "b.c", "d[1]", "d1"]), st.sampled_from(["x", "y", "x[1]", "x1", "*"])),
    ITEMS_OF_TABLES,
    max_size=12,
)


@given(tables=TABLES)
def test_an_exported_file_finds_no_differences(
    tables: dict[TableName, dict[str, str]], tmp_path_factory: pytest.TempPathFactory
):
    states = [table(name, **item) for name, item in tables.items()]
    config, invalid = exported(states)
    file = tmp_path_factory.getbasetemp() / "exported.yml"
    file.write_text(config_text(config), encoding="utf-8")
    found = compare(read_config(file, {}), states)
    assert (found.changes, found.equal, found.unmatched, found.unregistered) == ((), len(states), (), ())
    wrong = sum((item.get("CsvDelimiter"), "x")[0] == "wrong" for item in tables.values())
    wrong += sum(item.get("History") == "maybe" for item in tables.values())
    assert len(invalid) >= wrong


@given(tables=TABLES)
def test_a_file_recreates_what_was_exported(tables: dict[TableName, dict[str, str]]):
    states = [table(name, **item) for name, item in tables.items()]
    config, invalid = exported(states)
    if not invalid:
        empty = [table(name) for name in tables]
        restored = [change.after for change in compare(config, empty).changes]
        changed = {state.name for state in restored}
        untouched = [state for state in empty if state.name not in changed]
        assert exported([*restored, *untouched])[0] == config


def test_an_exported_file_is_short():
    shop = {TableName("shop", f"t{i}"): {"PrimaryKey": "id", "CsvDelimiter": ";", "Readers": "both"} for i in range(5)}
    crm = {TableName("crm", f"t{i}"): {"PrimaryKey": f"id{i}", "Readers": "both"} for i in range(2)}
    log = {TableName("crm", "log"): {"ActiveFlag": "true"}}
    config, _ = exported([table(name, **item) for name, item in {**shop, **crm, **log}.items()])
    assert config.defaults == {"CsvDelimiter": ";", "Readers": "both"}
    assert config.tables == {
        "crm.*": {"CsvDelimiter": ","},
        "crm.log": {"ActiveFlag": "true", "Readers": "folder"},
        "crm.t0": {"PrimaryKey": "id0"},
        "crm.t1": {"PrimaryKey": "id1"},
        **{f"shop.t{i}": {"PrimaryKey": "id"} for i in range(5)},
    }
