"""Statements become rows in commit order, without anything that was not committed."""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdclake.adapters.filesystem import lake_filesystem
from cdclake.adapters.folder import FolderStore
from cdclake.commit.quarantine import quarantined_files
from cdclake.errors import BadRowError, ConfigurationError
from cdclake.lake.operations.release import release
from cdclake.lake.storage.types import from_arrow
from cdclake.model.table.state import TableState
from cdclake.model.type_widening import wider_type
from cdclake_cli.dms.settings import BeforeImages, DmsSettings
from cdclake_cli.doctor.diagnose import RawBucket, diagnose
from cdclake_cli.sources.postgres.connection import connect
from tests.builders import eventually
from tests.cdclake.lake.scd2.versions import check_newest_are_the_table
from tests.cdclake.lake.table import Table
from tests.cdclake_cli.sources.source_database import PARQUET, WITH_KEYS, PostgresDatabase, without

if TYPE_CHECKING:
    from pathlib import Path

TABLE = "create table t (id int primary key, v int)"
FULL = "alter table t replica identity full"
INDEX = "alter table t replica identity using index t_id_key"
BY_V = "alter table t replica identity using index t_v_key"
LONG = "(select string_agg(md5(random()::text), '') from generate_series(1, 500))"
"""A text that is stored outside of its row, even compressed."""


def test_transactions_are_in_commit_order_with_their_commit_times(postgres: PostgresDatabase):
    postgres.replicate_after(TABLE)
    with closing(connect(postgres.connection_options, postgres.database)) as other, other.cursor() as cursor:
        cursor.execute("begin")
        cursor.execute("insert into public.t values (1, 1)")
        postgres.run("insert into t values (2, 2)")
        cursor.execute("commit")
    postgres.replicate()
    rows = postgres.changed("t")
    assert [row["id"] for row in rows] == [2, 1]
    assert rows[0]["sent"] < rows[1]["sent"]
    assert rows[0]["AR_H_CHANGE_SEQ"] < rows[1]["AR_H_CHANGE_SEQ"]


def test_keys_that_one_statement_shifts_and_swaps_are_replicated(postgres: PostgresDatabase):
    postgres.run(
        "create table t (id int primary key deferrable, v int)",
        "alter table t replica identity full",
        "insert into t values (1, 1), (2, 2), (3, 3)",
    )
    assert postgres.changes_by("update t set id = id + 1", "update t set id = 6 - id") == [
        ("U", 2, 1, 1), ("U", 3, 2, 2), ("U", 4, 3, 3), ("U", 4, 1, 2), ("U", 3, 2, 3), ("U", 2, 3, 4),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("identity", "update_before", "delete"),
    [
        ("default", {"BI_id": 1, "BI_v": None, "BI_w": None}, {"id": 1, "v": None, "w": None}),
        ("full", {"BI_id": 1, "BI_v": 1, "BI_w": None}, {"id": 1, "v": 2, "w": None}),
    ],
)
def test_the_replica_identity_decides_what_is_known_of_the_row_before(
    postgres: PostgresDatabase, identity: str, update_before: dict[str, Any], delete: dict[str, Any]
):
    settings = replace(WITH_KEYS, before_images=BeforeImages.ALL)
    postgres.run("create table t (id int primary key, v int, w int)", f"alter table t replica identity {identity}")
    postgres.replicate_after("insert into t values (1, 1, null)", settings=settings)
    postgres.replicate_after("update t set v = 2", "delete from t", settings=settings)
    nothing = dict.fromkeys(update_before)
    assert without(postgres.changed("t")) == [
        {"Op": "U", "id": 1, "v": 2, "w": None, **update_before},
        {"Op": "D", **delete, **nothing},
    ]


def test_a_table_without_a_key_has_only_inserts(postgres: PostgresDatabase, caplog: pytest.LogCaptureFixture):
    postgres.replicate_after("create table t (v int)", "insert into t values (1)")
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="cdclake_devkit"):
        postgres.replicate_after("insert into t values (2)", "update t set v = v + 1", "delete from t")
    assert without(postgres.changed("t")) == [{"Op": "I", "v": 2}]
    assert caplog.messages == ["Updates and deletes of public.t are not replicated: it has no replica identity"]


def test_a_table_with_a_deferrable_key_has_only_inserts(postgres: PostgresDatabase, caplog: pytest.LogCaptureFixture):
    """The log then has no old keys: an update of a key would look like one of other columns."""
    postgres.run("create table t (id int primary key deferrable, v int)", "insert into t values (1, 1)")
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="cdclake_devkit"):
        assert postgres.changes_by("update t set id = 2", "insert into t values (3, 3)") == [("I", 3, 3, None)]
    assert "it has no replica identity" in caplog.text


def test_a_table_without_a_key_and_with_full_identity_has_all_changes(postgres: PostgresDatabase):
    postgres.replicate_after("create table t (v int)", "alter table t replica identity full")
    postgres.replicate_after("insert into t values (2)", "update t set v = 3", "delete from t")
    assert without(postgres.changed("t")) == [{"Op": "I", "v": 2}, {"Op": "U", "v": 3}, {"Op": "D", "v": 3}]


def test_an_identity_by_another_index_does_not_tell_the_old_key(postgres: PostgresDatabase):
    postgres.run("create table t (id int primary key, code int not null unique)")
    postgres.run("alter table t replica identity using index t_code_key", "insert into t values (1, 7)")
    assert postgres.changes_by("update t set id = 2", "update t set code = 8", "delete from t") == [
        ("U", 2, 7, None),
        ("U", 2, 8, None),
        ("D", None, 8, None),
    ]


@pytest.mark.parametrize(
    ("create", "key", "images", "reason"),
    [
        (["create table t (id int, v int)", FULL], "id", "pk-only", "no primary key"),
        (["create table t (id int not null unique, v int)", INDEX], "id", "pk-only", "no primary key"),
        (["create table t (id int primary key, v int not null unique)", BY_V], "id", "pk-only", "no id of the row"),
        (["create table t (id int, v int, name text primary key default 'a')"], "name", "non-lob", "leaves out name"),
        (["create table t (id int primary key, v int)"], "id", "none", "BeforeImages is none"),
        (["create table t (id int, v int)", FULL], "id", "all", ""),
        (["create table t (id int not null unique, v int)", INDEX], "id", "all", ""),
        (["create table t (id int primary key, v int)"], "id", "pk-only", ""),
    ],
)
def test_all_know_whether_an_update_tells_the_key_before(
    postgres: PostgresDatabase,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    create: list[str],
    key: str,
    images: str,
    reason: str,
):
    """The log of the stand-in, the doctor and the run agree; where all is told, the lake equals the database."""
    settings = replace(PARQUET, before_images=BeforeImages(images))
    insert = "insert into t values (1, 10), (2, 20)" if key == "id" else "insert into t values (1, 10)"
    postgres.replicate_after(*create, insert, settings=settings)
    changed = "id = 5 where id = 1" if key == "id" else "name = 'b'"
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="cdclake_devkit"):
        postgres.replicate_after(f"update t set {changed}", settings=settings)
    assert (reason in caplog.text) is True
    assert bool(caplog.text) == bool(reason)
    lake = Table(tmp_path, pa.schema([]), {"PrimaryKey": key, "UniqueChecks": "immediate"})
    deliver(postgres, lake)
    lake.load_initial()
    lake.load_incremental()
    assert lake.log.record(2).unknown_keys == bool(reason)
    assert (lake.log.snapshot(2).rows > len(postgres.rows("t"))) == bool(reason)
    raw = RawBucket(FolderStore(lake.raw), lake_filesystem(lake.raw.as_uri()).open())
    state = TableState.new("raw", "shop/", "orders/").with_attributes(**lake.item)
    codes = {finding.code.value for finding in diagnose(raw, state, datetime.now(timezone.utc)).findings}
    assert bool(codes & {"no-before-image", "key-change-lost"}) == bool(reason)


def deliver(postgres: PostgresDatabase, lake: Table) -> None:
    """Copy the raw files of `t` that are new."""
    for file in list(postgres.raw.list("public/t/")):
        name = file.key.rpartition("/")[2]
        if not lake.raw_path(name).exists():
            lake.put(name, postgres.raw.get(file.key) or b"")


@pytest.mark.parametrize("alter", ["drop column note", "rename column note to memo"])
@pytest.mark.parametrize("quarantine", ["0", "5"])
@pytest.mark.parametrize("checks", ["immediate", "deferred"])
def test_a_key_can_be_updated_after_a_column_was_dropped_or_renamed(
    postgres: PostgresDatabase, tmp_path: Path, alter: str, quarantine: str, checks: str
):
    """The error's remedy, `MissingColumns`, lets the next run apply the file, or a release the quarantined rows."""
    postgres.replicate_after(
        "create table t (id int primary key, v int, note text)",
        "insert into t values (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c')",
    )
    item = {"PrimaryKey": "id", "UniqueChecks": checks, "History": "true", "MaxQuarantinedRows": quarantine}
    lake = Table(tmp_path, pa.schema([]), item)
    deliver(postgres, lake)
    lake.load_initial()
    postgres.replicate_after(
        f"alter table t {alter}",
        "update t set v = 21 where id = 2",
        "update t set id = 5 where id = 1",
        "update t set id = 12 where id = 2",
        "delete from t where id = 3",
    )
    deliver(postgres, lake)
    if quarantine == "0":
        with pytest.raises(BadRowError, match="set MissingColumns to null"):
            lake.load_incremental()
        lake.item["MissingColumns"] = "null"
        lake.load_incremental()
    else:
        lake.load_incremental()
        lake.item["MissingColumns"] = "null"
        release(lake.run(), {file.raw_file for file in quarantined_files(lake.log, lake.log.head())})
    rows = postgres.rows("t")
    lake.columns = pa.schema([(name, pa.null()) for name in rows[0]])
    assert sorted((one.row for one in lake.rows()), key=lambda row: row["id"]) == sorted(
        rows, key=lambda row: row["id"]
    )
    check_newest_are_the_table(lake, ("id",))


@pytest.mark.parametrize("identity", ["default", "full"])
def test_a_large_value_that_an_update_did_not_change_needs_a_full_identity(postgres: PostgresDatabase, identity: str):
    postgres.run("create table t (id int primary key, v int, long text, short text)")
    postgres.run(f"alter table t replica identity {identity}", f"insert into t values (1, 1, {LONG}, 'short')")
    (update,) = postgres.changes_by("update t set v = 2")
    long = postgres.query("select long from t")[0][0] if identity == "full" else None
    assert update == ("U", 1, 2, long, "short", 1)
    (_, changed) = postgres.changes_by("update t set long = long || 'x'")
    assert changed[3] == postgres.query("select long from t")[0][0]


def test_a_value_that_was_not_sent_has_its_own_text_in_csv(postgres: PostgresDatabase):
    settings = DmsSettings(use_csv_no_sup_value=True, csv_no_sup_value="UNSENT")
    postgres.run("create table t (id int primary key, v int, long text)", f"insert into t values (1, 1, {LONG})")
    postgres.replicate(settings)
    postgres.replicate_after("update t set v = null", settings=settings)
    (change,) = [key for stored in postgres.raw.list("public/t/") if "LOAD" not in (key := stored.key)]
    assert postgres.raw.get(change) == b"U,1,NULL,UNSENT\n"


def test_upserts_merges_and_deletes_become_the_changes_they_make(postgres: PostgresDatabase):
    postgres.run(TABLE, "insert into t values (1, 1), (2, 2)")
    assert postgres.changes_by(
        "insert into t values (2, 3), (3, 3) on conflict (id) do update set v = t.v + 100",
        "insert into t values (1, 9) on conflict do nothing",
        "merge into t using (values (1), (7)) s (id) on s.id = t.id"
        " when matched then delete when not matched then insert values (s.id, 0)",
    ) == [("U", 2, 102, 2), ("I", 3, 3, None), ("D", 1, None, None), ("I", 7, 0, None)]


def test_changes_by_triggers_cascades_and_copy_are_replicated(postgres: PostgresDatabase):
    postgres.run(
        TABLE,
        "create table log (id int primary key references t on delete cascade)",
        "create function note() returns trigger language plpgsql as"
        " $$ begin insert into log values (new.id); return null; end $$",
        "create trigger after_t after insert on t for each row execute function note()",
    )
    assert postgres.changes_by("insert into t values (7, 7)", "delete from t") == [
        ("I", 7, 7, None),
        ("D", 7, None, None),
    ]
    assert [(row["Op"], row["id"]) for row in postgres.changed("log")] == [("I", 7), ("D", 7)]


def test_rows_have_the_columns_at_the_time_of_the_change(postgres: PostgresDatabase):
    """The log is read after the last statement, when the table no longer has the columns of the first rows."""
    postgres.replicate_after(TABLE)
    postgres.replicate_after(
        "insert into t values (1, 1)",
        "alter table t add column name varchar(10), alter column v type bigint",
        "insert into t values (2, 5000000000, 'two')",
        "alter table t drop column v",
        "alter table t rename column name to title",
        "insert into t values (3, 'three')",
        "delete from t where id = 1",
    )
    assert [without(file) for file in postgres.change_files("t")] == [
        [{"Op": "I", "id": 1, "v": 1, "BI_id": None}],
        [{"Op": "I", "id": 2, "v": 5_000_000_000, "name": "two", "BI_id": None}],
        [
            {"Op": "I", "id": 3, "title": "three", "BI_id": None},
            {"Op": "D", "id": 1, "title": None, "BI_id": None},
        ],
    ]


def test_a_number_has_the_precision_of_its_time_as_far_as_its_value_needs(postgres: PostgresDatabase):
    """The log has no precision: it comes from the table as it is when the log is read."""
    postgres.replicate_after("create table t (id int primary key, v numeric(4,2), w numeric(10,4))")
    postgres.replicate_after(
        "insert into t values (1, 10.25, 1.2345)",
        "alter table t alter column v type numeric(12,2), alter column w type numeric(10,2)",
        "insert into t values (2, 1234567890.5, 12345678.5)",
        "alter table t rename column v to amount",
        "insert into t values (3, 2.5, 2.5)",
    )
    assert [(row["id"], row.get("v", row.get("amount")), row["w"]) for row in postgres.changed("t")] == [
        (1, Decimal("10.25"), Decimal("1.2345")),
        (2, Decimal("1234567890.50"), Decimal("12345678.50")),
        (3, Decimal("2.50"), Decimal("2.50")),
    ]


def test_a_column_that_was_dropped_since_keeps_its_digits(postgres: PostgresDatabase):
    postgres.replicate_after(TABLE)
    postgres.replicate_after(
        "alter table t add column n numeric(20,10)", "insert into t values (1, 1, 0.0123456789)", "alter table t drop n"
    )
    assert postgres.changed("t")[0]["n"] == Decimal("0.0123456789")


@pytest.mark.parametrize("value", [None, 0, 10**38 - 1])
def test_a_number_that_was_dropped_since_fits_the_column_that_it_had(postgres: PostgresDatabase, value: int | None):
    postgres.run("create table t (id int primary key, v int, n numeric(38,0))")
    postgres.replicate()
    text = "null" if value is None else value
    postgres.replicate_after(f"insert into t values (1, 1, {text}), (2, 2, null)", "alter table t drop n")
    (change,) = [stored.key for stored in postgres.raw.list("public/t/2")]
    kind = pq.read_schema(pa.BufferReader(postgres.raw.get(change) or b"")).field("n").type
    assert wider_type("decimal(38,0)", from_arrow(kind) or "") == "decimal(38,0)"
    assert [row["n"] for row in postgres.changed("t")] == [value, None]


def test_changes_of_a_table_that_was_dropped_since_are_replicated(postgres: PostgresDatabase):
    postgres.replicate_after(TABLE, "create table other (id int)")
    postgres.replicate_after("insert into t values (1, 1)", "drop table t")
    assert [row["id"] for row in postgres.changed("t")] == [1]


def test_all_schemas_of_the_database_are_replicated(postgres: PostgresDatabase):
    postgres.run(TABLE, 'create schema "My Shop"', 'create table "My Shop".t (id int primary key, "Größe" text)')
    postgres.run("""insert into "My Shop".t values (1, 'a')""")
    postgres.replicate()
    postgres.replicate_after("insert into t values (1, 1)", """update "My Shop".t set "Größe" = 'b', id = 2""")
    assert len(postgres.changed("t")) == 1
    postgres.schema = "My Shop"
    assert without(postgres.loaded("t"), "sent", "AR_H_CHANGE_SEQ", "BI_id") == [{"id": 1, "Größe": "a"}]
    assert without(postgres.changed("t")) == [{"Op": "U", "id": 2, "Größe": "b", "BI_id": 1}]


def test_composite_keys_and_unusual_names_are_replicated(postgres: PostgresDatabase):
    postgres.replicate_after(
        'create table "a ""b" ("x y" int, "né" varchar(5), "V]:" int, primary key ("né", "x y"))',
        """insert into "a ""b" values (1, 'a', 1)""",
    )
    postgres.replicate_after("""update "a ""b" set "x y" = 2, "né" = 'b'""")
    assert without(postgres.loaded('a "b'), "sent", "AR_H_CHANGE_SEQ", "BI_x y", "BI_né") == [
        {"x y": 1, "né": "a", "V]:": 1}
    ]
    assert without(postgres.changed('a "b')) == [{"Op": "U", "x y": 2, "né": "b", "V]:": 1, "BI_x y": 1, "BI_né": "a"}]


def test_only_the_named_tables_are_replicated(postgres: PostgresDatabase):
    postgres.run(TABLE, "create table other (id int primary key)", "create schema s", "create table s.t (id int)")
    postgres.replicate(only=("public.t",))
    postgres.replicate_after(
        "insert into other values (2)", "insert into s.t values (1)", "insert into t values (1, 1)", only=("public.t",)
    )
    assert {stored.key.rpartition("/")[0] for stored in postgres.raw.list("")} == {"public/t", "awsdms_stand_in"}


def test_partitions_are_tables_and_views_and_temporary_tables_are_not(postgres: PostgresDatabase):
    postgres.run(
        "create table p (id int primary key) partition by range (id)",
        "create table p1 partition of p for values from (0) to (10)",
        "create view v as select * from p",
        "create unlogged table u (id int primary key)",
        "insert into p values (1)",
    )
    postgres.replicate()
    postgres.replicate_after(
        "insert into p values (2)", "create temporary table x (id int)", "insert into x values (1)"
    )
    keys = [stored.key for stored in postgres.raw.list("public/")]
    assert {key.split("/")[1] for key in keys} == {"p1"}
    assert [row["id"] for row in [*postgres.loaded("p1"), *postgres.changed("p1")]] == [1, 2]


def test_tables_that_inherit_have_their_own_rows(postgres: PostgresDatabase):
    postgres.run(TABLE, "create table child (extra int) inherits (t)", "insert into child values (2, 2, 2)")
    postgres.run("insert into t values (1, 1)")
    postgres.replicate()
    assert [row["id"] for row in postgres.loaded("t")] == [1]
    assert [row["id"] for row in postgres.loaded("child")] == [2]


def test_csv_files_contain_the_same_rows(postgres: PostgresDatabase):
    settings = DmsSettings(timestamp_column_name="sent", before_images=BeforeImages.PRIMARY_KEY)
    postgres.run("create table t (id int primary key, v varchar(20), ok boolean, n double precision, b bytea)")
    postgres.replicate_after("""insert into t values (1, 'a,"b"', true, 'NaN', '\\x00ff')""", settings=settings)
    postgres.replicate_after("update t set v = null, ok = false, n = 0.1", settings=settings)
    files = {stored.key: postgres.raw.get(stored.key) for stored in postgres.raw.list("public/t/")}
    change, load = (content.decode().split(",", 2) for content in files.values() if content is not None)
    assert load[1:] == ["1", '"a,""b""",true,nan,00ff,\n']
    assert change[0] == "U"
    assert change[2] == "1,NULL,false,0.1,00ff,1\n"


def test_a_truncate_is_logged(postgres: PostgresDatabase, caplog: pytest.LogCaptureFixture):
    postgres.run(TABLE, "create table other (id int)", "insert into t values (1, 1)")
    postgres.replicate(only=("t",))
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="cdclake_devkit"):
        postgres.replicate_after("truncate t, other", "insert into t values (2, 2)", only=("t",))
    assert caplog.messages == ["Change files cannot express 'truncate public.t ...': load again with --anew"]
    assert [row["id"] for row in postgres.changed("t")] == [2]


def test_a_column_named_like_an_added_one_is_refused_when_it_is_added(postgres: PostgresDatabase):
    postgres.replicate_after(TABLE)
    with pytest.raises(ConfigurationError, match="the name of a column that the DMS settings add"):
        postgres.replicate_after('alter table t add column "Op" text', "insert into t values (1, 1, 'a')")
    assert postgres.changed("t") == []


def test_transactions_of_other_databases_advance_the_position(postgres: PostgresDatabase):
    before = postgres.replicate_after(TABLE)
    with closing(connect(postgres.connection_options, "postgres")) as other, other.cursor() as cursor:
        cursor.execute("create table public.elsewhere as select generate_series(1, 1000)")
        cursor.execute("drop table public.elsewhere")
    after = postgres.replicate()
    assert before.position is not None
    assert after.position is not None
    assert before.position.is_before(after.position)


def test_messages_of_applications_in_the_log_are_ignored(postgres: PostgresDatabase):
    postgres.run(TABLE)
    assert postgres.changes_by(
        "select pg_logical_emit_message(false, 'app', E'COMMIT 1\\nBEGIN 2')",
        "select pg_logical_emit_message(true, 'app', 'table public.t: INSERT: id[integer]:9')",
        "insert into t values (1, 1)",
    ) == [("I", 1, 1, None)]


def test_an_update_before_the_identity_became_full_knows_only_the_key(postgres: PostgresDatabase):
    settings = replace(WITH_KEYS, before_images=BeforeImages.ALL)
    postgres.replicate_after(TABLE, "insert into t values (1, 1)", settings=settings)
    postgres.replicate_after("update t set v = 2", "alter table t replica identity full", settings=settings)
    assert without(postgres.changed("t")) == [{"Op": "U", "id": 1, "v": 2, "BI_id": 1, "BI_v": None}]


@pytest.mark.parametrize(
    ("create", "alter", "expected"),
    [
        (
            "create table t (id int, v int)",
            "alter table t add primary key (id)",
            [("U", 2, 1, 1), ("D", 2, None, None)],
        ),
        (
            TABLE,
            "alter table t drop constraint t_pkey, add primary key (id) deferrable",
            [],  # the log has no old keys any more
        ),
        (TABLE, "alter table t replica identity full", [("U", 2, 1, 1), ("D", 2, 1, None)]),
    ],
)
def test_a_key_that_changes_during_a_run_is_noticed(
    postgres: PostgresDatabase, create: str, alter: str, expected: list[tuple[Any, ...]]
):
    postgres.replicate_after(create, "insert into t values (1, 1)")
    with postgres.replicating(replace(WITH_KEYS, cdc_max_batch_interval=1)):
        postgres.run("insert into t values (7, 7)")
        assert eventually(lambda: len(postgres.changed("t")) == 1)
        postgres.run(
            alter, "update t set id = 2 where id = 1", "delete from t where id = 2", "insert into t values (8, 8)"
        )
        assert eventually(lambda: postgres.changed("t")[-1]["id"] == 8)
    changes = [(row["Op"], row["id"], row["v"], row.get("BI_id")) for row in postgres.changed("t")]
    assert changes[1:-1] == expected
