"""Reads Iceberg tables by pyiceberg: of a metadata file, of a folder with a version hint, or of a catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from cdclake.adapters.filesystem import lake_filesystem
from cdclake.errors import ConfigurationError
from cdclake_cli.shadow.formats.place import Place, iceberg_properties, reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.table import FileScanTask, Table

FORMAT = "Iceberg"
HINT = "metadata/version-hint.text"
METADATA_FILE = ".metadata.json"
GLUE = "glue"
"""Name of a catalog that needs no configuration: the account's Glue Data Catalog."""
_PREFIX = "iceberg:"


class CatalogTable(NamedTuple):
    """A table in a catalog, as `iceberg:<catalog>:<table>` names it."""

    catalog: str
    table: str

    @classmethod
    def parse(cls, text: str) -> CatalogTable | None:
        """Read such a name; None if it is a location.

        Raises:
            ConfigurationError: It begins like such a name, and is none.
        """
        if not text.startswith(_PREFIX):
            return None
        catalog, _, table = text.removeprefix(_PREFIX).partition(":")
        if not (catalog and table):
            remedy = "Write iceberg:glue:database.table, or a catalog of pyiceberg's configuration instead of glue"
            message = f"'{text}' names no table of a catalog"
            raise ConfigurationError(message, remedy=remedy)
        return cls(catalog, table)


class IcebergFormatTable:
    """An Iceberg table. `OtherTable` describes the attributes and methods."""

    format = FORMAT

    def __init__(self, location: Place | CatalogTable, version: str) -> None:
        self._text = location.text if isinstance(location, Place) else ":".join(location)
        if version and not version.isdecimal():
            remedy = "Write the number of a snapshot: --version 3051729675574597004"
            message = f"'{version}' is no snapshot of an Iceberg table"
            raise ConfigurationError(message, remedy=remedy)
        with reading(FORMAT, self._text, Exception):
            table = _at(location) if isinstance(location, Place) else _in_catalog(location)
            current = table.current_snapshot()
            snapshot = int(version) if version else current.snapshot_id if current else None
            self.version = f"snapshot {snapshot}" if snapshot is not None else "no snapshot"
            self._scan = table.scan(snapshot_id=int(version) if version else None)  # else the table's newest columns
            self.schema = self._scan.projection().as_arrow()
            self._tasks = list(self._scan.plan_files()) if snapshot is not None else []
        deletes = any(task.delete_files for task in self._tasks)
        self.rows = None if deletes else sum(task.file.record_count for task in self._tasks)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Columns of all rows, of one data file after the other: pyiceberg reads all rows of a file at once."""
        from pyiceberg.io.pyarrow import ArrowScan

        scan = self._scan.select(*columns)
        with reading(FORMAT, self._text, Exception):
            read = ArrowScan(scan.table_metadata, scan.io, scan.projection(), scan.row_filter)
            for task in self._tasks:
                yield from _tables(read, task)


def _tables(scan: object, task: FileScanTask) -> Iterator[pa.Table]:
    for batch in scan.to_record_batches([task]):  # type: ignore[attr-defined]
        yield pa.Table.from_batches([batch])


def _at(place: Place) -> Table:
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(place.url, place.iceberg_properties())


def _in_catalog(named: CatalogTable) -> Table:
    from pyiceberg.catalog import load_catalog

    if named.catalog == GLUE:
        spec = lake_filesystem("any-bucket")
        catalog = load_catalog(GLUE, type="glue", **iceberg_properties(spec))
    else:
        catalog = load_catalog(named.catalog)
    return catalog.load_table(named.table)
