"""What a contestant's process is told to do, and what it answers; both travel as JSON files."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

BUILD = "build"
"""Make the starting table from the full-load files; not timed."""
APPLY = "apply"
"""Apply the change files to the starting table."""
LOAD = "load"
"""Load the table from the full-load files."""


@dataclass(frozen=True)
class Task:
    """One run of one contestant.

    Attributes:
        contestant: Its name.
        action: `BUILD`, `APPLY` or `LOAD`.
        work: Folder that holds the contestant's table and nothing of others; it may do there as it likes.
        load_files: Full-load files, in order.
        change_files: Change files, in order.
        key: The key column.
        partition: The partition column; None if there is none.
        data_files: How many data files the starting table has.
        touched: Data files of the plain starting table that hold a row that the change updates or deletes, or take its
            inserts; relative to the table's folder.
    """

    contestant: str
    action: str
    work: str
    load_files: tuple[str, ...]
    change_files: tuple[str, ...]
    key: str
    partition: str | None
    data_files: int
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
    """Where the rows of a contestant's table lie.

    Attributes:
        data: Absolute paths of Parquet files; partition columns may lie in folder names.
        position_deletes: Parquet files with the columns `file_path` and `pos`: rows of `data` that are not there.
    """

    data: tuple[str, ...]
    position_deletes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What a run came to. Moments are `time.monotonic`, which all processes of a machine share.

    Attributes:
        ready: When the session was there, and warm.
        ended: When the result was visible.
        files: The table afterwards.
        detail: What the contestant has to tell, for a person.
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
