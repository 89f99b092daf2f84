"""Table mappings of DMS choose tables and rename them, as in examples of the DMS guide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cdclake.errors import ConfigurationError
from cdclake_cli.doctor.dms.recommended import table_mappings
from cdclake_cli.importing.mappings import read_rules, sent_tables
from cdclake_cli.sources.catalog import UniqueIndex
from tests.cdclake_cli.importing.tables import table

if TYPE_CHECKING:
    from cdclake_cli.sources.catalog import CatalogTable


def select(schema: str, name: str, action: str = "include") -> dict[str, Any]:
    return {"rule-type": "selection", "rule-action": action, "object-locator": locator(schema, name)}


def locator(schema: str = "%", name: str = "%", column: str = "") -> dict[str, str]:
    of_column = {"column-name": column} if column else {}
    return {"schema-name": schema, "table-name": name, **of_column}


def transform(target: str, action: str, where: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    named = {name.replace("_", "-"): value for name, value in more.items()}
    rule = {"rule-type": "transformation", "rule-target": target, "rule-action": action}
    return {**rule, "object-locator": where or locator(), **named}


def sent(*rules: dict[str, Any], tables: tuple[CatalogTable, ...] = (table(),)) -> list[CatalogTable]:
    return sent_tables(tables, read_rules({"rules": [select("%", "%"), *rules]}))


def columns(one: CatalogTable) -> list[str]:
    return [column.name for column in one.columns]


def test_rules_include_and_exclude_tables() -> None:
    tables = [table(name) for name in ("shop.orders", "shop.order_items", "shop.log_1", "hr.people")]
    rules = read_rules({"rules": [select("shop", "%"), select("shop", "log[_]%", "exclude")]})
    assert [str(one.name) for one in sent_tables(tables, rules)] == ["shop.order_items", "shop.orders"]
    assert len(sent_tables(tables, ())) == 4


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ([transform("schema", "rename", value="lake"), transform("table", "convert-uppercase")], "lake.ORDERS"),
        (
            [transform("table", "add-prefix", value="t_"), transform("table", "add-suffix", value="_v")],
            "shop.t_orders_v",
        ),
        ([transform("table", "remove-prefix", value="ord"), transform("table", "remove-suffix", value="s")], "shop.er"),
        ([transform("table", "replace-prefix", old_value="ord", value="b")], "shop.bers"),
        ([transform("table", "replace-suffix", old_value="ers", value="er")], "shop.order"),
        ([transform("table", "rename", locator("hr"), value="x")], "shop.orders"),
    ],
)
def test_schemas_and_tables_are_renamed(rules: list[dict[str, Any]], name: str) -> None:
    assert [str(one.name) for one in sent(*rules)] == [name]


def test_columns_are_renamed_with_the_keys_that_have_them() -> None:
    (one,) = sent(
        transform("column", "add-prefix", value="c_"),
        transform("column", "rename", locator(column="id"), value="NR"),
        tables=(table(unique=(UniqueIndex("by_name", ("name",)),)),),
    )
    assert columns(one) == ["NR", "c_name", "c_price", "c_day"]
    assert (one.key, one.unique[0].columns) == (("NR",), ("c_name",))


def test_columns_are_left_out_with_the_keys_that_have_them() -> None:
    unique = (UniqueIndex("by_name", ("name",)), UniqueIndex("by_day", ("day",)))
    (one,) = sent(
        *(transform("column", "include-column", locator(column=name)) for name in ("name", "day", "price")),
        transform("column", "remove-column", locator(column="na%")),
        tables=(table(unique=unique),),
    )
    assert (columns(one), one.key, one.unique) == (["price", "day"], (), unique[1:])


def test_other_rules_define_keys_and_types_and_add_columns() -> None:
    (one,) = sent(
        transform("table", "define-primary-key", primary_key_def={"name": "k", "columns": ["name", "day"]}),
        transform("column", "change-data-type", locator(column="price"), data_type={"type": "string"}),
        transform("column", "add-column", value="batch", expression="$x"),
        transform("column", "scramble"),
    )
    assert one.key == ("name", "day")
    assert [column.type for column in one.columns] == ["bigint", "string", None, "date"]
    assert one.added == ("batch",)
    assert "scramble" in one.notes[0]


def test_the_recommended_mappings_add_what_headerless_files_end_with() -> None:
    one, two = sent_tables([table(), table("shop.two", key=("name", "id"))], read_rules(table_mappings("shop")))
    assert one.added == ("AR_H_CHANGE_SEQ", "BI_id")
    assert two.added == ("AR_H_CHANGE_SEQ", "BI_id", "BI_name")


@pytest.mark.parametrize("mappings", [None, {}, {"rules": {}}, {"rules": [{}]}, {"rules": ["x"]}])
def test_what_is_no_table_mappings_is_refused(mappings: object) -> None:
    with pytest.raises(ConfigurationError, match="not table mappings"):
        read_rules(mappings)


def test_a_rule_that_lacks_its_value_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="has no value"):
        sent(transform("table", "rename"))
