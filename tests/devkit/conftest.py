"""Fixtures for tests with real databases. Without a server, its tests are skipped."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from cdclake.devkit.shop.mariadb import PrivateMariadb
from cdclake.devkit.shop.postgresql import PrivatePostgresql
from tests.devkit.replicate.source_database import MariadbDatabase, PostgresDatabase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake.devkit.shop.private_server import PrivateServer

_NUMBERS = itertools.count(1)


def _skip_unless_installed(server: type[PrivateServer]) -> None:
    if not server.is_installed():
        pytest.skip(f"There is no {server.product} server on this machine. {server.how_to_install}")


@pytest.fixture(scope="session")
def mariadb() -> Iterator[PrivateMariadb]:
    """One server for all tests of a process."""
    _skip_unless_installed(PrivateMariadb)
    with PrivateMariadb() as server:
        yield server


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PrivatePostgresql]:
    """One server for all tests of a process."""
    _skip_unless_installed(PrivatePostgresql)
    with PrivatePostgresql() as server:
        yield server


@pytest.fixture
def mariadb_database(mariadb: PrivateMariadb) -> Iterator[MariadbDatabase]:
    """A new empty MariaDB database, and a raw bucket in memory."""
    with MariadbDatabase(mariadb.connection_options, f"shop{next(_NUMBERS)}") as database:
        yield database


@pytest.fixture
def source(mariadb_database: MariadbDatabase) -> MariadbDatabase:
    """The same, for tests of MariaDB alone."""
    return mariadb_database


@pytest.fixture
def postgres(postgresql: PrivatePostgresql) -> Iterator[PostgresDatabase]:
    """A new empty PostgreSQL database, and a raw bucket in memory."""
    with PostgresDatabase(postgresql.connection_options, f"shop{next(_NUMBERS)}") as database:
        yield database
