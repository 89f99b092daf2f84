"""Opens the table at a location: what is there tells its format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError
from cdclake_cli.shadow.formats import delta, hudi, iceberg
from cdclake_cli.shadow.formats.parquet_folder import ParquetFolder
from cdclake_cli.shadow.formats.place import Place

if TYPE_CHECKING:
    from cdclake_cli.shadow.formats.table import OtherTable


def open_table(location: str, version: str = "") -> OtherTable:
    """Open a table of another job.

    Args:
        location: A folder, a file `*.metadata.json` of Iceberg, or `iceberg:<catalog>:<table>`.
        version: Version, snapshot or instant to read; empty for the newest.

    Raises:
        ConfigurationError: There is no table, or its format's package is missing or cannot read it.
    """
    named = iceberg.CatalogTable.parse(location)
    if named:
        return iceberg.IcebergFormatTable(named, version)
    place = Place(location)
    if location.endswith(iceberg.METADATA_FILE):
        return iceberg.IcebergFormatTable(place, version)
    if place.exists(delta.LOG):
        return delta.DeltaFormatTable(place, version)
    if place.exists(hudi.LOG):
        return hudi.HudiFormatTable(place, version)
    if place.exists(iceberg.HINT):
        return iceberg.IcebergFormatTable(place, version)
    if place.exists("metadata") and place.exists("data"):
        message = "This looks like an Iceberg table, and only its catalog knows which metadata file is the newest"
        remedy = (
            f"Name the newest {location.rstrip('/')}/metadata/*{iceberg.METADATA_FILE}, or iceberg:glue:database.table"
        )
        raise ConfigurationError(message, remedy=remedy, location=location)
    if not place.exists():
        raise ConfigurationError("There is nothing at the location", remedy="Check --with", location=location)
    return ParquetFolder(place, version)
