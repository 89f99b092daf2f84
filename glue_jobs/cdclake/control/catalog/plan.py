"""Computes the catalog entry of a lake table, and the plan to update the catalog to it. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError
from cdclake.model import position
from cdclake.model.catalog import CatalogEntry, CatalogPartition, CatalogTable, Statistics
from cdclake.model.partition_folder import HIVE_NULL_PARTITION
from cdclake.model.schema import OP_COLUMN, Column
from cdclake.model.table.attributes import Attribute
from cdclake.model.versions import OWN_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cdclake.model.catalog import PartitionValues
    from cdclake.model.layout import LakeLayout
    from cdclake.model.snapshot import DataFile, Snapshot
    from cdclake.model.table.name import TableName

MAX_NAME_BYTES = 255
"""https://docs.aws.amazon.com/athena/latest/ug/tables-databases-columns-names.html"""
_UNUSUAL = re.compile(r"[^a-z0-9_]")
_ACCEPTED = re.compile(r"[^,\x00-\x1f\x7f\ud800-\udfff\ufffe\uffff]+")
"""Glue accepts one line of text. Hive, and so Trino, separates columns by commas and trims spaces."""
ICEBERG_SUFFIX = "_iceberg"
"""Suffix of the name of the Iceberg table of a table whose readers open either."""
ICEBERG_SOURCE_SUFFIX = " (Iceberg table)"
"""Suffix of its source, to tell it from the table."""
ADDED_COLUMNS = (Column(OP_COLUMN.lower(), "string"), Column(position.COLUMN, "string"))
"""Columns of every data file of a lake table in addition to the source's."""


def table_name(name: TableName, chosen: str = "") -> str:
    """Name of a lake table in the catalog: `<schema>_<table>` in lower case, with `_` for characters Athena refuses.

    Args:
        chosen: The name that an operator set; empty for none.

    Raises:
        ConfigurationError: The name is too long, or Athena refuses the chosen name.
    """
    catalog_name = chosen or _UNUSUAL.sub("_", "_".join(filter(None, (name.schema, name.table))).lower())
    if _UNUSUAL.search(catalog_name) or len(catalog_name) > MAX_NAME_BYTES:
        message = f"'{catalog_name}' cannot be the name of a table in the catalog"
        remedy = f"Set {Attribute.CATALOG_TABLE} to at most {MAX_NAME_BYTES} of a-z, 0-9 and _"
        raise ConfigurationError(message, remedy=remedy, table=name)
    return catalog_name


def catalog_entry(
    snapshot: Snapshot, layout: LakeLayout, added: tuple[Column, ...] = ADDED_COLUMNS, *, has_view: bool = False
) -> CatalogEntry:
    """The catalog entry of a lake table.

    Columns that the catalog refuses are left out, and listed in the table's `left_out`.

    Args:
        snapshot: The lake table; it must exist.
        added: Columns of its files that its schema lacks.
        has_view: Whether the catalog also has a view of its live rows.

    Raises:
        ConfigurationError: The catalog refuses a partition column, or files of one partition are in two folders.
    """
    if snapshot.iceberg and not snapshot.iceberg.in_folder:
        table = iceberg_table(snapshot, layout, added)
        return CatalogEntry(replace(table, has_view=has_view, has_history=snapshot.history is not None))
    partition_names = {name.lower() for name in snapshot.partition_key}
    data_columns = [column for column in snapshot.schema if column.name.lower() not in partition_names]
    columns = (*(_lower(column) for column in data_columns if _is_accepted(column.name)), *added)
    location = f"s3://{layout.bucket}/{layout.table_prefix}"
    table = CatalogTable(
        location=location,
        columns=columns,
        partition_columns=tuple(_partition_column(snapshot, layout, name) for name in snapshot.partition_key),
        statistics=_statistics(snapshot.files),
        source=str(layout.name),
        change=snapshot.change,
        left_out=tuple(column.name for column in data_columns if not _is_accepted(column.name)),
        has_view=has_view,
        has_iceberg=snapshot.iceberg is not None,
        has_history=snapshot.history is not None,
    )
    files: dict[PartitionValues, list[DataFile]] = defaultdict(list)
    for file in snapshot.files if snapshot.partition_key else ():
        files[tuple(value or HIVE_NULL_PARTITION for value in file.partition)].append(file)
    partitions = (
        CatalogPartition(values, location + _folder(group, layout), columns, _statistics(group))
        for values, group in files.items()
    )
    return CatalogEntry(table, tuple(partitions))


def iceberg_table(
    snapshot: Snapshot, layout: LakeLayout, added: tuple[Column, ...] = ADDED_COLUMNS, source_suffix: str = ""
) -> CatalogTable:
    """A lake table as an Iceberg table in the catalog.

    Args:
        snapshot: The lake table, with its manifests.
        added: Columns of its files that its schema lacks.
        source_suffix: Suffix of its source, if the catalog also has a table of the folder.
    """
    return CatalogTable(
        location=f"s3://{layout.bucket}/{layout.iceberg_prefix}".rstrip("/"),
        columns=(*(_lower(column) for column in snapshot.schema if _is_accepted(column.name)), *added),
        partition_columns=(),
        statistics=_statistics(snapshot.files),
        source=str(layout.name) + source_suffix,
        change=snapshot.change,
        left_out=tuple(column.name for column in snapshot.schema if not _is_accepted(column.name)),
        parquet=False,
        metadata_location=f"s3://{layout.bucket}/{layout.iceberg_metadata_key(snapshot.change)}",
    )


def shows_history(table: CatalogTable) -> bool:
    """Whether a table of the catalog shows a history, and not another table of that name: those have an `op`."""
    names = {column.name.lower() for column in (*table.columns, *table.partition_columns)}
    return names.issuperset(column.name for column in OWN_COLUMNS) and OP_COLUMN.lower() not in names


def empty_entry(table: CatalogTable, layout: LakeLayout, change: int) -> CatalogEntry:
    """The entry of a table, or a history, whose changes were all undone: it keeps its columns, and has no rows."""
    location = f"s3://{layout.bucket}/{layout.table_prefix}" if table.metadata_location else table.location
    parquet = table.parquet or bool(table.metadata_location)
    empty = replace(
        table, statistics=Statistics(), change=change, metadata_location="", has_iceberg=False, has_history=False
    )
    return CatalogEntry(replace(empty, location=location, parquet=parquet))


@dataclass(frozen=True)
class CatalogPlan:
    """The steps that update the catalog, in this order. Inert.

    Attributes:
        drop_table: Whether to drop the table: partition columns cannot be changed, or it shows the history that was
            in the place of the table before, or the other way round.
        create_table: The table to create, without a change number, so that the next run notices if this one dies.
        create: Partitions to create.
        update: Partitions to update.
        drop: Partitions to drop.
        update_table: The table to write at the end, with the change number.
    """

    drop_table: bool
    create_table: CatalogTable | None
    create: tuple[CatalogPartition, ...]
    update: tuple[CatalogPartition, ...]
    drop: tuple[PartitionValues, ...]
    update_table: CatalogTable | None


def plan_catalog(target: CatalogEntry, current: CatalogEntry | None) -> CatalogPlan:
    """Plan the update of the catalog from its current entry to the target.

    The table itself is updated last. If the run dies before that, the table does not claim to show the change. Readers
    of a new column find it in the partitions first.

    Args:
        target: From `catalog_entry` or `empty_entry`.
        current: The entry in the catalog; None if it has no such table.
    """
    drop_table = current is not None and (
        _partition_names(current.table) != _partition_names(target.table)
        or shows_history(current.table) != shows_history(target.table)
    )
    existing = None if drop_table else current
    before = {partition.values: partition for partition in existing.partitions} if existing else {}
    after = {partition.values: partition for partition in target.partitions}
    candidates = current.partitions if current and drop_table else before.values()
    return CatalogPlan(
        drop_table=drop_table,
        create_table=None if existing else replace(target.table, change=None),
        create=tuple(one for values, one in after.items() if values not in before),
        update=tuple(one for values, one in after.items() if values in before and before[values] != one),
        drop=tuple(one.values for one in candidates if drop_table or one.values not in after),
        update_table=None if existing and existing.table == target.table else target.table,
    )


def _partition_names(table: CatalogTable) -> list[str]:
    return [column.name for column in table.partition_columns]


def _statistics(files: Iterable[DataFile]) -> Statistics:
    counted = list(files)
    return Statistics(sum(file.rows for file in counted), len(counted), sum(file.bytes for file in counted))


def _folder(files: Iterable[DataFile], layout: LakeLayout) -> str:
    """Folder of a partition, taken from its files: adopted files may escape names in another way."""
    folders = sorted({f"{file.path.rpartition('/')[0]}/" for file in files})
    if len(folders) > 1:
        message = f"Rows of one partition are in the folders {' and '.join(folders)}, but the catalog accepts only one"
        raise ConfigurationError(message, remedy="Have DMS reload the table", table=layout.name)
    return folders[0]


def _partition_column(snapshot: Snapshot, layout: LakeLayout, name: str) -> Column:
    """Declare a partition column. Readers cannot parse binary values from folders, so those are declared as text."""
    column = snapshot.schema.find(name)
    if column is None or not _is_accepted(name):
        message = f"The catalog does not accept the partition column {name!r}"
        remedy = f"Set {Attribute.PARTITION_KEY} to other columns and have DMS reload the table"
        raise ConfigurationError(message, remedy=remedy, table=layout.name)
    return _lower(Column(name, "string" if column.type == "binary" else column.type))


def _is_accepted(name: str) -> bool:
    accepted = _ACCEPTED.fullmatch(name) and name == name.strip(" ")
    return bool(accepted) and len(name.lower().encode()) <= MAX_NAME_BYTES


def _lower(column: Column) -> Column:
    return Column(column.name.lower(), column.type)
