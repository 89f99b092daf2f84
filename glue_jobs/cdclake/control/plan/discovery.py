"""Finds the source tables in a raw location."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from cdclake.control.jobs.entry import error_line
from cdclake.errors import CdclakeError, ConfigurationError
from cdclake.model.rawfiles import is_data_folder, is_transactions_key, split_raw_key
from cdclake.model.table import TableState

if TYPE_CHECKING:
    from collections.abc import Collection

    from cdclake.ports import ObjectReader


class Discovered(NamedTuple):
    """The table folders in a raw location.

    Attributes:
        tables: A new state for each table folder, in the order of the folders' names.
        errors: One line for each folder that could not be listed.
    """

    tables: list[TableState]
    errors: list[str]


def discover_tables(
    raw: ObjectReader,
    bucket: str,
    prefix: str,
    transaction_folders: Collection[str] = (),
    *,
    may_be_empty: bool = False,
    concurrency: int = 1,
) -> Discovered:
    """List every `<prefix><schema>/<table>/` of a raw location.

    Folders of DMS's control tables, validation results and transaction files are skipped. A folder counts even if it
    holds no data, see `has_raw_data`. A schema that cannot be listed does not stop the others.

    Args:
        bucket: Name of the raw bucket.
        prefix: Key prefix of the schemas' folders, empty or with a trailing slash.
        transaction_folders: Key prefixes of known folders of transaction files, with a trailing slash.
        may_be_empty: Whether tables are registered already: a DMS task that starts over clears their folders.
        concurrency: Number of schemas to list at the same time.

    Raises:
        ConfigurationError: There is no table folder, and the location may not be empty.
        CdclakeError: The location itself cannot be listed.
    """
    schemas = [
        schema
        for schema in raw.list_folders(prefix)
        if is_data_folder(schema[len(prefix) :]) and schema not in transaction_folders
    ]
    discovered = Discovered([], [])
    with ThreadPoolExecutor(concurrency) as pool:
        for schema, listed in zip(schemas, pool.map(partial(_folders, raw), schemas)):
            if isinstance(listed, CdclakeError):
                discovered.errors.append(error_line(listed))
                continue
            discovered.tables.extend(
                TableState.new(bucket, schema, table[len(schema) :])
                for table in listed
                if is_data_folder(table[len(schema) :]) and table not in transaction_folders
            )
    if not (discovered.tables or discovered.errors or transaction_folders or may_be_empty):
        raise ConfigurationError(
            "The raw location is empty",
            remedy="Check that the source database has data and is set up for change data capture, "
            "and that the DMS task runs and writes to this bucket and prefix",
            bucket=bucket,
            prefix=prefix,
        )
    return discovered


def _folders(raw: ObjectReader, prefix: str) -> list[str] | CdclakeError:
    try:
        return list(raw.list_folders(prefix))
    except CdclakeError as error:
        return error


def has_raw_data(raw: ObjectReader, table: TableState, prefix: str) -> bool:
    """Whether a table folder holds a raw file. Stops listing at the first.

    A folder of transaction files belongs to no table. The listing stops there too, as such a folder can be very large.

    Args:
        prefix: Key prefix of the schemas' folders, empty or with a trailing slash.
    """
    for entry in raw.list(table.raw_prefix):
        if is_transactions_key(entry.key):
            return False
        if split_raw_key(entry.key, prefix):
            return True
    return False
