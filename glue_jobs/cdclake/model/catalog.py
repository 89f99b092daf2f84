"""Tables and partitions of a catalog, such as the Glue Data Catalog. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdclake.model.schema import Column

PartitionValues = tuple[str, ...]
"""Values of a partition in the order of the partition columns, as in its folder names but unescaped; null as
`HIVE_NULL_PARTITION`."""


@dataclass(frozen=True)
class Statistics:
    """Size of a table or a partition, summed over its data files."""

    rows: int = 0
    files: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class CatalogPartition:
    """One partition.

    Attributes:
        values: Identify the partition.
        location: `s3://` URL of its folder, with a trailing slash.
        columns: Same as its table's.
        statistics: None if the catalog has none.
        parquet: Whether it is declared as plain Parquet.
    """

    values: PartitionValues
    location: str
    columns: tuple[Column, ...]
    statistics: Statistics | None
    parquet: bool = True


@dataclass(frozen=True)
class CatalogTable:
    """One table.

    Attributes:
        location: `s3://` URL of its folder, with a trailing slash.
        columns: Names in lower case and types, without the partition columns.
        partition_columns: In order.
        statistics: Of all partitions; None if the catalog has none.
        source: `schema.table` that it shows; empty if cdclake did not create it.
        change: Number of the change that table and partitions show; None if unknown.
        left_out: Columns of the lake table that the catalog refuses.
        parquet: Whether it is declared as an external table of plain Parquet.
        has_view: Whether the catalog also has a view of the rows that are not deleted.
        has_iceberg: Whether the catalog also has an Iceberg table of the same files.
        has_history: Whether the catalog also has a table of its history.
        query: SQL of a view, in Athena's dialect; empty for a table.
        metadata_location: URL of the metadata of an Iceberg table; empty for another table.
    """

    location: str
    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...]
    statistics: Statistics | None
    source: str
    change: int | None
    left_out: tuple[str, ...] = ()
    parquet: bool = True
    has_view: bool = False
    has_iceberg: bool = False
    has_history: bool = False
    query: str = ""
    metadata_location: str = ""

    def is_ahead_of(self, update: CatalogTable) -> bool:
        """Whether this is an Iceberg table that shows a later change than an update, whose run must have paused."""
        return bool(self.metadata_location) and (self.change or 0) > (update.change or 0)


@dataclass(frozen=True)
class CatalogEntry:
    """A table with all its partitions."""

    table: CatalogTable
    partitions: tuple[CatalogPartition, ...] = ()


@dataclass(frozen=True)
class CatalogName:
    """Name of a table in the catalog."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"

    @classmethod
    def parse(cls, text: str) -> CatalogName | None:
        """Inverse of `str`; None for an empty text."""
        database, _, table = text.partition(".")
        return cls(database, table) if table else None
