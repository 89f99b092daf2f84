"""Databases of the servers in `tests/servers.py`, as sources of a replication."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.cdclake_cli.sources.source_database import MariadbDatabase, PostgresDatabase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake_devkit.shop.mariadb import PrivateMariadb
    from cdclake_devkit.shop.postgresql import PrivatePostgresql

_NUMBERS = itertools.count(1)


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
