"""Names of the files AWS DMS writes, and their order.

Facts from the DMS user guide ("Using Amazon S3 as a target"): full-load files are `LOAD` and eight upper-case hex
digits counted from 1; change files are named by the time they were written, `yyyymmdd-HHMMSSfff`, and may lie in date
folders.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

_EXTENSION = r"\.(?P<extension>csv\.gz|csv|parquet)"
_FULL_LOAD = re.compile(r"(?:[^/]+/)*?(?:SEGMENT\d+_)?LOAD(?P<number>[0-9A-Fa-f]{8})" + _EXTENSION)
_CHANGE = re.compile(r"(?:[^/]+/)*?(?P<stamp>\d{8}-\d{9,10})" + _EXTENSION)
_NOT_DATA = re.compile(r"^(s3_validation_failures|awsdms_[^/]*)/", re.IGNORECASE)


class RawKind(Enum):
    """What a raw file holds."""

    FULL_LOAD = "full load"
    CHANGE = "change"


class RawFormat(Enum):
    """How a raw file is written."""

    PARQUET = "parquet"
    CSV = "csv"
    CSV_GZ = "csv.gz"


class ListedObject(NamedTuple):
    """One object of a listing."""

    key: str
    size_bytes: int
    modified_utc: datetime


@dataclass(frozen=True)
class RawFile:
    """One full-load or change file of a table.

    Attributes:
        relative: Key relative to the table's raw folder.
        stamp: `yyyymmdd-HHMMSSfff` of a change file; the eight digits of a full-load file.
        modified_utc: When the object was last written.
    """

    relative: str
    kind: RawKind
    format: RawFormat
    stamp: str
    size_bytes: int
    modified_utc: datetime

    @property
    def order(self) -> str:
        """Change files are applied in the order of this, see `file_order`."""
        return file_order(self.relative)


def file_order(relative: str) -> str:
    """What change files are ordered by: the time in the file's name, then its key within the table's folder.

    A stamp of nine digits is a prefix of the one with ten, so that both kinds sort by time, and a date folder of any
    pattern does not disturb the order. A key that is no change file gives the empty string, before all.

    Example:
        >>> file_order("20240305-101500123.parquet")
        '20240305-101500123.parquet'
        >>> file_order("05032024/20240305-101500123.parquet")
        '20240305-101500123/05032024/20240305-101500123.parquet'
    """
    match = _CHANGE.fullmatch(relative)
    if not match:
        return ""
    return relative if match.start("stamp") == 0 else f"{match['stamp']}/{relative}"


def parse_raw_file(relative: str, size_bytes: int, modified_utc: datetime) -> RawFile | None:
    """Recognise a raw file by its key relative to the table's folder; None for anything else (folders, other files)."""
    for pattern, kind, group in ((_FULL_LOAD, RawKind.FULL_LOAD, "number"), (_CHANGE, RawKind.CHANGE, "stamp")):
        match = pattern.fullmatch(relative)
        if match:
            return RawFile(relative, kind, RawFormat(match["extension"]), match[group], size_bytes, modified_utc)
    return None


def raw_files(objects: Iterable[ListedObject], raw_prefix: str) -> tuple[list[RawFile], list[RawFile]]:
    """Split a listing of a table's raw folder.

    Args:
        objects: Listing, any order.
        raw_prefix: Key prefix of the folder, with a trailing slash.

    Returns:
        Full-load files by name, and change files in the order they are applied.
    """
    parsed = [parse_raw_file(o.key[len(raw_prefix) :], o.size_bytes, o.modified_utc) for o in objects]
    found = [file for file in parsed if file]
    full_load = sorted((f for f in found if f.kind is RawKind.FULL_LOAD), key=lambda f: f.relative)
    changes = sorted((f for f in found if f.kind is RawKind.CHANGE), key=lambda f: f.order)
    return full_load, changes


def is_data_folder(folder: str) -> bool:
    """Whether a schema's or table's folder, `<name>/`, may hold source data: not DMS's control tables or validation."""
    return not _NOT_DATA.match(folder)


class RawKey(NamedTuple):
    """A raw object's key taken apart."""

    schema_prefix: str
    folder: str
    relative: str


def split_raw_key(key: str, prefix: str) -> RawKey | None:
    """Find the table a raw object belongs to; None if it is not raw data of a table.

    Args:
        key: Object key, decoded.
        prefix: Key prefix of the schemas' folders, empty or with a trailing slash.
    """
    if not key.startswith(prefix):
        return None
    rest = key[len(prefix) :]
    if _NOT_DATA.match(rest):
        return None
    schema, _, rest = rest.partition("/")
    table, slash, relative = rest.partition("/")
    if not (schema and table and slash and relative) or _NOT_DATA.match(f"{table}/"):
        return None
    if not (_FULL_LOAD.fullmatch(relative) or _CHANGE.fullmatch(relative)):
        return None
    return RawKey(f"{prefix}{schema}/", f"{table}/", relative)
