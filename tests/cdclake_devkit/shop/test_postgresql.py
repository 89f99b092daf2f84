"""The private PostgreSQL server accepts only its own user, and says why it does not start."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import psycopg2
import pytest

from cdclake.errors import ConfigurationError, JobRunError
from cdclake_cli.sources.postgres.connection import connect, query
from cdclake_devkit.shop import postgresql as module
from cdclake_devkit.shop.postgresql import PrivatePostgresql

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.database


def test_the_server_accepts_connections_on_its_socket_and_on_a_loopback_port(postgresql: PrivatePostgresql):
    options = postgresql.connection_options
    for host in (options.socket, "127.0.0.1"):
        settings = {**options.settings(), "host": host}
        with closing(psycopg2.connect(**settings, dbname="postgres")) as connection:
            assert query(connection, "select current_setting('wal_level')") == [("logical",)]
    with closing(connect(options, "postgres")) as connection:
        statement = "select current_setting('listen_addresses'), current_setting('timezone')"
        assert query(connection, statement) == [("127.0.0.1", "UTC")]


@pytest.mark.parametrize("user", ["cdclake", "postgres", "root"])
@pytest.mark.parametrize("host", ["socket", "127.0.0.1"])
def test_a_connection_without_the_password_is_refused(
    postgresql: PrivatePostgresql, user: str, host: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PGPASSFILE", "/nowhere")
    options = postgresql.connection_options
    address = options.socket if host == "socket" else host
    with pytest.raises(psycopg2.OperationalError, match="no password supplied"):
        psycopg2.connect(host=address, port=options.port, user=user, dbname="postgres")


def test_a_server_that_does_not_start_is_an_error_with_its_log():
    with (
        pytest.raises(JobRunError, match=r"PostgreSQL did not start: .*nonsense"),
        PrivatePostgresql(settings={"wal_level": "nonsense"}),
    ):
        pass


def test_a_missing_server_is_an_error_with_install_instructions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(module, "_folders", list)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="apt-get install"), PrivatePostgresql():
        pass


def test_the_newest_installed_version_is_used(tmp_path: Path):
    for version in ("9", "15", "11", "common"):
        (tmp_path / version / "bin").mkdir(parents=True)
    assert module._folders(str(tmp_path)) == [f"{tmp_path}/{version}/bin" for version in ("15", "11", "9")]
