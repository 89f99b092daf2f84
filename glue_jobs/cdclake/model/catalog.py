"""What a catalog of tables, such as the Glue Data Catalog, says of a lake table. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdclake.model.schema import Column

PartitionValues = tuple[str, ...]
"""Values of a partition, in the order of the partition columns, as its folders tell them but unescaped; null as
`HIVE_NULL_PARTITION`."""


@dataclass(frozen=True)
class Statistics:
    """How much there is of a table or a partition, of its data files."""

    rows: int = 0
    files: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class CatalogPartition:
    """One partition.

    Attributes:
        values: Tell it from the others.
        location: `s3://` URL of its folder, with a trailing slash.
        columns: As its table's.
        statistics: None: the catalog does not say.
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
        statistics: Of all partitions; None: the catalog does not say.
        source: `schema.table` that it shows; empty if cdclake did not make it.
        change: Number of the change that table and partitions are known to show; None if that is not known.
        left_out: Columns of the lake table that the catalog cannot take.
        parquet: Whether it is declared as an external table of plain Parquet.
        has_view: Whether a view of the rows that were not deleted goes with it.
        query: If it is a view and no table, the SQL that gives its rows, as Athena reads it.
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
    query: str = ""


@dataclass(frozen=True)
class CatalogEntry:
    """A table with all its partitions."""

    table: CatalogTable
    partitions: tuple[CatalogPartition, ...] = ()


@dataclass(frozen=True)
class CatalogName:
    """Where a table is in the catalog."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"

    @classmethod
    def parse(cls, text: str) -> CatalogName | None:
        """Inverse of `str`; None for an empty text."""
        database, _, table = text.partition(".")
        return cls(database, table) if table else None
