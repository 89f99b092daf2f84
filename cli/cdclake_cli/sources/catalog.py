"""What the catalog of a source database says about its tables, whichever server it is on. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from cdclake_cli.patterns import matches, parse_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cdclake.model.table.name import TableName


@dataclass(frozen=True)
class CatalogColumn:
    """A column of a source table.

    Attributes:
        declared: Its type, in the source's words.
        type: The lake type of the values that DMS sends; None if DMS does not support the type, or it is unknown.
        nullable: Whether a value may be null.
        may_be_unsent: Whether the source's log lacks values that an update does not change; they arrive as null.
    """

    name: str
    declared: str
    type: str | None
    nullable: bool = True
    comment: str = ""
    may_be_unsent: bool = False


@dataclass(frozen=True)
class UniqueIndex:
    """A unique index over columns, of all rows: not of expressions, and without a condition.

    Attributes:
        identifies: Whether the source's log identifies rows by it.
    """

    name: str
    columns: tuple[str, ...]
    identifies: bool = False


@dataclass(frozen=True)
class CatalogTable:
    """A table of a source database.

    Attributes:
        columns: Columns in the source's order.
        key: Columns of the primary key, in its order; empty for none.
        unique: Unique indexes besides it.
        unique_checks: When the source checks keys, as in the attribute `UniqueChecks`.
        notes: What is to know about its changes, a sentence each.
        added: Columns that mapping rules of DMS append, in order.
    """

    name: TableName
    columns: tuple[CatalogColumn, ...]
    key: tuple[str, ...] = ()
    unique: tuple[UniqueIndex, ...] = ()
    unique_checks: str = ""
    comment: str = ""
    notes: tuple[str, ...] = ()
    added: tuple[str, ...] = ()

    @property
    def usable_indexes(self) -> tuple[UniqueIndex, ...]:
        """The unique indexes that identify each row: none of their columns may be null."""
        nullable = {column.name for column in self.columns if column.nullable}
        return tuple(index for index in self.unique if nullable.isdisjoint(index.columns))


class Catalog(Protocol):
    """The catalog of a source database."""

    def tables(self, patterns: Sequence[str] = ()) -> tuple[CatalogTable, ...]:
        """The tables that patterns select, by name, without views, temporary tables and those of the system.

        Args:
            patterns: Patterns of names; see `is_chosen`.

        Raises:
            ConfigurationError: The source refuses access.
            RetryableError: The source cannot be reached.
        """


def is_chosen(name: TableName, patterns: Iterable[str]) -> bool:
    """Whether a table has a name, or a pattern such as `shop.*` matches it; without patterns, every table is chosen."""
    parsed = [parse_pattern(pattern) for pattern in patterns]
    return not parsed or any(name == pattern or matches(name, pattern) for pattern in parsed)
