"""The private MariaDB server accepts only its own user, and always ends with its data deleted."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pymysql
import pytest

from cdclake.errors import ConfigurationError
from cdclake_cli.sources.mysql.connection import connect
from cdclake_devkit.shop import mariadb as module
from cdclake_devkit.shop.mariadb import PrivateMariadb

if TYPE_CHECKING:
    from cdclake_cli.sources.mysql.connection import ConnectionOptions

pytestmark = pytest.mark.database

_START_SERVER = """
from cdclake_devkit.shop.mariadb import PrivateMariadb
with PrivateMariadb() as server:
    print(server.connection_options.socket, flush=True)
    input()
"""


def test_the_server_accepts_connections_on_its_socket_and_on_a_loopback_port(mariadb: PrivateMariadb):
    options = mariadb.connection_options
    for settings in ({"unix_socket": options.socket}, {"host": "127.0.0.1", "port": options.port}):
        with closing(pymysql.connect(user=options.user, password=options.password, **settings)) as connection:
            assert "MariaDB" in connection.get_server_info()
    with closing(connect(options)) as connection, connection.cursor() as cursor:
        cursor.execute("select @@bind_address, @@session.time_zone")
        assert cursor.fetchone() == ("127.0.0.1", "+00:00")


@pytest.mark.parametrize("user", ["root", "mysql", "mariadb.sys", ""])
def test_a_connection_without_the_password_is_refused(mariadb: PrivateMariadb, user: str):
    with pytest.raises(pymysql.OperationalError, match="Access denied"):
        pymysql.connect(host="127.0.0.1", port=mariadb.connection_options.port, user=user)


def test_an_error_in_the_block_stops_the_server_and_deletes_its_data(mariadb: PrivateMariadb):
    def fail_inside() -> None:
        with PrivateMariadb() as server:
            used.append(server.connection_options)
            raise KeyboardInterrupt

    used: list[ConnectionOptions] = []
    with pytest.raises(KeyboardInterrupt):
        fail_inside()
    assert not Path(used[0].socket).parent.exists()
    assert used[0].port != mariadb.connection_options.port
    with pytest.raises(pymysql.OperationalError):
        pymysql.connect(host="127.0.0.1", port=used[0].port, user="x")


def test_a_starting_server_keeps_the_temporary_tables_of_another(mariadb: PrivateMariadb):
    # A server deletes all temporary tables in its temporary folder at start, as leftovers of a crash.
    with closing(connect(mariadb.connection_options, database="mysql")) as connection, connection.cursor() as cursor:
        cursor.execute("create temporary table kept (number int) engine=aria")
        cursor.execute("insert into kept values (7)")
        with PrivateMariadb():
            cursor.execute("drop temporary table kept")


@pytest.mark.usefixtures("mariadb")
def test_the_server_ends_with_the_process_that_started_it():
    with subprocess.Popen(
        [sys.executable, "-c", _START_SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip()).parent
        server = int((folder / "pid").read_text())
        process.kill()
    deadline = time.monotonic() + 20
    while Path(f"/proc/{server}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    shutil.rmtree(folder)


def test_a_missing_server_is_an_error_with_install_instructions(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "program", lambda *_: None)
    with pytest.raises(ConfigurationError, match="apt-get install"), PrivateMariadb():
        pass
