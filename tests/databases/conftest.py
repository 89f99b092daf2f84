"""Databases for histories, and the counts of what the histories contained."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import psycopg2
import pytest

from tests.conftest import COUNTS
from tests.databases.postgresql import DATABASE
from tests.databases.replay import Tally

if TYPE_CHECKING:
    from collections.abc import Callable

    from cdclake_devkit.shop.postgresql import PrivatePostgresql


@pytest.fixture(scope="session")
def postgres_server(postgresql: PrivatePostgresql) -> PrivatePostgresql:
    """A PostgreSQL server with a database for histories, each of which has its own schema."""
    connection = psycopg2.connect(**postgresql.connection_options.settings(), dbname="postgres")
    with closing(connection):
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(f"create database {DATABASE}")
    return postgresql


@pytest.fixture
def tally(record_property: Callable[[str, object], None]) -> Tally:
    """Counts what a test's histories contain; the summary of all tests prints it."""
    tally = Tally()
    record_property(COUNTS, tally.counts)
    return tally
