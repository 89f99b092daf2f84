"""A catalog in memory, for tests and experiments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.errors import RetryableError
from cdclake.model.catalog import CatalogEntry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cdclake.model.catalog import CatalogPartition, CatalogTable, PartitionValues


class MemoryCatalog:
    """A `Catalog` in memory. Like Glue, it refuses to create what exists and to update what does not."""

    def __init__(self, database: str = "lake") -> None:
        self.database = database
        self._tables: dict[str, CatalogTable] = {}
        self._partitions: dict[str, dict[PartitionValues, CatalogPartition]] = {}

    @property
    def names(self) -> set[str]:
        """Names of the tables."""
        return set(self._tables)

    def listing(self, name: str) -> CatalogEntry:
        """An existing table with its partitions, by their values."""
        partitions = self._partitions[name]
        return CatalogEntry(self._tables[name], tuple(partitions[values] for values in sorted(partitions)))

    def table(self, name: str) -> CatalogTable | None:
        """A table; None if it does not exist."""
        return self._tables.get(name)

    def partitions(self, name: str) -> Iterator[CatalogPartition]:
        """All partitions of an existing table, in any order."""
        return iter(list(self._partitions[name].values()))

    def create_table(self, name: str, table: CatalogTable) -> None:
        """Create a table that does not exist."""
        _require(name not in self._tables, "The table already exists", name)
        self._tables[name], self._partitions[name] = table, {}

    def update_table(self, name: str, table: CatalogTable) -> None:
        """Update an existing table. An Iceberg table that shows a later change stays as it is."""
        _require(name in self._tables, "The table does not exist", name)
        if not self._tables[name].is_ahead_of(table):
            self._tables[name] = table

    def drop_table(self, name: str) -> None:
        """Drop a table and its partitions; an absent table is no error. Data is not touched."""
        self._tables.pop(name, None)
        self._partitions.pop(name, None)

    def create_partitions(self, name: str, partitions: Sequence[CatalogPartition]) -> None:
        """Create any number of partitions that do not exist."""
        for partition in partitions:
            _require(partition.values not in self._partitions[name], "The partition already exists", name)
            self._partitions[name][partition.values] = partition

    def update_partitions(self, name: str, partitions: Sequence[CatalogPartition]) -> None:
        """Update any number of existing partitions."""
        for partition in partitions:
            _require(partition.values in self._partitions[name], "The partition does not exist", name)
            self._partitions[name][partition.values] = partition

    def drop_partitions(self, name: str, partitions: Sequence[PartitionValues]) -> None:
        """Drop any number of partitions; an absent partition is no error. Data is not touched."""
        for values in partitions:
            self._partitions[name].pop(values, None)


def _require(condition: bool, message: str, name: str) -> None:
    if not condition:
        raise RetryableError(message, remedy="Compare the catalog again", catalog_table=name)
