"""Private database servers, one of each for all tests of a process.

Without a server on this machine its tests are skipped, or fail if `CDCLAKE_NEEDS_DATABASES` is 1.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from cdclake_devkit.shop.mariadb import PrivateMariadb
from cdclake_devkit.shop.postgresql import PrivatePostgresql

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake_devkit.shop.private_server import PrivateServer


def _require_installed(server: type[PrivateServer]) -> None:
    if server.is_installed():
        return
    message = f"There is no {server.product} server on this machine. {server.how_to_install}"
    if os.environ.get("CDCLAKE_NEEDS_DATABASES") == "1":
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


@pytest.fixture(scope="session")
def mariadb() -> Iterator[PrivateMariadb]:
    """A MariaDB server."""
    _require_installed(PrivateMariadb)
    with PrivateMariadb() as server:
        yield server


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PrivatePostgresql]:
    """A PostgreSQL server."""
    _require_installed(PrivatePostgresql)
    with PrivatePostgresql() as server:
        yield server
