"""Field ids stay with their column, and are never given to another."""

from __future__ import annotations

import pytest

from cdclake.model.iceberg.field_ids import NO_FIELD_IDS, FieldIds, iceberg_type
from cdclake.model.schema import Column

ID, NAME = Column("id", "int"), Column("Name", "string")


def test_a_new_table_numbers_its_columns_from_1() -> None:
    ids = NO_FIELD_IDS.after((), (ID, NAME))
    assert ids == FieldIds({"id": 1, "name": 2}, 2)
    assert (ids.of("ID"), ids.of("name")) == (1, 2)


def test_a_column_keeps_its_id_when_others_come_and_go() -> None:
    ids = NO_FIELD_IDS.after((), (ID, NAME))
    without = ids.after((ID, NAME), (NAME, Column("city", "string")))
    assert without.by_column == {"name": 2, "city": 3}
    assert without.after((NAME, Column("city", "string")), (ID, NAME)).by_column == {"id": 4, "name": 2}


@pytest.mark.parametrize(
    ("was", "now", "keeps"),
    [
        ("tinyint", "smallint", True),
        ("smallint", "int", True),
        ("int", "bigint", True),
        ("tinyint", "bigint", True),
        ("float", "double", True),
        ("decimal(5,2)", "decimal(9,2)", True),
        ("decimal(5,2)", "decimal(9,3)", False),
        ("decimal(9,2)", "decimal(5,2)", False),
        ("int", "decimal(10,0)", False),
        ("smallint", "float", False),
        ("bigint", "int", False),
        ("date", "timestamp", False),
        ("string", "binary", False),
    ],
)
def test_a_column_keeps_its_id_only_if_iceberg_reads_its_old_type_as_the_new_one(
    was: str, now: str, keeps: bool
) -> None:
    """https://iceberg.apache.org/spec/#schema-evolution."""
    before = (Column("n", was), NAME)
    ids = NO_FIELD_IDS.after((), before).after(before, (Column("n", now), NAME))
    assert ids.by_column == {"n": 1 if keeps else 3, "name": 2}


def test_iceberg_types() -> None:
    same = ("boolean", "int", "float", "double", "string", "binary", "date")
    others = {"tinyint": "int", "smallint": "int", "bigint": "long", "decimal(9,2)": "decimal(9, 2)"}
    for kind, expected in {**dict(zip(same, same, strict=True)), **others, "timestamp": "timestamptz"}.items():
        assert iceberg_type(kind) == expected
