"""What the catalog should say of a lake table, and what to change so that it does. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError
from cdclake.model import position
from cdclake.model.catalog import CatalogEntry, CatalogPartition, CatalogTable, Statistics
from cdclake.model.names import Attribute
from cdclake.model.schema import HIVE_NULL_PARTITION, OP_COLUMN, Column

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cdclake.model.catalog import CatalogName, PartitionValues
    from cdclake.model.layout import LakeLayout
    from cdclake.model.snapshot import DataFile, Snapshot
    from cdclake.model.table import TableName

MAX_NAME_BYTES = 255
"""https://docs.aws.amazon.com/athena/latest/ug/tables-databases-columns-names.html"""
_UNUSUAL = re.compile(r"[^a-z0-9_]")
_TAKEN = re.compile(r"[^,\x00-\x1f\x7f\ud800-\udfff\ufffe\uffff]+")
"""Glue takes one line of text; Hive, and Trino after it, separate columns by commas, and trim spaces."""
LIVE_SUFFIX = "_live"
"""What the view of a table's live rows has after the table's name."""
LIVE_ROWS_SUFFIX = " (live rows)"
"""What the view has after the source of the table, so that neither is taken for the other."""
ADDED = (Column(OP_COLUMN.lower(), "string"), Column(position.COLUMN, "string"))
"""Columns of every data file of a lake table beside the source's."""


def table_name(name: TableName, chosen: str = "") -> str:
    """Name of a lake table in the catalog: `<schema>_<table>`, in lower case, with `_` for what Athena does not take.

    Args:
        name: The source table.
        chosen: The name that a person chose in place of it; empty for none.

    Raises:
        ConfigurationError: It is too long, or the chosen one is not as Athena takes names.
    """
    made = chosen or _UNUSUAL.sub("_", "_".join(filter(None, (name.schema, name.table))).lower())
    if _UNUSUAL.search(made) or len(made) > MAX_NAME_BYTES:
        message = f"'{made}' cannot be the name of a table in the catalog"
        remedy = f"Set {Attribute.CATALOG_TABLE} to at most {MAX_NAME_BYTES} of a-z, 0-9 and _"
        raise ConfigurationError(message, remedy=remedy, table=name)
    return made


def catalog_entry(
    snapshot: Snapshot, layout: LakeLayout, added: tuple[Column, ...] = ADDED, *, has_view: bool = False
) -> CatalogEntry:
    """What the catalog should say of a lake table.

    Columns that the catalog cannot take are left out, and named in the table's `left_out`.

    Args:
        snapshot: The lake table; there must be one.
        layout: Where it lies.
        added: Columns of its files beside those of its schema.
        has_view: Whether a view of its live rows goes with it.

    Raises:
        ConfigurationError: The catalog cannot take a partition column, or files of one partition lie in two folders.
    """
    folders = {name.lower() for name in snapshot.partition_key}
    wanted = [column for column in snapshot.schema if column.name.lower() not in folders]
    columns = (*(_lower(column) for column in wanted if _can_be_taken(column.name)), *added)
    location = f"s3://{layout.bucket}/{layout.table_prefix}"
    table = CatalogTable(
        location=location,
        columns=columns,
        partition_columns=tuple(_partition_column(snapshot, layout, name) for name in snapshot.partition_key),
        statistics=_statistics(snapshot.files),
        source=str(layout.name),
        change=snapshot.change,
        left_out=tuple(column.name for column in wanted if not _can_be_taken(column.name)),
        has_view=has_view,
    )
    files: dict[PartitionValues, list[DataFile]] = defaultdict(list)
    for file in snapshot.files if snapshot.partition_key else ():
        files[tuple(value or HIVE_NULL_PARTITION for value in file.partition)].append(file)
    partitions = (
        CatalogPartition(values, location + _folder(those, layout), columns, _statistics(those))
        for values, those in files.items()
    )
    return CatalogEntry(table, tuple(partitions))


def live_view(table: CatalogTable, name: CatalogName) -> CatalogTable:
    """A view of the rows of a lake table that were not deleted, with all its columns.

    A file that was adopted may lack operations; its rows are live.

    Args:
        table: The lake table in the catalog.
        name: Where it is there.
    """
    columns = (*table.columns, *table.partition_columns)
    names = ", ".join(_quoted(column.name) for column in columns)
    where = f"{_quoted(OP_COLUMN.lower())} IS DISTINCT FROM 'D'"
    return CatalogTable(
        location="",
        columns=columns,
        partition_columns=(),
        statistics=None,
        source=table.source + LIVE_ROWS_SUFFIX,
        change=None,
        parquet=False,
        query=f"SELECT {names} FROM {_quoted(name.database)}.{_quoted(name.table)} WHERE {where}",
    )


def _quoted(name: str) -> str:
    """A name as SQL reads it, whatever it holds."""
    return '"{}"'.format(name.replace('"', '""'))


def emptied(table: CatalogTable, change: int) -> CatalogEntry:
    """A table whose every change was undone: it stays, with its columns, and shows nothing."""
    return CatalogEntry(replace(table, statistics=Statistics(), change=change))


@dataclass(frozen=True)
class CatalogPlan:
    """What brings the catalog in line, in this order. Inert.

    Attributes:
        drop_table: The table is partitioned by other columns, which cannot be changed.
        create_table: As this, without a change: so a run that dies before the end is noticed.
        create: Partitions that are missing.
        update: Partitions that are otherwise.
        drop: Partitions that are not there any more.
        update_table: As this, with the change.
    """

    drop_table: bool
    create_table: CatalogTable | None
    create: tuple[CatalogPartition, ...]
    update: tuple[CatalogPartition, ...]
    drop: tuple[PartitionValues, ...]
    update_table: CatalogTable | None


def plan_catalog(wanted: CatalogEntry, found: CatalogEntry | None) -> CatalogPlan:
    """What has to be done so that the catalog says what is wanted.

    The table itself is updated last: a run that dies before that leaves a table that does not claim to show the
    change, and readers find the partitions of a new column's rows with that column.

    Args:
        wanted: From `catalog_entry` or `emptied`.
        found: What the catalog says; None if it has no such table.
    """
    drop_table = found is not None and _names(found.table) != _names(wanted.table)
    kept = None if drop_table else found
    before = {partition.values: partition for partition in kept.partitions} if kept else {}
    after = {partition.values: partition for partition in wanted.partitions}
    doomed = found.partitions if found and drop_table else before.values()
    return CatalogPlan(
        drop_table=drop_table,
        create_table=None if kept else replace(wanted.table, change=None),
        create=tuple(one for values, one in after.items() if values not in before),
        update=tuple(one for values, one in after.items() if values in before and before[values] != one),
        drop=tuple(one.values for one in doomed if drop_table or one.values not in after),
        update_table=None if kept and kept.table == wanted.table else wanted.table,
    )


def _names(table: CatalogTable) -> list[str]:
    return [column.name for column in table.partition_columns]


def _statistics(files: Iterable[DataFile]) -> Statistics:
    those = list(files)
    return Statistics(sum(file.rows for file in those), len(those), sum(file.bytes for file in those))


def _folder(files: Iterable[DataFile], layout: LakeLayout) -> str:
    """Folder of a partition's files: the one they lie in, as files that were adopted may be escaped in another way."""
    folders = sorted({f"{file.path.rpartition('/')[0]}/" for file in files})
    if len(folders) > 1:
        message = f"Rows of one partition lie in the folders {' and '.join(folders)}, and the catalog takes one"
        raise ConfigurationError(message, remedy="Have DMS load the table anew", table=layout.name)
    return folders[0]


def _partition_column(snapshot: Snapshot, layout: LakeLayout, name: str) -> Column:
    """A partition column. Bytes have no form that readers parse, so they are declared as the text that they are."""
    column = snapshot.schema.find(name)
    if column is None or not _can_be_taken(name):
        message = f"The catalog cannot take the partition column {name!r}"
        remedy = f"Set {Attribute.PARTITION_KEY} to other columns and have DMS load the table anew"
        raise ConfigurationError(message, remedy=remedy, table=layout.name)
    return _lower(Column(name, "string" if column.type == "binary" else column.type))


def _can_be_taken(name: str) -> bool:
    taken = _TAKEN.fullmatch(name) and name == name.strip(" ")
    return bool(taken) and len(name.lower().encode()) <= MAX_NAME_BYTES


def _lower(column: Column) -> Column:
    return Column(column.name.lower(), column.type)
