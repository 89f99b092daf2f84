"""The sample shop's lake tables: their state and attributes, and whether they and the catalog equal the source."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cdclake.control.catalog.plan import catalog_entry, table_name
from cdclake.errors import IntegrityError, JobRunError
from cdclake.model.names import Sentinel
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState
from cdclake_devkit.shop.checksum import ChecksumComparison, compare_checksums
from cdclake_devkit.shop.data import TABLES
from cdclake_devkit.shop.memory_table import KEY
from cdclake_devkit.shop.sample_shop import STORE_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from cdclake.commit.log import ChangeLog
    from cdclake.model.table.name import TableName
    from cdclake.ports import Catalog
    from cdclake_devkit.local.deploy import LocalDeployment


def raw_path(deployment: LocalDeployment, name: TableName) -> str:
    """Path of a table in the raw bucket, the key of its state."""
    prefix = f"{deployment.raw_prefix}{name.schema}/"
    return TableState.new(deployment.raw_bucket, prefix, f"{name.table}/").path


def require_inactive(name: TableName, state: TableState | None) -> None:
    """Raises `IntegrityError` unless the table is registered as inactive."""
    if state is None or state.active:
        actual = "is not registered" if state is None else "is active"
        message = f"{name} must be registered as inactive, but it {actual}"
        raise IntegrityError(message, remedy="Check the logs of the Controller and of the Lambda function")


def require_success(name: TableName, state: TableState | None) -> None:
    """Raises `JobRunError` if the table's last run failed."""
    error = state.item.get(Attribute.LAST_ERROR) if state else "the table is no longer registered"
    if error:
        message = f"The last run of {name} failed: {error}"
        raise JobRunError(message)


def attributes_of(table: str) -> dict[str, str]:
    """The attributes with which an operator activates a table."""
    spec = TABLES[table]
    attributes = {
        Attribute.PRIMARY_KEY: KEY,
        Attribute.PARTITION_KEY: ",".join(spec.partition_key) or Sentinel.NONE,
        Attribute.ACTIVE_FLAG: Sentinel.ACTIVE,
    }
    return {**attributes, Attribute.SCHEMA: STORE_SCHEMA} if spec.csv else attributes


def compare_with_source(rows: pa.Table, source: pa.Table, log: ChangeLog, catalog: Catalog) -> ChecksumComparison:
    """Compare a lake table with its source, and the catalog with the lake table.

    Args:
        rows: All rows that a reader of the lake table gets.
        source: The current rows of the source.
        log: The table's change log, with at least one change.
    """
    comparison = compare_checksums(rows, source, KEY)
    return replace(comparison, differences=(*comparison.differences, *catalog_differences(log, catalog)))


def catalog_differences(log: ChangeLog, catalog: Catalog) -> Iterator[str]:
    """Differences between the catalog and the lake table, in words."""
    name, expected = table_name(log.layout.name), catalog_entry(log.snapshot(log.head()), log.layout)
    if catalog.table(name) != expected.table:
        yield f"the catalog's table {name} differs from the lake table"
    elif set(catalog.partitions(name)) != set(expected.partitions):
        yield f"the partitions of the catalog's table {name} differ from the lake table's"
