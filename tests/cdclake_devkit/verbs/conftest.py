"""The command, run in this process."""

from tests.cdclake_cli.conftest import cdclake

__all__ = ["cdclake"]  # a fixture
