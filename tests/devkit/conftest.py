"""Fixtures for tests with a real MariaDB. Without a server the tests are skipped."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from cdclake.devkit.shop.mariadb import HOW_TO_INSTALL, PrivateMariadb, server_is_installed
from tests.devkit.replicate.source_database import SourceDatabase

if TYPE_CHECKING:
    from collections.abc import Iterator

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def mariadb() -> Iterator[PrivateMariadb]:
    """One server for all tests of a process."""
    if not server_is_installed():
        pytest.skip(f"There is no MariaDB server on this machine. {HOW_TO_INSTALL}")
    with PrivateMariadb() as server:
        yield server


@pytest.fixture
def source(mariadb: PrivateMariadb) -> Iterator[SourceDatabase]:
    """A new empty database, and a raw bucket in memory."""
    with SourceDatabase(mariadb.connection_options, f"shop{next(_NUMBERS)}") as database:
        yield database
