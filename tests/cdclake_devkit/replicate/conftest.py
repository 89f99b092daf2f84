"""The source databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cdclake_cli.sources.conftest import mariadb_database, postgres

if TYPE_CHECKING:
    from tests.cdclake_cli.sources.source_database import TestDatabase

__all__ = ["mariadb_database", "postgres"]  # fixtures


@pytest.fixture(params=["mariadb_database", "postgres"])
def source(request: pytest.FixtureRequest) -> TestDatabase:
    """A new empty database of each kind, and a raw bucket in memory."""
    database: TestDatabase = request.getfixturevalue(request.param)
    return database
