"""File operations of contestants."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.task import TableFiles

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.task import Task


class FolderEngine:
    """The common part of contestants whose table is a folder of Parquet files."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._table = Path(task.work) / "table"

    def start(self) -> None:
        """See `Contestant`."""
        self._table.mkdir(exist_ok=True)

    def files(self) -> TableFiles:
        """See `Contestant`."""
        return TableFiles(parquet_files(self._table))


def load_groups(task: Task) -> list[tuple[str, ...]]:
    """Groups of full-load files; each becomes a data file of the starting table, or a file in each partition."""
    groups = task.data_files // max(task.partition_values, 1)
    size = len(task.load_files) // groups
    return [task.load_files[start : start + size] for start in range(0, len(task.load_files), size)]


def parquet_files(folder: Path) -> tuple[str, ...]:
    """Parquet files below a folder, sorted by path, without hidden paths (starting with a dot or underscore)."""
    files = (path for path in folder.rglob("*.parquet") if path.is_file())
    visible = (path for path in files if not any(part[0] in "._" for part in path.relative_to(folder).parts))
    return tuple(sorted(str(path) for path in visible))


def link(files: Iterable[str], folder: Path) -> None:
    """Hard-link files into a folder; existing Parquet files are never modified."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        os.link(file, folder / Path(file).name)


def copy_tree(source: Path, target: Path) -> None:
    """Copy a folder: hard-link Parquet files, and copy all others, some of which are modified in place."""
    shutil.copytree(source, target, copy_function=_link_or_copy)


def _link_or_copy(source: str, target: str) -> None:
    if source.endswith(".parquet"):
        os.link(source, target)
    else:
        shutil.copy2(source, target)
