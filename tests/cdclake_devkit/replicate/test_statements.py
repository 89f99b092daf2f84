"""Statements of each database become rows, without anything that was not committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cdclake.errors import ConfigurationError
from cdclake_devkit.memory import MemoryStore
from tests.cdclake_cli.sources.source_database import PARQUET, without

if TYPE_CHECKING:
    from tests.cdclake_cli.sources.source_database import TestDatabase

pytestmark = pytest.mark.database

TABLE = "create table t (id int primary key, v int)"


def before_delete(source: TestDatabase, value: int) -> int | None:
    """What a delete says of a value besides the key: PostgreSQL logs the key alone."""
    return value if source.engine == "mysql" else None


def test_statements_become_rows_in_their_order(source: TestDatabase):
    source.run(TABLE, "insert into t values (1, 1), (2, 2)")
    assert source.changes_by(
        "insert into t values (3, 3)", "update t set v = v + 10", "delete from t where id = 2"
    ) == [
        ("I", 3, 3, None),
        ("U", 1, 11, 1),
        ("U", 2, 12, 2),
        ("U", 3, 13, 3),
        ("D", 2, before_delete(source, 12), None),
    ]  # fmt: skip
    assert source.merged("t") == source.rows("t")


def test_all_statements_on_one_row_of_a_transaction_are_replicated(source: TestDatabase):
    source.run(TABLE)
    assert source.changes_by(
        "begin",
        "insert into t values (1, 1)",
        "update t set v = 2",
        "update t set v = 3",
        "delete from t",
        "insert into t values (1, 4)",
        "commit",
    ) == [
        ("I", 1, 1, None),
        ("U", 1, 2, 1),
        ("U", 1, 3, 1),
        ("D", 1, before_delete(source, 3), None),
        ("I", 1, 4, None),
    ]


def test_changes_that_rolled_back_are_not_replicated(source: TestDatabase):
    source.run(TABLE)
    assert source.changes_by(
        "begin", "insert into t values (1, 1)", "rollback",
        "begin", "insert into t values (2, 2)", "savepoint a", "insert into t values (3, 3)", "rollback to a",
        "insert into t values (4, 4)", "commit",
    ) == [("I", 2, 2, None), ("I", 4, 4, None)]  # fmt: skip


def test_an_update_of_a_key_has_the_new_key_and_with_a_rule_the_old_one(source: TestDatabase):
    source.run(TABLE, "insert into t values (1, 1)")
    assert source.changes_by("update t set id = 5") == [("U", 5, 1, 1)]


def test_without_a_rule_the_old_key_is_missing(source: TestDatabase):
    source.replicate_after(TABLE, "insert into t values (1, 1)", settings=PARQUET)
    source.replicate_after("update t set id = 5", settings=PARQUET)
    assert without(source.changed("t")) == [{"Op": "U", "id": 5, "v": 1}]


def test_a_table_created_later_has_only_change_files(source: TestDatabase):
    source.run(TABLE)
    statements = ("create table late as select 1 as id", "insert into late values (2)")
    assert source.changes_by(*statements, table="late") == [("I", 1), ("I", 2)]
    assert source.loaded("late") == []


def test_a_table_whose_name_cannot_be_a_folder_is_refused(source: TestDatabase):
    source.replicate_after(TABLE)
    table = "`a/b`" if source.engine == "mysql" else '"a/b"'
    with pytest.raises(ConfigurationError, match="cannot be a folder"):
        source.replicate_after(f"create table {table} (id int primary key)", f"insert into {table} values (1)")
    source.raw = MemoryStore()
    with pytest.raises(ConfigurationError, match="cannot be a folder"):
        source.replicate()
    assert list(source.raw.list("")) == []
    source.replicate(only=("t",))
