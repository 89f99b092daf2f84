"""Finds the source tables in a raw location."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from cdclake.concurrency import in_parallel
from cdclake.control.jobs.entry import error_line
from cdclake.control.plan.left_out import counted
from cdclake.errors import CdclakeError, ConfigurationError
from cdclake.model.raw.files import is_data_folder, is_raw_name, is_transactions_key, split_raw_key
from cdclake.model.table.state import TableState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from cdclake.ports import ObjectReader


class Discovered(NamedTuple):
    """The table folders in a raw location.

    Attributes:
        tables: A new state for each table folder, in the order of the folders' names.
        errors: One line for each folder that could not be listed.
        findings: One text for each folder with raw files that are in no table's folder, with the remedy.
    """

    tables: list[TableState]
    errors: list[str]
    findings: list[str]


def discover_tables(
    raw: ObjectReader,
    bucket: str,
    prefix: str,
    transaction_folders: Collection[str] = (),
    *,
    may_be_empty: bool = False,
) -> Discovered:
    """List every `<prefix><schema>/<table>/` of a raw location, and raw files that are above these folders.

    Folders of DMS's control tables, validation results and transaction files are skipped. A folder counts even if it
    holds no data, see `has_raw_data`. A schema that cannot be listed does not stop the others.

    Args:
        bucket: Name of the raw bucket.
        prefix: Key prefix of the schemas' folders, empty or with a trailing slash.
        transaction_folders: Key prefixes of known folders of transaction files, with a trailing slash.
        may_be_empty: Whether tables are registered already: a DMS task that starts over clears their folders.

    Raises:
        ConfigurationError: There is no table folder, and the location may not be empty.
        CdclakeError: The location itself cannot be listed.
    """
    top = list(raw.list_level(prefix))
    schemas = [key for key in top if _is_data_folder(key, prefix) and key not in transaction_folders]
    discovered = Discovered([], [], _outside_tables(bucket, prefix, top))
    levels = in_parallel(partial(_level, raw), schemas, raw.calls_at_once)
    for schema, listed in zip(schemas, levels):
        if isinstance(listed, CdclakeError):
            discovered.errors.append(error_line(listed))
            continue
        discovered.findings.extend(_outside_tables(bucket, schema, listed))
        discovered.tables.extend(
            TableState.new(bucket, schema, table[len(schema) :])
            for table in listed
            if _is_data_folder(table, schema) and table not in transaction_folders
        )
    if not (any(discovered) or transaction_folders or may_be_empty):
        raise ConfigurationError(
            "The raw location is empty",
            remedy="Check that the source database has data and is set up for change data capture, "
            "and that the DMS task runs and writes to this bucket and prefix",
            bucket=bucket,
            prefix=prefix,
        )
    return discovered


def _is_data_folder(key: str, prefix: str) -> bool:
    return key.endswith("/") and is_data_folder(key[len(prefix) :])


def _outside_tables(bucket: str, prefix: str, keys: Iterable[str]) -> list[str]:
    """A finding if LOAD or change files are among the keys of a folder that is above the table folders."""
    names = [key[len(prefix) :] for key in keys if is_raw_name(key[len(prefix) :])]
    if not names:
        return []
    text = (
        f"{counted(names, 'file')} in {bucket}/{prefix} not read, because files of a table are in <schema>/<table>/."
        " Move them there, or out of the raw location, and check BucketFolder and the table mappings of DMS"
    )
    return [text]


def _level(raw: ObjectReader, prefix: str) -> list[str] | CdclakeError:
    try:
        return [key for key in raw.list_level(prefix) if key.endswith("/") or is_raw_name(key[len(prefix) :])]
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
