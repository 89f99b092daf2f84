"""Lists a table's raw files, in its own folder and in the folder of transaction files."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from cdclake.model.raw.files import raw_files, transactions_prefix

if TYPE_CHECKING:
    from cdclake.model.raw.files import RawFiles
    from cdclake.model.table.settings import TableSettings
    from cdclake.ports import ObjectReader


def list_raw_files(raw: ObjectReader, raw_prefix: str, settings: TableSettings) -> RawFiles:
    """List a table's raw files.

    Args:
        raw: The raw bucket.
        raw_prefix: Key prefix of the table's folder, with a trailing slash.
    """
    transactions = list(raw.list(transactions_prefix(raw_prefix, settings.cdc_path))) if settings.cdc_path else []
    files = raw_files(chain(raw.list(raw_prefix), transactions), raw_prefix, settings.ignore_files)
    return files._replace(no_transactions=bool(settings.cdc_path) and not transactions)
