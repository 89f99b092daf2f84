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


class Found(NamedTuple):
    """What there is in a raw location.

    Attributes:
        tables: Each table folder as the state of a table that is seen for the first time, by the folders' names.
        errors: What could not be looked at, a line each.
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
    at_once: int = 1,
) -> Found:
    """Every `<prefix><schema>/<table>/` of a raw location.

    Folders that are no source tables (DMS's control tables, its validation results, transaction files) are left out.
    Whether a folder has data is not looked at, see `has_raw_data`. A schema that cannot be listed does not keep the
    others from being found.

    Args:
        raw: The raw bucket.
        bucket: Its name.
        prefix: Key prefix of the schemas' folders, empty or with a trailing slash.
        transaction_folders: Key prefixes of folders known to hold transaction files, with a trailing slash.
        may_be_empty: Whether it is known that there were tables: a DMS task that starts over clears their folders.
        at_once: So many schemas are listed at the same time.

    Raises:
        ConfigurationError: There is no table folder at all, and it is not known that there was anything.
        CdclakeError: The location itself cannot be listed.
    """
    schemas = [
        schema
        for schema in raw.list_folders(prefix)
        if is_data_folder(schema[len(prefix) :]) and schema not in transaction_folders
    ]
    found = Found([], [])
    with ThreadPoolExecutor(at_once) as pool:
        for schema, listed in zip(schemas, pool.map(partial(_folders, raw), schemas)):
            if isinstance(listed, CdclakeError):
                found.errors.append(error_line(listed))
                continue
            found.tables.extend(
                TableState.new(bucket, schema, table[len(schema) :])
                for table in listed
                if is_data_folder(table[len(schema) :]) and table not in transaction_folders
            )
    if not (found.tables or found.errors or transaction_folders or may_be_empty):
        raise ConfigurationError(
            "The raw location is empty",
            remedy="Check that the source database has data and is set up for change data capture, "
            "and that the DMS task runs and writes to this bucket and prefix",
            bucket=bucket,
            prefix=prefix,
        )
    return found


def _folders(raw: ObjectReader, prefix: str) -> list[str] | CdclakeError:
    try:
        return list(raw.list_folders(prefix))
    except CdclakeError as error:
        return error


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
