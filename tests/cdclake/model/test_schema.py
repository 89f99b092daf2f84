"""Column types, declared columns, and the names of partitions."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.errors import ConfigurationError
from cdclake.model.partition_folder import partition_folder
from cdclake.model.schema import Column, Schema, parse_columns, parse_type


def test_a_schema_attribute_is_read_in_order_with_normalized_types() -> None:
    schema = parse_columns("id INT, fullname varchar(80), price DECIMAL(10, 2), `odd name` bigint")
    assert schema.to_json() == [
        ["id", "int"],
        ["fullname", "string"],
        ["price", "decimal(10,2)"],
        ["odd name", "bigint"],
    ]
    assert Schema.from_json(schema.to_json()) == schema


def test_a_quoted_name_may_contain_what_separates_columns() -> None:
    schema = Schema(tuple(Column(name, "int") for name in ("a, b", "c (d, e)", "f`g", " h", "(", "i,", "j")))
    assert parse_columns(schema.declaration) == schema
    assert parse_columns("`a, b` int, (c int").names == ["a, b", "(c"]


@given(st.lists(st.text(min_size=1), min_size=1, unique_by=str.lower))
def test_every_schema_has_a_declaration_that_is_read_as_it(names: list[str]) -> None:
    schema = Schema(tuple(Column(name, "decimal(4,2)") for name in names))
    assert parse_columns(schema.declaration) == schema


@pytest.mark.parametrize(
    "text",
    ["`id int", "`a`b int", "id", "id int,", "id blob8", "id int, ID int", "price decimal(50,2)", "p decimal(2,5)"],
)
def test_an_invalid_schema_attribute_is_a_clear_error(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_columns(text)


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_a_partition_folder_is_one_folder_and_its_value_can_be_read_back(value: str) -> None:
    folder = partition_folder(("city",), (value,))
    assert folder.count("/") == 1
    assert unquote(folder[:-1].split("=", 1)[1]) == value


def test_partition_folders_of_several_columns_and_nulls() -> None:
    folder = partition_folder(("day", "city"), (None, "a/b=c"))
    assert folder == "day=__HIVE_DEFAULT_PARTITION__/city=a%2Fb%3Dc/"
    assert parse_type("Integer") == "int"
