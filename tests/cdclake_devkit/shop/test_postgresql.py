"""The private PostgreSQL server accepts only its own user, and always ends with its data deleted."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg2
import pytest

from cdclake.errors import ConfigurationError, JobRunError
from cdclake_cli.sources.postgres.connection import connect, query
from cdclake_devkit.shop import postgresql as module
from cdclake_devkit.shop.postgresql import PrivatePostgresql
from tests.builders import eventually

if TYPE_CHECKING:
    from cdclake_cli.sources.postgres.connection import ConnectionOptions

pytestmark = pytest.mark.database

_START_SERVER = """
from cdclake_devkit.shop.postgresql import PrivatePostgresql
with PrivatePostgresql() as server:
    print(server.connection_options.socket, flush=True)
    input()
"""


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


def test_an_error_in_the_block_stops_the_server_and_deletes_its_data(postgresql: PrivatePostgresql):
    def fail_inside() -> None:
        with PrivatePostgresql() as server:
            used.append(server.connection_options)
            raise KeyboardInterrupt

    used: list[ConnectionOptions] = []
    with pytest.raises(KeyboardInterrupt):
        fail_inside()
    assert not Path(used[0].socket).exists()
    assert used[0].port != postgresql.connection_options.port
    with pytest.raises(psycopg2.OperationalError):
        psycopg2.connect(host="127.0.0.1", port=used[0].port, user="x", dbname="postgres")


@pytest.mark.usefixtures("postgresql")
def test_the_server_ends_with_the_process_that_started_it():
    with subprocess.Popen(
        [sys.executable, "-c", _START_SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        server = int((folder / "data" / "postmaster.pid").read_text().split("\n", 1)[0])
        process.kill()
    assert eventually(lambda: not Path(f"/proc/{server}").exists())
    shutil.rmtree(folder)


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
