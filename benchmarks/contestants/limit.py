"""The lower limit of a rewrite: pyarrow reads the touched files and writes them unchanged."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.contestants.folders import FolderEngine, link

if TYPE_CHECKING:
    from benchmarks.task import Task

_THREADS = 2


class Engine(FolderEngine):
    """The limit. Its table has only the source's columns, with partitions in folders."""

    def build(self) -> None:
        """See `Contestant`."""
        if not self._task.partition:
            link(self._task.load_files, self._table)
        else:
            write_partitions(self._task, self._table)

    def load(self) -> dict[str, Any]:
        """See `Contestant`."""
        targets = [self._table / Path(file).name for file in self._task.load_files]
        return _copy_all(list(map(Path, self._task.load_files)), targets)

    def apply(self) -> dict[str, Any]:
        """See `Contestant`."""
        touched = [self._table / file for file in self._task.touched]
        written = [file.with_name(f"new-{file.name}") for file in touched]
        details = _copy_all(touched, written)
        for file in touched:
            file.unlink()
        return details


def write_partitions(task: Task, folder: Path) -> None:
    """Write the full load into a folder per partition, with equal numbers of data files."""
    rows = pq.read_table(list(task.load_files)).combine_chunks()
    column = rows[task.partition].combine_chunks().dictionary_encode()
    codes = column.indices.to_numpy()
    rows = rows.take(np.argsort(codes, kind="stable")).drop_columns([task.partition]).combine_chunks()
    ends = np.cumsum(np.bincount(codes))
    for value, numbers in zip(column.dictionary.to_pylist(), np.split(np.arange(len(codes)), ends[:-1]), strict=True):
        target = folder / f"{task.partition}={value}"
        target.mkdir(parents=True)
        for number, piece in enumerate(np.array_split(numbers, task.data_files // task.partition_values)):
            pq.write_table(rows.slice(piece[0], len(piece)), target / f"part-{number:05d}.parquet")


def _copy_all(sources: list[Path], targets: list[Path]) -> dict[str, Any]:
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(_copy, sources, targets))
    return {"files": len(sources)}


def _copy(source: Path, target: Path) -> None:
    with pq.ParquetFile(source) as parquet:  # ParquetFile adds no columns from folder names
        rows = parquet.read(use_threads=False)
    pq.write_table(rows, target, compression="snappy")
