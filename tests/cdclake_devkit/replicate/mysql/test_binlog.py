"""Statements become rows in commit order, without anything that was not committed."""

from __future__ import annotations

import logging
import re
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from cdclake.errors import IntegrityError
from cdclake_cli.dms.settings import BeforeImages, DmsSettings
from cdclake_cli.sources.mysql.connection import connect
from tests.cdclake_cli.sources.source_database import WITH_KEYS, MariadbDatabase, without

if TYPE_CHECKING:
    from cdclake_devkit.shop.mariadb import PrivateMariadb

TABLE = "create table t (id int primary key, v int)"


def test_changes_of_a_non_transactional_table_survive_a_rollback(source: MariadbDatabase):
    source.run(TABLE, "create table m (id int primary key, v int) engine = myisam")
    changes = source.changes_by(
        "begin", "insert into t values (1, 1)", "insert into m values (1, 1)", "rollback", table="m"
    )
    assert changes == [("I", 1, 1, None)]
    assert source.changed("t") == []


def test_transactions_are_in_commit_order(source: MariadbDatabase):
    source.replicate_after(TABLE)
    with closing(connect(source.connection_options, database=source.schema)) as other, other.cursor() as cursor:
        cursor.execute("begin")
        cursor.execute("insert into t values (1, 1)")
        source.run("insert into t values (2, 2)")
        cursor.execute("commit")
    source.replicate()
    assert [row["id"] for row in source.changed("t")] == [2, 1]


def test_a_rule_can_add_all_values_before_an_update(source: MariadbDatabase):
    settings = replace(WITH_KEYS, before_images=BeforeImages.ALL)
    source.replicate_after(TABLE, "insert into t values (1, 1)", settings=settings)
    source.replicate_after("update t set v = 2", "delete from t", settings=settings)
    assert without(source.loaded("t"), "sent") == [
        {"id": 1, "v": 1, "AR_H_CHANGE_SEQ": None, "BI_id": None, "BI_v": None}
    ]
    assert without(source.changed("t")) == [
        {"Op": "U", "id": 1, "v": 2, "BI_id": 1, "BI_v": 1},
        {"Op": "D", "id": 1, "v": 2, "BI_id": None, "BI_v": None},
    ]


def test_replace_and_upsert_become_the_changes_they_make(source: MariadbDatabase):
    source.run(TABLE, "insert into t values (1, 1), (2, 2)")
    assert source.changes_by(
        "replace into t values (1, 9)",
        "insert into t values (2, 3), (3, 3) on duplicate key update v = v + 100",
        "create table u (id int primary key, w int)",
        "insert into u values (1, 7)",
        "update t join u using (id) set t.v = u.w, u.w = 0",
        "delete t, u from t join u using (id)",
    ) == [("U", 1, 9, 1), ("U", 2, 102, 2), ("I", 3, 3, None), ("U", 1, 7, 1), ("D", 1, 7, None)]
    assert [(row["Op"], row["w"]) for row in source.changed("u")] == [("I", 7), ("U", 0), ("D", 0)]


def test_changes_by_triggers_and_procedures_are_replicated(source: MariadbDatabase):
    source.run(
        TABLE,
        "create table log (id int auto_increment primary key, what int)",
        "create trigger after_t after insert on t for each row insert into log (what) values (new.v)",
        "create procedure fill(in v int) insert into t values (v, v), (v + 1, v)",
    )
    assert source.changes_by("call fill(7)") == [("I", 7, 7, None), ("I", 8, 7, None)]
    assert [(row["id"], row["what"]) for row in source.changed("log")] == [(1, 7), (2, 7)]


def test_rows_have_the_columns_at_the_time_of_the_change(source: MariadbDatabase):
    """The binlog is read after the last statement, when the table no longer has the columns of the first rows."""
    source.replicate_after(TABLE)
    source.replicate_after(
        "insert into t values (1, 1)",
        "alter table t add column name varchar(10), modify v bigint",
        "insert into t values (2, 5000000000, 'two')",
        "alter table t drop column v, rename column name to title, add column first int first",
        "insert into t values (0, 3, 'three')",
    )
    assert [without(file) for file in source.change_files("t")] == [
        [{"Op": "I", "id": 1, "v": 1, "BI_id": None}],
        [{"Op": "I", "id": 2, "v": 5_000_000_000, "name": "two", "BI_id": None}],
        [{"Op": "I", "first": 0, "id": 3, "title": "three", "BI_id": None}],
    ]


def test_composite_keys_and_unusual_names_are_replicated(source: MariadbDatabase):
    source.replicate_after(
        "create table `a ``b` (`x y` int, `né` varchar(5), v int, primary key (`né`, `x y`))",
        "insert into `a ``b` values (1, 'a', 1)",
    )
    source.replicate_after("update `a ``b` set `x y` = 2, `né` = 'b'")
    assert without(source.loaded("a `b"), "sent", "AR_H_CHANGE_SEQ", "BI_x y", "BI_né") == [
        {"x y": 1, "né": "a", "v": 1}
    ]
    assert without(source.changed("a `b")) == [{"Op": "U", "x y": 2, "né": "b", "v": 1, "BI_x y": 1, "BI_né": "a"}]


def test_only_the_named_tables_are_replicated(source: MariadbDatabase):
    source.run(TABLE, "create table other (id int primary key)", "insert into other values (1)")
    source.replicate(only=("t",))
    source.replicate_after("insert into other values (2)", "insert into t values (1, 1)", only=("t",))
    assert source.loaded("other") == source.changed("other") == []
    assert len(source.changed("t")) == 1


def test_csv_files_contain_the_same_rows(source: MariadbDatabase):
    settings = DmsSettings(timestamp_column_name="sent", before_images=BeforeImages.PRIMARY_KEY)
    source.run("create table t (id int primary key, v varchar(20))", "insert into t values (1, 'a,\"b\"')")
    source.replicate(settings)
    source.replicate_after("update t set v = null", settings=settings)
    files = {stored.key: source.raw.get(stored.key) for stored in source.raw.list(f"{source.schema}/t/")}
    change, load = (content.decode().split(",", 2) for content in files.values() if content is not None)
    assert load[1:] == ["1", '"a,""b""",\n']
    assert change[0] == "U"
    assert change[2] == "1,NULL,1\n"


@pytest.mark.parametrize(
    ("statements", "what"),
    [
        (("set session binlog_format = statement", "insert into t values (1, 1)"), "a statement logged as text"),
        (("set session binlog_row_image = minimal", "update t set v = 2"), "rows that lack some of their columns"),
        (
            ("xa start 'x'", "insert into t values (7, 7)", "xa end 'x'", "xa prepare 'x'", "xa commit 'x'"),
            "prepared XA",
        ),
    ],
)
def test_an_incomplete_event_is_an_error(source: MariadbDatabase, statements: tuple[str, ...], what: str):
    source.run(TABLE, "insert into t values (1, 0)", "delete from t where id = 1", "insert into t values (2, 0)")
    source.replicate()
    with pytest.raises(IntegrityError, match=what):
        source.replicate_after(*statements)


@pytest.mark.parametrize(
    "statement", ["truncate table t", "drop table t", "rename table t to u", "alter table t add system versioning"]
)
def test_a_statement_that_removes_rows_without_row_events_is_logged(
    source: MariadbDatabase, statement: str, caplog: pytest.LogCaptureFixture
):
    source.replicate_after(TABLE, "insert into t values (1, 1)")
    source.run(statement)
    with caplog.at_level(logging.WARNING, logger="cdclake_devkit"):
        source.replicate()
    word = statement.split()[0]
    assert re.search(f"cannot express '{word} ", caplog.text, re.IGNORECASE)
    assert source.changed("t") == []


def test_a_statement_on_a_database_with_an_unusual_name_is_recognized(mariadb: PrivateMariadb):
    with MariadbDatabase(mariadb.connection_options, "my `shop-é") as source:
        source.replicate_after(TABLE, "use mysql", "set session binlog_format = statement")
        with pytest.raises(IntegrityError, match="a statement logged as text"):
            source.replicate_after("insert into `my ``shop-é`.t values (1, 1)")


def test_transactions_of_other_databases_advance_the_position(source: MariadbDatabase):
    source.run(TABLE)
    before = source.replicate()
    source.run(f"create database {source.schema}x", f"create table {source.schema}x.o (id int)")
    source.run(f"insert into {source.schema}x.o values (1)", f"drop database {source.schema}x")
    after = source.replicate()
    assert before.position is not None
    assert after.position is not None
    assert before.position.is_before(after.position)


def test_changes_are_read_across_several_binlog_files(source: MariadbDatabase):
    source.run(TABLE)
    assert source.changes_by(
        "insert into t values (1, 1)",
        "flush binary logs",
        "insert into t values (2, 2)",
        "flush binary logs",
        "insert into t values (3, 3)",
    ) == [("I", 1, 1, None), ("I", 2, 2, None), ("I", 3, 3, None)]
