"""A MySQL or MariaDB database whose rows are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdclake_cli.sources.mysql.catalog import MysqlCatalog
from cdclake_cli.sources.mysql.snapshot import snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from cdclake_cli.sources.mysql.connection import ConnectionOptions
    from cdclake_cli.sources.mysql.snapshot import MysqlSnapshot


@dataclass(frozen=True)
class MysqlSource:
    """A database, which MySQL also calls a schema. `Source` describes the methods."""

    options: ConnectionOptions
    database: str

    def snapshot(self, only: Sequence[str] = ()) -> AbstractContextManager[MysqlSnapshot]:
        """Open a snapshot of the database's tables."""
        return snapshot(self.options, self.database, only)

    @property
    def catalog(self) -> MysqlCatalog:
        """What the server's catalog says about the tables."""
        return MysqlCatalog(self.options, self.database)
