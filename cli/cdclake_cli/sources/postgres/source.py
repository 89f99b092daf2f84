"""A PostgreSQL database whose rows are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdclake_cli.sources.postgres.catalog import PostgresCatalog
from cdclake_cli.sources.postgres.snapshot import snapshot
from cdclake_cli.sources.postgres.types import DEFAULT_MAPPING, TypeMapping

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from cdclake.model.table.name import TableName
    from cdclake_cli.sources.postgres.connection import ConnectionOptions
    from cdclake_cli.sources.postgres.snapshot import PostgresSnapshot


@dataclass(frozen=True)
class PostgresSource:
    """A database with all of its schemas. `Source` describes the methods."""

    options: ConnectionOptions
    database: str
    mapping: TypeMapping = DEFAULT_MAPPING

    def snapshot(self, only: Sequence[str] = ()) -> AbstractContextManager[PostgresSnapshot]:
        """Open a snapshot of the database's tables."""
        return snapshot(self.options, self.database, only, self.mapping)

    def reading(self, names: Sequence[TableName]) -> AbstractContextManager[PostgresSnapshot]:
        """Open a snapshot that only reads. `ComparedSource` describes the method."""
        return self.snapshot([f"{name.schema}/{name.table}" for name in names])

    @property
    def catalog(self) -> PostgresCatalog:
        """What the database's catalog says about the tables."""
        return PostgresCatalog(self.options, self.database, self.mapping)
