"""An attribute is declared once, and everything else about it follows from the declaration."""

from __future__ import annotations

import ast
from dataclasses import fields
from typing import TYPE_CHECKING

import pytest

from cdclake.adapters.state_rules import OUTCOME_PREFIX
from cdclake.model.table.attributes import ATTRIBUTES, Attribute, SetBy, attributes_that
from cdclake.model.table.settings import COLUMN_ATTRIBUTES, CsvDialect, TableSettings
from cdclake.model.table.values import ATTRIBUTE
from tests import CODE, ROOT

if TYPE_CHECKING:
    from pathlib import Path

MODULES = sorted(path for name in CODE for path in (ROOT / name).glob("*/**/*.py"))
BY_OPERATOR = attributes_that(lambda declared: declared.set_by is SetBy.OPERATOR)
LISTS = (ast.Tuple, ast.List, ast.Set)


def lists_of_attributes(path: Path) -> list[str]:
    """Where a constant of a module lists attributes."""
    text = path.read_text(encoding="utf-8")
    statements = ast.parse(text).body if "Attribute" in text else []
    constants = [one for one in statements if isinstance(one, (ast.Assign, ast.AnnAssign))]
    return [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for constant in constants
        for node in ast.walk(constant)
        if isinstance(node, LISTS) and sum(ast.unparse(one).startswith("Attribute.") for one in node.elts) > 1
    ]


def test_no_module_has_a_list_of_attributes() -> None:
    assert [place for path in MODULES for place in lists_of_attributes(path)] == []


def test_every_attribute_is_declared_under_its_own_name() -> None:
    constants = {value: name for name, value in vars(Attribute).items() if name.isupper()}
    assert list(constants) == list(ATTRIBUTES)
    assert [name for name, declared in ATTRIBUTES.items() if declared.name != name] == []
    assert [name for name, constant in constants.items() if name.lower() != constant.replace("_", "").lower()] == []


def test_every_attribute_of_the_operator_is_read_into_one_field() -> None:
    held = [
        one.metadata[ATTRIBUTE] for kind in (TableSettings, CsvDialect) for one in fields(kind) if one.name != "csv"
    ]
    assert sorted(held) == sorted({*BY_OPERATOR, Attribute.ACCEPTED_DRIFT} - {Attribute.ACTIVE_FLAG})


@pytest.mark.parametrize("name", [name for name in BY_OPERATOR if ATTRIBUTES[name].default])
def test_the_default_in_the_documents_is_what_an_unset_attribute_means(name: str) -> None:
    assert TableSettings.from_item({name: ATTRIBUTES[name].default}) == TableSettings.from_item({}) == TableSettings()


def test_every_attribute_that_names_columns_is_compared_with_the_raw_files() -> None:
    item = {
        **dict.fromkeys(COLUMN_ATTRIBUTES, "note"),
        "PrimaryKey": "id",
        "Schema": "id int",
        "ColumnPolicy": "hash ssn",
    }
    assert TableSettings.from_item(item).named_columns.keys() == COLUMN_ATTRIBUTES


def test_the_outcome_of_a_run_is_in_attributes_of_the_jobs() -> None:
    outcome = attributes_that(lambda declared: declared.name.startswith(OUTCOME_PREFIX))
    assert {ATTRIBUTES[name].set_by for name in outcome} == {SetBy.JOBS}
