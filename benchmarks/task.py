"""The task of a contestant's process and its outcome; both are JSON files."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

BUILD = "build"
"""Create the starting table from the full-load files; not timed."""
APPLY = "apply"
"""Apply the change files to the starting table."""
LOAD = "load"
"""Load the table from the full-load files."""


@dataclass(frozen=True)
class Task:
    """The task of a run.

    Attributes:
        contestant: Name of the contestant.
        action: `BUILD`, `APPLY` or `LOAD`.
        work: The contestant's own folder, with its table.
        load_files: Full-load files, in order.
        change_files: Change files, in order.
        key: The key columns.
        partition: The partition column; empty: none.
        partition_values: Number of its values.
        data_files: Number of data files in the starting table.
        past_files: Change files to apply one at a time after the full load, when creating the starting table.
        history: Whether the table has a history.
        on_s3: Whether the table is on S3; the AWS SDKs' variables contain the endpoint. Otherwise it is in `work`.
        readers: The table's setting `Readers`.
        touched: Data files of the plain starting table that contain updated or deleted rows or receive inserts,
            relative to the table's folder.
    """

    contestant: str
    action: str
    work: str
    load_files: tuple[str, ...]
    change_files: tuple[str, ...]
    key: tuple[str, ...]
    partition: str
    partition_values: int
    data_files: int
    past_files: tuple[str, ...] = ()
    history: bool = False
    on_s3: bool = False
    readers: str = "folder"
    touched: tuple[str, ...] = ()

    def write(self, path: Path) -> None:
        """Write as JSON."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Task:
        """Inverse of `write`."""
        data = json.loads(path.read_text(encoding="utf-8"))
        lists = {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
        return cls(**{**data, **lists})


@dataclass(frozen=True)
class TableFiles:
    """The files of a contestant's table.

    Attributes:
        data: Absolute paths of Parquet files; folder names may contain partition columns.
        position_deletes: Parquet files with the columns `file_path` and `pos`: deleted rows of `data`.
        versions: Absolute paths of the Parquet files of the table's history.
    """

    data: tuple[str, ...]
    position_deletes: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run. Times are `time.monotonic`, which all processes of a machine share.

    Attributes:
        ready: When the session was warm.
        ended: When the result was visible.
        files: The table afterwards.
        detail: Further details that the contestant reports.
    """

    ready: float
    ended: float
    files: TableFiles
    detail: dict[str, Any] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write as JSON."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Outcome:
        """Inverse of `write`."""
        data = json.loads(path.read_text(encoding="utf-8"))
        files = {name: tuple(paths) for name, paths in data.pop("files").items()}
        return cls(files=TableFiles(**files), **data)
