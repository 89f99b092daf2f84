"""What a rewrite costs at the least: pyarrow reads the touched files and writes them again as they are."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.contestants.folders import link, parquet_files
from benchmarks.rows import REGIONS
from benchmarks.task import TableFiles

if TYPE_CHECKING:
    from benchmarks.task import Task

_THREADS = 2


class Engine:
    """The limit. Its table is plain: the source's columns, and partitions in folders."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._table = Path(task.work) / "table"

    def start(self) -> None:
        """See `Contestant`."""
        self._table.mkdir(exist_ok=True)

    def build(self) -> None:
        """See `Contestant`."""
        if self._task.partition is None:
            link(self._task.load_files, self._table)
        else:
            write_partitions(self._task, self._table)

    def load(self) -> dict[str, Any]:
        """See `Contestant`."""
        targets = [self._table / Path(file).name for file in self._task.load_files]
        return _copied(list(map(Path, self._task.load_files)), targets)

    def apply(self) -> dict[str, Any]:
        """See `Contestant`."""
        touched = [self._table / file for file in self._task.touched]
        written = [file.with_name(f"new-{file.name}") for file in touched]
        told = _copied(touched, written)
        for file in touched:
            file.unlink()
        return told

    def files(self) -> TableFiles:
        """See `Contestant`."""
        return TableFiles(parquet_files(self._table))


def write_partitions(task: Task, folder: Path) -> None:
    """Write the full load into folders by partition, each with its share of the table's data files."""
    rows = pq.read_table(list(task.load_files))
    column = rows[task.partition].to_numpy()
    for value in REGIONS:
        numbers = np.flatnonzero(column == value)
        target = folder / f"{task.partition}={value}"
        target.mkdir(parents=True)
        for number, piece in enumerate(np.array_split(numbers, task.data_files // len(REGIONS))):
            pq.write_table(rows.take(piece).drop_columns([task.partition]), target / f"part-{number:05d}.parquet")


def _copied(sources: list[Path], targets: list[Path]) -> dict[str, Any]:
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(_copy, sources, targets))
    return {"files": len(sources)}


def _copy(source: Path, target: Path) -> None:
    with pq.ParquetFile(source) as parquet:  # no schema from folder names: the file as it is
        rows = parquet.read(use_threads=False)
    pq.write_table(rows, target, compression="snappy")
