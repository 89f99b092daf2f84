"""A MySQL or MariaDB database whose rows are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError
from cdclake_cli.sources.mysql.catalog import MysqlCatalog
from cdclake_cli.sources.mysql.snapshot import reading_snapshot, snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from cdclake.model.table.name import TableName
    from cdclake_cli.sources.mysql.connection import ConnectionOptions
    from cdclake_cli.sources.mysql.snapshot import FirstMysqlSnapshot, MysqlSnapshot


@dataclass(frozen=True)
class MysqlSource:
    """A database, which MySQL also calls a schema. `Source` describes the methods."""

    options: ConnectionOptions
    database: str

    def snapshot(self, only: Sequence[str] = ()) -> AbstractContextManager[FirstMysqlSnapshot]:
        """Open a snapshot of the database's tables."""
        return snapshot(self.options, self.database, only)

    def reading(self, names: Sequence[TableName]) -> AbstractContextManager[MysqlSnapshot]:
        """Open a snapshot that only reads. `ComparedSource` describes the method."""
        foreign = [str(name) for name in names if name.schema != self.database]
        if foreign:
            message = f"The source database {self.database} has no table {', '.join(foreign)}"
            raise ConfigurationError(message, remedy="Of MySQL, the schema is the database; name it in the URL")
        return reading_snapshot(self.options, self.database, [name.table for name in names])

    @property
    def catalog(self) -> MysqlCatalog:
        """What the server's catalog says about the tables."""
        return MysqlCatalog(self.options, self.database)
