"""Lists a table's raw files, in its own folder and in the folder of transaction files."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from cdclake.model.raw.files import raw_files, transactions_prefix

if TYPE_CHECKING:
    from cdclake.model.raw.files import RawFiles
    from cdclake.model.table.settings import TableSettings
    from cdclake.ports import ObjectReader


def list_raw_files(raw: ObjectReader, raw_prefix: str, settings: TableSettings, begin: str = "") -> RawFiles:
    """List a table's raw files.

    Args:
        raw: The raw bucket.
        raw_prefix: Key prefix of the table's folder, with a trailing slash.
        begin: Relative key after which to list the table's folder; empty: list all.
    """
    transactions = list(raw.list(transactions_prefix(raw_prefix, settings.cdc_path))) if settings.cdc_path else []
    own = raw.list(raw_prefix, raw_prefix + begin if begin else "")
    files = raw_files(chain(own, transactions), raw_prefix, settings.ignore_files)
    return files._replace(no_transactions=bool(settings.cdc_path) and not transactions, begin=begin)
