"""The source databases."""

from tests.cdclake_cli.sources.conftest import mariadb_database, postgres, source

__all__ = ["mariadb_database", "postgres", "source"]  # fixtures
