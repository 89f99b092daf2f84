"""The private MariaDB: there while it is needed, out of others' reach, and gone with its data whatever happens."""

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

from cdclake.devkit.replicate.connection import connect
from cdclake.devkit.shop import mariadb as module
from cdclake.devkit.shop.mariadb import PrivateMariadb
from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from cdclake.devkit.replicate.connection import ConnectionOptions

pytestmark = pytest.mark.database

_STARTS_ONE = """
from cdclake.devkit.shop.mariadb import PrivateMariadb
with PrivateMariadb() as server:
    print(server.connection_options.socket, flush=True)
    input()
"""


def test_it_answers_on_its_socket_and_on_a_port_of_the_loopback_device(mariadb: PrivateMariadb):
    options = mariadb.connection_options
    for settings in (
        {"unix_socket": options.socket},
        {"host": "127.0.0.1", "port": options.port},
    ):
        with closing(pymysql.connect(user=options.user, password=options.password, **settings)) as connection:
            assert "MariaDB" in connection.get_server_info()
    with closing(connect(options)) as connection, connection.cursor() as cursor:
        cursor.execute("select @@bind_address, @@session.time_zone")
        assert cursor.fetchone() == ("127.0.0.1", "+00:00")


@pytest.mark.parametrize("user", ["root", "mysql", "mariadb.sys", ""])
def test_nobody_gets_in_without_the_password(mariadb: PrivateMariadb, user: str):
    with pytest.raises(pymysql.OperationalError, match="Access denied"):
        pymysql.connect(host="127.0.0.1", port=mariadb.connection_options.port, user=user)


def test_nothing_of_it_is_left_when_the_block_is_left_by_an_error(mariadb: PrivateMariadb):
    def fail_inside() -> None:
        with PrivateMariadb() as server:
            accounts.append(server.connection_options)
            raise KeyboardInterrupt

    accounts: list[ConnectionOptions] = []
    with pytest.raises(KeyboardInterrupt):
        fail_inside()
    assert not Path(accounts[0].socket).parent.exists()
    assert accounts[0].port != mariadb.connection_options.port
    with pytest.raises(pymysql.OperationalError):
        pymysql.connect(host="127.0.0.1", port=accounts[0].port, user="x")


def test_a_server_that_starts_leaves_the_temporary_tables_of_another_alone(mariadb: PrivateMariadb):
    # A starting server removes every temporary table from its folder for them, as left by a server that died.
    with closing(connect(mariadb.connection_options, database="mysql")) as connection, connection.cursor() as cursor:
        cursor.execute("create temporary table kept (number int) engine=aria")
        cursor.execute("insert into kept values (7)")
        with PrivateMariadb():
            cursor.execute("drop temporary table kept")


@pytest.mark.usefixtures("mariadb")
def test_the_server_dies_with_the_process_that_started_it():
    with subprocess.Popen(
        [sys.executable, "-c", _STARTS_ONE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
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


def test_a_machine_without_a_server_is_told_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(module, "_FOLDERS", (str(tmp_path),))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="apt-get install"), PrivateMariadb():
        pass
