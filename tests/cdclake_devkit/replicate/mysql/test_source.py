"""A MariaDB source is read consistently, or refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from cdclake.errors import ConfigurationError, IntegrityError, RetryableError
from cdclake_cli.dms.settings import ParallelLoad
from cdclake_cli.sources.mysql.connection import ConnectionOptions, connect
from cdclake_cli.sources.positions import BinlogPosition
from tests.builders import eventually
from tests.cdclake_cli.sources.source_database import WITH_KEYS, MariadbDatabase

if TYPE_CHECKING:
    from pathlib import Path

    from cdclake_cli.dms.settings import DmsSettings
    from cdclake_devkit.shop.mariadb import PrivateMariadb

TABLE = "create table t (id int primary key, v int)"


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


def test_a_system_versioned_table_is_refused_and_can_be_left_out(source: MariadbDatabase):
    with pytest.raises(ConfigurationError, match="system-versioned") as caught:
        source.replicate_after(TABLE, "create table v (id int primary key) with system versioning")
    assert str(caught.value.details["table"]) == f"{source.schema}.v"
    source.replicate(only=("t",))


def test_a_wrong_password_is_refused_and_never_shown(source: MariadbDatabase):
    connection_options = replace(source.connection_options, password="s3cret")
    with pytest.raises(ConfigurationError, match="Access denied") as error:
        connect(connection_options)
    assert "s3cret" not in f"{error.value!r} {error.value} {connection_options!r}"


def test_an_unreachable_source_is_a_retryable_error(tmp_path: Path):
    with pytest.raises(RetryableError, match="returned an error"):
        connect(ConnectionOptions(user="x", socket=str(tmp_path / "none")))


@pytest.mark.parametrize(
    "settings",
    [
        replace(WITH_KEYS, parallel_load=ParallelLoad.SEGMENTS),
        replace(WITH_KEYS, header_columns=("AR_H_USER",)),
    ],
)
def test_unsupported_settings_are_refused(settings: DmsSettings):
    with pytest.raises(ConfigurationError, match="does not support"):
        MariadbDatabase(ConnectionOptions(), "shop").replication(settings)
