"""Statements become rows in commit order, without anything that was not committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.devkit.replicate.source_database import without

if TYPE_CHECKING:
    from tests.devkit.replicate.source_database import PostgresDatabase

TABLE = "create table t (id int primary key, v int)"


def changes_of(source: PostgresDatabase, *statements: str, table: str = "t") -> list[tuple[Any, ...]]:
    """`Op`, the source's columns and `BI_id` of the changes by these statements, after a full load."""
    source.replicate()
    source.run(*statements)
    source.replicate()
    return [tuple(row.values()) for row in without(source.changed(table))]


def test_statements_become_rows_in_their_order(postgres: PostgresDatabase):
    postgres.run(TABLE, "insert into t values (1, 1), (2, 2)")
    assert changes_of(
        postgres, "insert into t values (3, 3)", "update t set v = v + 10", "delete from t where id = 2"
    ) == [
        ("I", 3, 3, None),
        ("U", 1, 11, 1),
        ("U", 2, 12, 2),
        ("U", 3, 13, 3),
        ("D", 2, None, None),
    ]  # fmt: skip
    assert postgres.merged("t") == postgres.rows("t")
