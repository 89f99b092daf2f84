"""Lists a table's raw files, in its own folder and in the folder of transaction files."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from cdclake.model.rawfiles import raw_files, transactions_prefix

if TYPE_CHECKING:
    from cdclake.model.rawfiles import RawFile
    from cdclake.ports import ObjectReader


def list_raw_files(raw: ObjectReader, raw_prefix: str, cdc_path: str) -> tuple[list[RawFile], list[RawFile]]:
    """List the full-load files by name, and the change files in the order of their application.

    Args:
        raw: The raw bucket.
        raw_prefix: Key prefix of the table's folder, with a trailing slash.
        cdc_path: Folder of transaction files below the raw prefix; empty if the table has its own change files.
    """
    transactions = raw.list(transactions_prefix(raw_prefix, cdc_path)) if cdc_path else ()
    return raw_files(chain(raw.list(raw_prefix), transactions), raw_prefix)
