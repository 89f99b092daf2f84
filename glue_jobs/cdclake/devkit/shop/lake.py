"""The sample shop's lake tables: what a person sets for them, and whether they and the catalog are as the source is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cdclake.control.catalog.plan import catalog_entry, table_name
from cdclake.devkit.shop.check import Comparison, compare, read_lake
from cdclake.devkit.shop.data import TABLES
from cdclake.devkit.shop.source import STORE_SCHEMA
from cdclake.devkit.shop.source_table import KEY
from cdclake.model.names import Attribute, Sentinel

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from cdclake.commit.log import ChangeLog
    from cdclake.ports import Catalog, ObjectStore


def settings_of(table: str) -> dict[str, str]:
    """What a person does who has looked at a table: sets its keys and turns it on."""
    spec = TABLES[table]
    settings = {
        Attribute.PRIMARY_KEY: KEY,
        Attribute.PARTITION_KEY: ",".join(spec.partition_key) or Sentinel.NONE,
        Attribute.ACTIVE_FLAG: Sentinel.ACTIVE,
    }
    return {**settings, Attribute.SCHEMA: STORE_SCHEMA} if spec.csv else settings


def prove(log: ChangeLog, lake: ObjectStore, catalog: Catalog, source: pa.Table) -> Comparison:
    """A lake table beside its source's rows, and the catalog beside the lake table.

    Args:
        log: The table's changes, one at least.
        lake: The lake bucket.
        catalog: What readers find it by.
        source: The source's rows now.
    """
    proof = compare(read_lake(lake, log.layout, source.schema), source, KEY)
    return replace(proof, differences=(*proof.differences, *catalog_differences(log, catalog)))


def catalog_differences(log: ChangeLog, catalog: Catalog) -> Iterator[str]:
    """What the catalog says otherwise than the lake table is, in words."""
    shown, wanted = table_name(log.layout.name), catalog_entry(log.snapshot(log.head()), log.layout)
    if catalog.table(shown) != wanted.table:
        yield f"the table {shown} of the catalog is not as the lake table"
    elif set(catalog.partitions(shown)) != set(wanted.partitions):
        yield f"partitions of the table {shown} of the catalog are not as the lake table's"
