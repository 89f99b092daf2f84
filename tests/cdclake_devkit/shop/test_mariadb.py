"""The private MariaDB server accepts only its own user, and disturbs no other one."""

from __future__ import annotations

from contextlib import closing

import pymysql
import pytest

from cdclake.errors import ConfigurationError
from cdclake_cli.sources.mysql.connection import connect
from cdclake_devkit.shop import mariadb as module
from cdclake_devkit.shop.mariadb import PrivateMariadb

pytestmark = pytest.mark.database


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


def test_a_starting_server_keeps_the_temporary_tables_of_another(mariadb: PrivateMariadb):
    # A server deletes all temporary tables in its temporary folder at start, as leftovers of a crash.
    with closing(connect(mariadb.connection_options, database="mysql")) as connection, connection.cursor() as cursor:
        cursor.execute("create temporary table kept (number int) engine=aria")
        cursor.execute("insert into kept values (7)")
        with PrivateMariadb():
            cursor.execute("drop temporary table kept")


def test_a_missing_server_is_an_error_with_install_instructions(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "program", lambda *_: None)
    with pytest.raises(ConfigurationError, match="apt-get install"), PrivateMariadb():
        pass
