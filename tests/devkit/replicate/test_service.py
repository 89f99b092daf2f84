"""Full load and ongoing replication lose nothing, under concurrent writes and after crashes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest

from cdclake.adapters.folder import FolderStore
from cdclake.adapters.memory import MemoryStore
from cdclake.cli.source_database import PASSWORD_VARIABLE
from cdclake.devkit.replicate.mysql.connection import ConnectionOptions, connect
from cdclake.devkit.replicate.progress import BinlogPosition, ProgressFile
from cdclake.errors import ConfigurationError, IntegrityError, RetryableError
from tests.builders import eventually
from tests.devkit.replicate.source_database import WITH_KEYS, MariadbDatabase
from tests.dying_store import Death, DiedError, DyingStore

if TYPE_CHECKING:
    from pathlib import Path

    from cdclake.devkit.dms.settings import DmsSettings
    from cdclake.devkit.shop.mariadb import PrivateMariadb

TABLE = "create table t (id int primary key, v int)"
SCRIPT = (
    "insert into t values (10, 0), (11, 0)",
    "update t set id = id + 100 where id < 3",
    "begin", "update t set v = v + 1", "delete from t where id = 10", "insert into t values (10, 5)", "commit",
    "alter table t add column w int",
    "update t set w = id",
    "delete from t where id = 101",
)  # fmt: skip


class Writer:
    """Inserts and deletes rows, and moves amounts between rows in transactions that keep the sum, until stopped."""

    def __init__(self, source: MariadbDatabase) -> None:
        self._source = source
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.transactions = 0

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        connection = connect(self._source.connection_options, database=self._source.schema)
        with closing(connection), connection.cursor() as cursor:
            while not self._stop.wait(0.001):
                number = self.transactions
                cursor.execute("begin")
                cursor.execute("update t set v = v - 1 where id = %s", (number % 50,))
                cursor.execute("update t set v = v + 1 where id = %s", ((number + 7) % 50,))
                cursor.execute("insert into t values (%s, 0)", (1000 + number,))
                cursor.execute("delete from t where id = %s", (1000 + number - 20,))
                cursor.execute("commit" if number % 5 else "rollback")
                self.transactions += 1


def accounts(source: MariadbDatabase) -> None:
    source.run(TABLE, *(f"insert into t values ({number}, 100)" for number in range(50)))


def test_a_full_load_is_consistent_and_changes_continue_from_it_under_concurrent_writes(source: MariadbDatabase):
    accounts(source)
    with Writer(source) as writer:
        assert eventually(lambda: writer.transactions > 20)
        source.replicate(replace(WITH_KEYS, max_file_size=1))
        seen = writer.transactions
        source.replicate()
        assert eventually(lambda: writer.transactions > seen + 20)
        source.replicate()
    source.replicate()
    assert sum(row["v"] for row in source.loaded("t")) == 5000
    assert source.merged("t") == source.rows("t")
    # No change from before the full load, and none that rolled back.
    assert len([row for row in source.changed("t") if row["Op"] == "I"]) == len(
        {row["id"] for row in source.changed("t") if row["Op"] == "I"} - {row["id"] for row in source.loaded("t")}
    )


def test_a_large_full_load_has_several_files_and_an_empty_table_none(source: MariadbDatabase):
    source.run(TABLE, "create table none (id int primary key)", "insert into t select seq, seq from seq_1_to_50000")
    source.replicate(replace(WITH_KEYS, max_file_size=100))
    keys = [stored.key for stored in source.raw.list(f"{source.schema}/")]
    assert keys == [f"{source.schema}/t/LOAD0000000{number}.parquet" for number in (1, 2, 3)]
    assert [row["id"] for row in source.loaded("t")] == list(range(1, 50_001))


def test_nothing_is_lost_whichever_store_call_fails(source: MariadbDatabase):
    """A run fails at each store call in turn, before or after the call takes effect; then another run continues."""
    source.replicate_after(TABLE, "insert into t values (1, 1), (2, 2), (3, 3)")
    source.run(*SCRIPT)
    begin = {stored.key: source.raw.get(stored.key) for stored in source.raw.list("")}
    deaths = 0
    for carried_out in (False, True):
        for call in range(1, 100):
            source.raw = MemoryStore()
            for key, data in begin.items():
                source.raw.put(key, data or b"")
            dying = DyingStore(source.raw, Death(call, carried_out))
            try:
                source.replication(raw=dying).run(lambda: False, until_now=True)
            except DiedError:
                deaths += 1
            source.replicate()
            assert source.merged("t") == source.rows("t")
            if dying._calls < call:
                break
    assert deaths == 6  # two files, for the old and the new columns, and the position; each twice


def test_a_failed_full_load_is_repeated_whichever_store_call_failed(source: MariadbDatabase):
    source.run(TABLE, "insert into t values (1, 1), (2, 2), (3, 3)")
    for carried_out in (False, True):
        for call in range(1, 4):
            source.raw = MemoryStore()
            dying = DyingStore(source.raw, Death(call, carried_out))
            with pytest.raises(DiedError):
                source.replication(raw=dying).run(lambda: False, until_now=True)
            source.replicate_after("update t set v = v + 1", f"insert into t values ({10 * call + carried_out}, 0)")
            assert source.merged("t") == source.rows("t")


def test_a_repeated_full_load_leaves_no_file_of_the_previous_one(source: MariadbDatabase):
    source.run(TABLE, "insert into t select seq, seq from seq_1_to_50000")
    small = replace(WITH_KEYS, max_file_size=200)
    source.replicate(small)
    source.replicate_after("delete from t where id > 10", settings=small)
    source.replication(small).run(lambda: False, reload=True, until_now=True)
    assert [stored.key for stored in source.raw.list(f"{source.schema}/")] == [
        f"{source.schema}/t/LOAD00000001.parquet"
    ]
    assert len(source.loaded("t")) == 10


def test_raw_files_of_another_writer_are_kept(source: MariadbDatabase):
    source.run(TABLE)
    source.raw.put(f"{source.schema}/t/LOAD00000001.parquet", b"theirs")
    with pytest.raises(ConfigurationError, match="did not write"):
        source.replicate()
    assert source.raw.get(f"{source.schema}/t/LOAD00000001.parquet") == b"theirs"


def test_files_are_written_during_a_run_and_when_it_is_stopped(source: MariadbDatabase):
    source.run(TABLE)
    stop = threading.Event()
    running = source.replication(replace(WITH_KEYS, cdc_max_batch_interval=1))
    thread = threading.Thread(target=running.run, args=(stop.is_set,))
    thread.start()
    try:
        assert eventually(lambda: source.raw.get(f"awsdms_stand_in/{source.schema}.json") is not None)
        source.run("insert into t values (1, 1)")
        assert eventually(lambda: len(source.changed("t")) == 1)
        source.run("insert into t values (2, 2)")
    finally:
        stop.set()
        thread.join()
    assert source.merged("t") == source.rows("t")


def test_change_file_names_increase_between_runs_though_the_clock_goes_back(source: MariadbDatabase):
    source.run(TABLE)
    for year in (2030, 2020):
        source.run(f"insert into t values ({year}, 0)")
        replication = source.replication()
        replication._clock = lambda: datetime(year, 1, 1, tzinfo=timezone.utc)  # noqa: B023 - used at once
        replication.run(lambda: False, until_now=True)
        source.run(f"insert into t values ({year + 1}, 0)")
        replication.run(lambda: False, until_now=True)
    assert [row["id"] for row in source.changed("t")] == [2031, 2020, 2021]


def test_a_purged_binlog_is_an_error_until_the_full_load_is_repeated(source: MariadbDatabase):
    source.run(TABLE)
    before = source.replicate()
    assert isinstance(before.position, BinlogPosition)
    source.run("flush binary logs", "insert into t values (1, 1)")
    ((newest, *_),) = source.query("show master status")

    def is_purged() -> bool:
        source.run(f"purge binary logs to '{newest}'")  # not while the last reader has it open
        return len(source.query("show binary logs")) == 1

    assert eventually(is_purged)
    with pytest.raises(IntegrityError, match=before.position.file):
        source.replicate()
    source.replication().run(lambda: False, reload=True, until_now=True)
    assert source.merged("t") == source.rows("t")


def test_a_position_of_another_server_is_refused(source: MariadbDatabase):
    source.replicate_after(TABLE)
    file = ProgressFile(source.raw, "", source.schema)
    progress = file.read()
    assert progress is not None
    file.write(replace(progress, server="another"))
    with pytest.raises(IntegrityError, match="belongs to another server, another"):
        source.replicate()
    source.replication().run(lambda: False, reload=True, until_now=True)
    assert file.read() == progress


def test_two_databases_of_one_server_share_a_bucket(source: MariadbDatabase, mariadb: PrivateMariadb):
    with MariadbDatabase(mariadb.connection_options, f"{source.schema}other") as other:
        other.raw = source.raw
        for database in (source, other):
            database.run(TABLE)
            database.replicate()
            database.run("insert into t values (1, 1)")
        for database in (source, other):
            database.replicate()
            assert database.merged("t") == database.rows("t")


def test_a_table_altered_during_a_read_is_a_retryable_error(source: MariadbDatabase):
    source.run(TABLE, "insert into t values (1, 1)")
    with source.source.snapshot() as before:
        source.run("alter table t modify v bigint")
        with pytest.raises(RetryableError, match="altered while it was read"):
            list(before.rows(before.tables[0]))


@pytest.mark.parametrize("name", ["binlog_format", "binlog_row_image", "binlog_row_metadata"])
def test_a_source_with_an_incomplete_binlog_is_refused(source: MariadbDatabase, name: str):
    wrong = {"binlog_format": "MIXED", "binlog_row_image": "MINIMAL", "binlog_row_metadata": "MINIMAL"}
    source.run(TABLE)
    ((before,),) = source.query(f"select @@global.{name}")
    source.run(f"set global {name} = '{wrong[name]}'")
    try:
        with pytest.raises(ConfigurationError, match=f"{name} = {wrong[name]}"):
            source.replicate()
    finally:
        source.run(f"set global {name} = '{before}'")
    assert list(source.raw.list("")) == []


def test_an_unknown_table_or_database_is_refused(source: MariadbDatabase):
    with pytest.raises(ConfigurationError, match="has no table nothing"):
        source.replicate_after(TABLE, only=("t", "nothing"))
    source.schema = "nowhere"
    with pytest.raises(ConfigurationError, match="nowhere"):
        source.replicate()
    source.schema = source.query("select database()")[0][0]


@pytest.mark.parametrize("name", ["a/b", "..", "."])
def test_a_table_whose_name_cannot_be_a_folder_is_refused(source: MariadbDatabase, name: str):
    source.replicate_after(TABLE)
    with pytest.raises(ConfigurationError, match="cannot be a folder"):
        source.replicate_after(f"create table `{name}` (id int primary key)", f"insert into `{name}` values (1)")
    source.raw = MemoryStore()
    with pytest.raises(ConfigurationError, match="cannot be a folder"):
        source.replicate()
    assert list(source.raw.list("")) == []
    source.replicate(only=("t",))


def test_a_system_versioned_table_is_refused_and_can_be_left_out(source: MariadbDatabase):
    with pytest.raises(ConfigurationError, match="system-versioned") as caught:
        source.replicate_after(TABLE, "create table v (id int primary key) with system versioning")
    assert str(caught.value.details["table"]) == f"{source.schema}.v"
    source.replicate(only=("t",))


def test_the_next_run_restarts_a_full_load_that_was_stopped(source: MariadbDatabase):
    source.run(TABLE, "create table u (id int primary key)", *(f"insert into t values ({n}, 1)" for n in range(3)))
    stop = iter([False])
    progress = source.replication().run(lambda: next(stop, True))
    assert progress.position is None
    assert source.loaded("t") == []
    source.replicate()
    assert source.merged("t") == source.rows("t")


def test_two_processes_never_run_one_replication(source: MariadbDatabase):
    accounts(source)

    attempts: list[MariadbDatabase] = []

    def try_another() -> bool:
        if not attempts:
            attempts.append(source)
            with pytest.raises(RetryableError, match="Another process runs this replication"):
                source.replicate()
        return True

    source.replication().run(try_another)
    source.replicate()
    assert source.merged("t") == source.rows("t")


@pytest.mark.parametrize(
    "settings",
    [
        replace(WITH_KEYS, preserve_transactions=True, cdc_path="changes"),
        replace(WITH_KEYS, header_columns=("AR_H_USER",)),
    ],
)
def test_unsupported_settings_are_refused(settings: DmsSettings):
    with pytest.raises(ConfigurationError, match="does not support"):
        MariadbDatabase(ConnectionOptions(), "shop").replication(settings)


def test_a_wrong_password_is_refused_and_never_shown(source: MariadbDatabase):
    connection_options = replace(source.connection_options, password="s3cret")
    with pytest.raises(ConfigurationError, match="Access denied") as error:
        connect(connection_options)
    assert "s3cret" not in f"{error.value!r} {error.value} {connection_options!r}"


def test_an_unreachable_source_is_a_retryable_error(tmp_path: Path):
    with pytest.raises(RetryableError, match="returned an error"):
        connect(ConnectionOptions(user="x", socket=str(tmp_path / "none")))


class Command:
    """`cdclake local replicate` in a separate process, to a folder."""

    def __init__(self, source: MariadbDatabase, folder: Path) -> None:
        connection_options = source.connection_options
        self._arguments = [
            *(sys.executable, "-c", "from cdclake.cli.main import main; main()", "local", "replicate", source.schema),
            *("--user", str(connection_options.user), "--socket", connection_options.socket, "--folder", str(folder)),
            *("--set", "CdcMaxBatchInterval=1"),
        ]
        self._environment = {**os.environ, PASSWORD_VARIABLE: str(connection_options.password)}

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._arguments, env=self._environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )


def test_the_command_continues_without_loss_after_kills(source: MariadbDatabase, tmp_path: Path):
    accounts(source)
    source.raw = FolderStore(tmp_path)
    command = Command(source, tmp_path)
    with Writer(source):
        for kills in range(2):
            with command.start() as process:
                files = len(source.change_files("t"))
                assert eventually(lambda: len(source.change_files("t")) > files)  # noqa: B023 - used at once
                time.sleep(0.3 * kills)
                process.kill()
    with command.start() as process:
        files = len(source.change_files("t"))
        assert eventually(lambda: source.merged("t") == source.rows("t"))
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=30)
    assert process.returncode == 0, log
    assert source.merged("t") == source.rows("t")
    assert str(source.connection_options.password) not in log
