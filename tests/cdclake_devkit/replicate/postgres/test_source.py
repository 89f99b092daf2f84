"""A PostgreSQL source is read consistently, or refused with what to do."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg2
import pytest

from cdclake.errors import ConfigurationError, IntegrityError, RetryableError
from cdclake_cli.sources.positions import WalPosition
from cdclake_cli.sources.postgres import connection as module
from cdclake_cli.sources.postgres.connection import ConnectionOptions, connect, query, source_error
from cdclake_cli.sources.postgres.snapshot import end_of_wal
from cdclake_devkit.memory import MemoryStore
from cdclake_devkit.replicate.postgres.source import WalSource
from cdclake_devkit.replicate.progress import ProgressFile
from cdclake_devkit.shop.postgresql import PrivatePostgresql
from tests.builders import eventually
from tests.cdclake_cli.sources.source_database import WITH_KEYS, PostgresDatabase

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.database

TABLE = "create table t (id int primary key, v int)"


def slots(source: PostgresDatabase) -> list[str]:
    return [
        name
        for (name,) in source.query("select slot_name from pg_replication_slots where database = current_database()")
    ]


def confirmed(source: PostgresDatabase) -> WalPosition:
    """Position up to which the server may discard its log."""
    statement = "select confirmed_flush_lsn::text from pg_replication_slots where database = current_database()"
    return WalPosition.parse(source.query(statement)[0][0])


def test_the_server_may_discard_its_log_only_after_the_position_is_saved(postgres: PostgresDatabase):
    postgres.replicate_after(TABLE)

    class Watched(MemoryStore):
        """Notes what the server has been told whenever something is written."""

        def put(self, key: str, data: bytes) -> None:
            seen.append(confirmed(postgres))
            super().put(key, data)

    seen: list[WalPosition] = []
    before, raw = confirmed(postgres), Watched()
    for stored in postgres.raw.list(""):
        MemoryStore.put(raw, stored.key, postgres.raw.get(stored.key) or b"")
    postgres.raw = raw
    after = postgres.replicate_after("insert into t values (1, 1)", "insert into t values (2, 2)").position
    assert seen == [before, before]  # a change file and the progress
    assert isinstance(after, WalPosition)
    assert eventually(lambda: before.is_before(confirmed(postgres)))
    assert not after.is_before(confirmed(postgres))


def test_the_server_may_discard_the_log_of_other_databases(postgres: PostgresDatabase):
    """Without this, a busy server would keep all of its log for a quiet database."""
    postgres.replicate_after(TABLE)
    with postgres.replicating(replace(WITH_KEYS, cdc_max_batch_interval=1)):
        with closing(connect(postgres.connection_options, "postgres")) as other, other.cursor() as cursor:
            cursor.execute("create table public.elsewhere as select generate_series(1, 1000)")
            cursor.execute("drop table public.elsewhere")
            end = end_of_wal(other)
        assert eventually(lambda: not confirmed(postgres).is_before(end))


def test_the_server_is_never_told_more_than_is_saved(postgres: PostgresDatabase):
    """The library confirms what it reads from an idle server by itself, as soon as it sends anything."""
    saved = postgres.replicate_after(TABLE).position
    assert isinstance(saved, WalPosition)
    with postgres.replicating():
        with closing(connect(postgres.connection_options, "postgres")) as other, other.cursor() as cursor:
            for _ in range(10):
                cursor.execute("create table public.elsewhere (id int)")
                cursor.execute("drop table public.elsewhere")
                time.sleep(0.3)
        assert not saved.is_before(confirmed(postgres))


def test_a_dropped_slot_is_an_error_until_the_full_load_is_repeated(postgres: PostgresDatabase):
    postgres.replicate_after(TABLE)
    (slot,) = slots(postgres)
    postgres.query(f"select pg_drop_replication_slot('{slot}')")
    postgres.run("insert into t values (1, 1)")
    with pytest.raises(IntegrityError, match=f"{slot} of the source no longer has the position.*--anew"):
        postgres.replicate()
    postgres.replication().run(lambda: False, reload=True, until_now=True)
    assert postgres.merged("t") == postgres.rows("t")


def test_a_slot_that_is_ahead_of_the_saved_position_is_an_error(postgres: PostgresDatabase):
    """START_REPLICATION would silently continue from the later position."""
    postgres.replicate_after(TABLE)
    file = ProgressFile(postgres.raw, "", postgres.database)
    old = file.read()
    assert old is not None
    postgres.replicate_after("insert into t values (1, 1)")
    file.write(old)
    with pytest.raises(IntegrityError, match="no longer has the position"):
        postgres.replicate_after("insert into t values (2, 2)")


def test_a_repeated_full_load_and_a_failed_one_leave_no_slot_behind(postgres: PostgresDatabase):
    postgres.replicate_after(TABLE)
    first = slots(postgres)
    postgres.replication().run(lambda: False, reload=True, until_now=True)
    second = slots(postgres)
    assert len(first) == len(second) == 1
    assert first != second
    other = MemoryStore()
    other.put("public/t/LOAD00000001.parquet", b"theirs")
    with pytest.raises(ConfigurationError, match="did not write"):
        postgres.replication(raw=other).run(lambda: False, until_now=True)
    assert slots(postgres) == second


def test_two_buckets_have_slots_of_their_own(postgres: PostgresDatabase):
    postgres.replicate_after(TABLE)
    first, postgres.raw = postgres.raw, MemoryStore()
    postgres.replicate_after("insert into t values (1, 1)")
    postgres.raw = first
    postgres.replicate()
    assert postgres.merged("t") == postgres.rows("t") == [{"id": 1, "v": 1}]
    assert len(slots(postgres)) == 2


def test_a_server_without_logical_log_is_refused():
    with PrivatePostgresql(settings={"wal_level": "replica"}) as server:
        source = WalSource(server.connection_options, "postgres")
        with pytest.raises(ConfigurationError, match=r"wal_level = replica.*Set wal_level to logical.*rds"):
            source.session("x").__enter__()


@pytest.mark.parametrize("slots", [0, 1])
def test_a_server_without_a_free_slot_is_refused(slots: int):
    with PrivatePostgresql(settings={"max_replication_slots": str(slots)}) as server:
        source = WalSource(server.connection_options, "postgres")
        with closing(connect(server.connection_options, "postgres")) as connection:
            for number in range(slots):
                query(connection, f"select pg_create_physical_replication_slot('other{number}')")
        with source.session("x") as session, pytest.raises(ConfigurationError, match="no free replication slot"):
            session.begin((), session.new_slot()).__enter__()


def test_a_database_in_another_encoding_is_refused(postgres: PostgresDatabase):
    postgres.run(f"create database {postgres.database}latin encoding latin1 locale 'C' template template0")
    try:
        source = WalSource(postgres.connection_options, f"{postgres.database}latin")
        with pytest.raises(ConfigurationError, match="has the encoding LATIN1"):
            source.session("x").__enter__()
    finally:
        postgres.run(f"drop database {postgres.database}latin")


@pytest.fixture
def limited(postgres: PostgresDatabase) -> Iterator[PostgresDatabase]:
    """The database, through a user without privileges."""
    postgres.run(TABLE, "insert into t values (1, 1)", f"create role {postgres.database}user login password 'pw'")
    privileged = postgres.connection_options
    postgres.connection_options = replace(privileged, user=f"{postgres.database}user", password="pw")
    yield postgres
    postgres.connection_options = privileged


def test_a_user_who_may_not_replicate_is_refused(limited: PostgresDatabase):
    with pytest.raises(ConfigurationError, match=r"must be superuser or replication role.*REPLICATION"):
        limited.replicate()


def test_a_user_who_may_not_read_a_table_is_refused(limited: PostgresDatabase):
    limited.run(f"alter role {limited.database}user replication")
    with pytest.raises(ConfigurationError, match=r"permission denied for table t.*SELECT"):
        limited.replicate()
    limited.run(f"grant select on t to {limited.database}user")
    limited.replicate()
    assert limited.loaded("t")


def test_rows_that_a_policy_hides_are_an_error(limited: PostgresDatabase):
    limited.run(
        f"alter role {limited.database}user replication",
        f"grant select on t to {limited.database}user",
        "alter table t enable row level security",
    )
    with pytest.raises(ConfigurationError, match="row-level security"):
        limited.replicate()


def test_an_unknown_table_or_database_is_refused(postgres: PostgresDatabase):
    postgres.run(TABLE)
    with pytest.raises(ConfigurationError, match=r"has no table nothing, s\.t"):
        postgres.replicate(only=("t", "nothing", "s.t"))
    assert slots(postgres) == []
    with pytest.raises(ConfigurationError, match='database "nowhere" does not exist'):
        WalSource(postgres.connection_options, "nowhere").session("x").__enter__()


def test_a_wrong_password_is_refused_and_never_shown(postgres: PostgresDatabase):
    options = replace(postgres.connection_options, password="s3cret")
    with pytest.raises(ConfigurationError, match=r"password authentication failed.*Check the user") as error:
        connect(options, postgres.database)
    assert "s3cret" not in f"{error.value!r} {error.value} {options!r}"


def test_an_unreachable_source_is_a_retryable_error(tmp_path: Path):
    with pytest.raises(RetryableError, match="returned an error"):
        connect(ConnectionOptions(user="x", socket=str(tmp_path)), "shop")


def test_a_lost_connection_is_a_retryable_error(postgres: PostgresDatabase):
    postgres.replicate_after(TABLE)

    def cut() -> bool:
        postgres.query(
            "select pg_terminate_backend(pid) from pg_stat_activity where backend_type = 'walsender'"
            " and datname = current_database()"
        )
        return False

    with pytest.raises(RetryableError, match="returned an error"):
        postgres.replication().run(cut)
    postgres.replicate_after("insert into t values (1, 1)")
    assert postgres.merged("t") == postgres.rows("t")


def shut_down(server: PrivatePostgresql) -> None:
    """Let the server end in order, which waits until its readers have confirmed the log."""
    process = server._folder / "data" / "postmaster.pid"
    os.kill(int(process.read_text().split("\n", 1)[0]), signal.SIGINT)
    assert eventually(lambda: not process.exists())


def test_a_replication_continues_after_a_restart_of_the_server():
    errors: list[RetryableError] = []

    def run() -> None:
        try:
            source.replication(replace(WITH_KEYS, cdc_max_batch_interval=1)).run(lambda: False)
        except RetryableError as error:
            errors.append(error)

    with (
        PrivatePostgresql() as server,
        ExitStack() as stack,
        PostgresDatabase(server.connection_options, "shop") as source,
    ):
        source.replicate_after(TABLE)
        thread = threading.Thread(target=run)
        thread.start()
        source.run("create table other (id int)", "insert into t values (1, 1)", "create table another (id int)")
        assert eventually(lambda: source.query("select 1 from pg_replication_slots where active"))
        shut_down(server)
        thread.join()
        assert len(errors) == 1
        server._start(stack)
        source.connection = source.connect()
        source.replicate_after("insert into t values (2, 2)")
        assert source.merged("t") == source.rows("t")


def test_an_old_server_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "query", lambda *_: [(110_022, "logical", "UTF8")])
    with pytest.raises(ConfigurationError, match="is PostgreSQL 11"):
        module.check_server(None)


def test_an_error_of_the_server_has_its_text_on_one_line():
    error = source_error(psycopg2.OperationalError("the server\n\tis tired\n"))
    assert isinstance(error, RetryableError)
    assert "the server is tired" in error.message
