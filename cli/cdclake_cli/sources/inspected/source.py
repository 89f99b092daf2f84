"""Any database that SQLAlchemy knows, to compare lake tables with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdclake_cli.sources.inspected.catalog import InspectedCatalog
from cdclake_cli.sources.inspected.snapshot import reading_snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from cdclake.model.table.name import TableName
    from cdclake_cli.sources.inspected.connection import Login
    from cdclake_cli.sources.inspected.snapshot import InspectedSnapshot


@dataclass(frozen=True)
class InspectedSource:
    """A database. `ComparedSource` describes the methods."""

    login: Login

    @property
    def catalog(self) -> InspectedCatalog:
        """What the database's catalog says about the tables."""
        return InspectedCatalog(self.login)

    def reading(self, names: Sequence[TableName]) -> AbstractContextManager[InspectedSnapshot]:
        """Open a snapshot that only reads."""
        return reading_snapshot(self.login, names)
