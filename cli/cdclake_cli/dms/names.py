"""Builds the keys of DMS files.

From the DMS user guide ("Using Amazon S3 as a target for AWS DMS"): full-load files are named `LOAD` and eight
upper-case hex digits counted from 1; change files `yyyymmdd-HHMMSSfff`, in a date folder if configured; transaction
files `CDC_TXN-yyyymmddHHMMSSfff`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from cdclake.model.raw.files import TRANSACTIONS_NAME, RawFormat
from cdclake_cli.dms.settings import Compression, DateDelimiter, DmsSettings, ParallelLoad

if TYPE_CHECKING:
    from datetime import datetime

    from cdclake.model.table.name import TableName
    from cdclake.ports import Clock

_DELIMITERS = {DateDelimiter.SLASH: "/", DateDelimiter.UNDERSCORE: "_", DateDelimiter.DASH: "-", DateDelimiter.NONE: ""}
_PARTS = {"YYYY": "%Y", "MM": "%m", "DD": "%d", "HH": "%H"}


class DmsFile(NamedTuple):
    """A raw file.

    Attributes:
        key: `[<bucket folder>/]<schema>/<table>/<file>`, relative to the raw prefix.
        data: Content.
    """

    key: str
    data: bytes


def can_be_folder(name: str) -> bool:
    """Whether a schema or table name can be the name of a folder."""
    return "/" not in name and name not in {".", ".."}


def root_folder(settings: DmsSettings) -> str:
    """The folder that holds all files of the task, with a trailing slash; empty for none."""
    folder = settings.bucket_folder.strip("/")
    return f"{folder}/" if folder else ""


def table_folder(settings: DmsSettings, table: TableName) -> str:
    """Folder of a table's files, with a trailing slash."""
    return f"{root_folder(settings)}{table.schema}/{table.table}/"


def full_load_path(settings: DmsSettings, number: int, part: int = 0) -> str:
    """Path of a full-load file in its table's folder.

    Args:
        number: Counts from 1, separately in each part of a parallel load.
        part: Partition or segment of a parallel load, from 1.
    """
    name = f"LOAD{number:08X}.{settings.raw_format.value}"
    if settings.parallel_load is ParallelLoad.FOLDERS:
        return f"p{part}/{name}"
    return f"SEGMENT{part}_{name}" if settings.parallel_load is ParallelLoad.SEGMENTS else name


def change_path(settings: DmsSettings, written_utc: datetime) -> str:
    """Path of a change file in its table's folder, including the date folder if configured.

    The time zone of date folders also shifts the file's name, so names go backwards when daylight saving time ends.
    """
    local = written_utc.astimezone(settings.zone)
    name = f"{local:%Y%m%d-%H%M%S}{local.microsecond // 1000:03d}.{settings.raw_format.value}"
    return date_folder(settings, written_utc) + name


def date_folder(settings: DmsSettings, when_utc: datetime) -> str:
    """Date folder of a change file, with a trailing slash; empty if not configured."""
    if not settings.date_partition_enabled:
        return ""
    sequence, parts = settings.date_partition_sequence.value, []
    while sequence:
        part = next(name for name in _PARTS if sequence.startswith(name))
        parts.append(when_utc.astimezone(settings.zone).strftime(_PARTS[part]))
        sequence = sequence[len(part) :]
    return _DELIMITERS[settings.date_partition_delimiter].join(parts) + "/"


def transactions_key(settings: DmsSettings, written_utc: datetime) -> str:
    """Key of a transaction file, which holds changes of all tables and is always CSV."""
    kind = RawFormat.CSV if settings.compression_type is Compression.NONE else RawFormat.CSV_GZ
    stamp = f"{written_utc:%Y%m%d%H%M%S}{written_utc.microsecond // 1000:03d}"
    return f"{root_folder(settings)}{settings.cdc_path.strip('/')}/{TRANSACTIONS_NAME}{stamp}.{kind.value}"


class ChangeFileTimes:
    """Write times of change files: strictly increasing, even if the clock stops or goes back.

    Args:
        clock: Returns the current time.
        after: All times are later than this.
    """

    def __init__(self, clock: Clock, after: datetime | None = None) -> None:
        self._clock = clock
        self._last = after

    def next(self) -> datetime:
        """The current time in whole milliseconds, or the next one that was not used yet."""
        now = self._clock()
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        if self._last is not None and now <= self._last:
            now = self._last + timedelta(milliseconds=1)
        self._last = now
        return now
