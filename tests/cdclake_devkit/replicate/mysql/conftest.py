"""MariaDB alone."""

from tests.cdclake_cli.sources.conftest import source

__all__ = ["source"]  # a fixture
