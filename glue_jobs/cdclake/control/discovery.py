"""Finds the source tables in a raw location."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError
from cdclake.model.rawfiles import is_data_folder, is_transactions_key, split_raw_key
from cdclake.model.table import TableState

if TYPE_CHECKING:
    from collections.abc import Collection

    from cdclake.ports import ObjectReader


def table_folders(
    raw: ObjectReader, bucket: str, prefix: str, transaction_folders: Collection[str] = ()
) -> list[TableState]:
    """Every `<prefix><schema>/<table>/` of a raw location, as the state of a table that is seen for the first time.

    Folders that are no source tables (DMS's control tables, its validation results, transaction files) are left out.
    Whether a folder has data is not looked at, see `has_raw_data`.

    Args:
        raw: The raw bucket.
        bucket: Its name.
        prefix: Key prefix of the schemas' folders, empty or with a trailing slash.
        transaction_folders: Key prefixes of folders known to hold transaction files, with a trailing slash.

    Returns:
        States in the order of the folders' names.

    Raises:
        ConfigurationError: There is no table folder at all, and no folder of transaction files is known.
    """
    found = [
        TableState.new(bucket, schema_prefix, table_prefix[len(schema_prefix) :])
        for schema_prefix in raw.list_folders(prefix)
        if is_data_folder(schema_prefix[len(prefix) :]) and schema_prefix not in transaction_folders
        for table_prefix in raw.list_folders(schema_prefix)
        if is_data_folder(table_prefix[len(schema_prefix) :]) and table_prefix not in transaction_folders
    ]
    if not (found or transaction_folders):
        raise ConfigurationError(
            "The raw location is empty",
            remedy="Check that the source database has data and is set up for change data capture, "
            "and that the DMS task runs and writes to this bucket and prefix",
            bucket=bucket,
            prefix=prefix,
        )
    return found


def has_raw_data(raw: ObjectReader, table: TableState, prefix: str) -> bool:
    """Whether a table folder holds at least one raw file; reads the listing no further than to the first.

    A folder with transaction files is no table's, and is not read further either: there may be very many.

    Args:
        raw: The raw bucket.
        table: The table.
        prefix: Key prefix of the schemas' folders, empty or with a trailing slash.
    """
    for entry in raw.list(table.raw_prefix):
        if is_transactions_key(entry.key):
            return False
        if split_raw_key(entry.key, prefix):
            return True
    return False
