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
from cdclake.errors import ConfigurationError, IntegrityError, RetryableError
from cdclake_cli.dms.settings import DmsSettings
from cdclake_cli.sources.options import PASSWORD_VARIABLE
from cdclake_devkit.memory import MemoryStore
from cdclake_devkit.replicate import service
from cdclake_devkit.replicate.batch import Batch
from cdclake_devkit.replicate.progress import ProgressFile
from tests.builders import eventually
from tests.cdclake_cli.sources.source_database import WITH_KEYS, TestDatabase
from tests.dying_store import Death, DiedError, DyingStore

if TYPE_CHECKING:
    from pathlib import Path

    from cdclake_devkit.replicate.transactions import Transaction


TABLE = "create table t (id int primary key, v int)"
SCRIPT = (
    "insert into t values (10, 0), (11, 0)",
    "update t set id = id + 100 where id < 3",
    "begin", "update t set v = v + 1", "delete from t where id = 10", "insert into t values (10, 5)", "commit",
    "alter table t add column w int",
    "update t set w = id",
    "delete from t where id = 101",
)  # fmt: skip


pytestmark = pytest.mark.database


class Writer:
    """Inserts and deletes rows, and moves amounts between rows in transactions that keep the sum, until stopped."""

    def __init__(self, source: TestDatabase) -> None:
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
        with closing(self._source.connect()) as connection, connection.cursor() as cursor:
            while not self._stop.wait(0.001):
                number = self.transactions
                cursor.execute("begin")
                cursor.execute("update t set v = v - 1 where id = %s", (number % 50,))
                cursor.execute("update t set v = v + 1 where id = %s", ((number + 7) % 50,))
                cursor.execute("insert into t values (%s, 0)", (1000 + number,))
                cursor.execute("delete from t where id = %s", (1000 + number - 20,))
                cursor.execute("commit" if number % 5 else "rollback")
                self.transactions += 1


def accounts(source: TestDatabase) -> None:
    source.run(TABLE, *(f"insert into t values ({number}, 100)" for number in range(50)))


def test_a_full_load_is_consistent_and_changes_continue_from_it_under_concurrent_writes(source: TestDatabase):
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


def test_a_large_full_load_has_several_files_and_an_empty_table_none(source: TestDatabase):
    source.run(TABLE, "create table none (id int primary key)")
    source.fill("t", 50_000)
    source.replicate(replace(WITH_KEYS, max_file_size=100))
    keys = [stored.key for stored in source.raw.list(f"{source.schema}/")]
    assert keys == [f"{source.schema}/t/LOAD0000000{number}.parquet" for number in (1, 2, 3)]
    assert [row["id"] for row in source.loaded("t")] == list(range(1, 50_001))


def test_transaction_files_have_the_changes_of_all_tables_in_commit_order(source: TestDatabase):
    source.run("create table a (id int primary key)", "create table b (id int primary key)")
    settings = DmsSettings(preserve_transactions=True, cdc_path="changes")
    source.replicate(settings)
    source.run("begin", "insert into a values (1)", "insert into b values (2)", "insert into a values (3)", "commit")
    source.replicate_after("alter table a add column v int", "insert into a values (4, 5)", settings=settings)
    (file,) = source.raw.list("changes/CDC_TXN-")
    lines = (source.raw.get(file.key) or b"").decode().splitlines()
    schema = source.schema
    assert lines == [f"I,a,{schema},1", f"I,b,{schema},2", f"I,a,{schema},3", f"I,a,{schema},4,5"]
    assert list(source.raw.list(f"{schema}/")) == []


def test_nothing_is_lost_whichever_store_call_fails(source: TestDatabase):
    """A run fails at each store call in turn, before or after the call takes effect; then another run continues."""
    deaths = 0
    for carried_out in (False, True):
        for call in range(1, 100):
            source.raw = MemoryStore()
            source.replicate_after("drop table if exists t", TABLE, "insert into t values (1, 1), (2, 2), (3, 3)")
            source.run(*SCRIPT)
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


def test_a_failed_full_load_is_repeated_whichever_store_call_failed(source: TestDatabase):
    source.run(TABLE, "insert into t values (1, 1), (2, 2), (3, 3)")
    for carried_out in (False, True):
        for call in range(1, 4):
            source.raw = MemoryStore()
            dying = DyingStore(source.raw, Death(call, carried_out))
            with pytest.raises(DiedError):
                source.replication(raw=dying).run(lambda: False, until_now=True)
            source.replicate_after("update t set v = v + 1", f"insert into t values ({10 * call + carried_out}, 0)")
            assert source.merged("t") == source.rows("t")


@pytest.mark.sampled(ci=1)
def test_a_repeated_full_load_leaves_no_file_of_the_previous_one(source: TestDatabase):
    source.run(TABLE)
    source.fill("t", 50_000)
    small = replace(WITH_KEYS, max_file_size=200)
    source.replicate(small)
    source.replicate_after("delete from t where id > 10", settings=small)
    source.replication(small).run(lambda: False, reload=True, until_now=True)
    assert [stored.key for stored in source.raw.list(f"{source.schema}/")] == [
        f"{source.schema}/t/LOAD00000001.parquet"
    ]
    assert len(source.loaded("t")) == 10


def test_raw_files_of_another_writer_are_kept(source: TestDatabase):
    source.run(TABLE)
    source.raw.put(f"{source.schema}/t/LOAD00000001.parquet", b"theirs")
    with pytest.raises(ConfigurationError, match="did not write"):
        source.replicate()
    assert source.raw.get(f"{source.schema}/t/LOAD00000001.parquet") == b"theirs"


def test_files_are_written_during_a_run(source: TestDatabase):
    source.run(TABLE)
    with source.replicating(replace(WITH_KEYS, cdc_max_batch_interval=1)):
        assert eventually(lambda: source.raw.get(f"awsdms_stand_in/{source.source.database}.json") is not None)
        source.run("insert into t values (1, 1)")
        assert eventually(lambda: len(source.changed("t")) == 1)


def test_changes_that_were_read_are_written_when_a_run_is_stopped(
    source: TestDatabase, monkeypatch: pytest.MonkeyPatch
):
    source.replicate_after(TABLE)
    source.run("insert into t values (1, 1)")
    was_read = threading.Event()

    class WatchedBatch(Batch):
        def add(self, transaction: Transaction, now_utc: datetime) -> None:
            super().add(transaction, now_utc)
            if transaction.rows:
                was_read.set()

    monkeypatch.setattr(service, "Batch", WatchedBatch)
    source.replication(replace(WITH_KEYS, cdc_max_batch_interval=3600)).run(was_read.is_set)
    assert source.merged("t") == source.rows("t") == [{"id": 1, "v": 1}]


def test_change_file_names_increase_between_runs_though_the_clock_goes_back(source: TestDatabase):
    source.run(TABLE)
    for year in (2030, 2020):
        source.run(f"insert into t values ({year}, 0)")
        replication = source.replication()
        replication._clock = lambda: datetime(year, 1, 1, tzinfo=timezone.utc)  # noqa: B023 - used at once
        replication.run(lambda: False, until_now=True)
        source.run(f"insert into t values ({year + 1}, 0)")
        replication.run(lambda: False, until_now=True)
    assert [row["id"] for row in source.changed("t")] == [2031, 2020, 2021]


def test_a_position_of_another_server_is_refused(source: TestDatabase):
    source.replicate_after(TABLE)
    file = ProgressFile(source.raw, "", source.source.database)
    progress = file.read()
    assert progress is not None
    file.write(replace(progress, server="another"))
    with pytest.raises(IntegrityError, match="belongs to another server, another"):
        source.replicate()
    source.replication().run(lambda: False, reload=True, until_now=True)
    now = file.read()
    assert now is not None
    assert now.server == progress.server


def test_the_next_run_restarts_a_full_load_that_was_stopped(source: TestDatabase):
    source.run(TABLE, "create table u (id int primary key)", *(f"insert into t values ({n}, 1)" for n in range(3)))
    stop = iter([False])
    progress = source.replication().run(lambda: next(stop, True))
    assert progress.position is None
    assert source.loaded("t") == []
    source.replicate()
    assert source.merged("t") == source.rows("t")


def test_two_processes_never_run_one_replication(source: TestDatabase):
    accounts(source)

    attempts: list[TestDatabase] = []

    def try_another() -> bool:
        if not attempts:
            attempts.append(source)
            with pytest.raises(RetryableError, match="Another process runs this replication"):
                source.replicate()
        return True

    source.replication().run(try_another)
    source.replicate()
    assert source.merged("t") == source.rows("t")


class Command:
    """`cdclake local replicate` in a separate process, to a folder."""

    def __init__(self, source: TestDatabase, folder: Path) -> None:
        options = source.connection_options
        self._arguments = [
            *(sys.executable, "-c", "from cdclake_cli.main import main; main()", "local", "replicate"),
            *(source.source.database, "--engine", source.engine, "--user", str(options.user)),
            *("--socket", options.socket, "--port", str(options.port), "--folder", str(folder)),
            *("--set", "CdcMaxBatchInterval=1"),
        ]
        self._environment = {**os.environ, PASSWORD_VARIABLE: str(options.password)}

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._arguments, env=self._environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )


@pytest.mark.sampled(ci=1)
def test_the_command_continues_without_loss_after_kills(source: TestDatabase, tmp_path: Path):
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
