"""Full loads and change files, cached by size, with the expected checksums."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from benchmarks.change import checksum_after, write_change_files
from benchmarks.checksum import Checksum, checksum
from benchmarks.rows import PARTITION, REGIONS, SEED, region_of, rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.change import Change
    from benchmarks.rows import Numbers
    from benchmarks.workloads import Table, Workload

FORMAT = 1
"""Increase it when the rows or their files change, to invalidate cached data."""
_THREADS = 2


class FullLoad(NamedTuple):
    """The full load of a table.

    Attributes:
        files: Full-load files, in order.
        checksum: Of all rows.
    """

    files: tuple[str, ...]
    checksum: Checksum


class Changes(NamedTuple):
    """The change files of a workload.

    Attributes:
        files: Change files, in order.
        touched: Data files of the plain table that the change affects, relative to the table's folder.
        checksum: Expected checksum of the table afterwards.
    """

    files: tuple[str, ...]
    touched: tuple[str, ...]
    checksum: Checksum


def folder_of(cache: Path, table: Table) -> Path:
    """The cache folder of a table; partitioned tables share the full load of plain ones."""
    return cache / f"format{FORMAT}-seed{SEED}" / f"{table.rows}x{table.files}{'-uuid' if table.uuid_keys else ''}"


def full_load(cache: Path, table: Table) -> FullLoad:
    """The full load of a table, from the cache or newly created."""

    def create(folder: Path) -> None:
        def write(number: int, numbers: Numbers) -> Checksum:
            part = rows(numbers, 0, uuid_keys=table.uuid_keys)
            pq.write_table(part, folder / f"LOAD{number:08X}.parquet")
            return checksum(part)

        with ThreadPoolExecutor(_THREADS) as pool:
            sums = pool.map(write, range(1, table.files + 1), np.array_split(np.arange(table.rows), table.files))
        (folder / "checksum.json").write_text(json.dumps(asdict(sum(sums, Checksum()))), encoding="utf-8")

    folder = cached_folder(folder_of(cache, table) / "full-load", create)
    stored = json.loads((folder / "checksum.json").read_text(encoding="utf-8"))
    return FullLoad(tuple(map(str, sorted(folder.glob("LOAD*.parquet")))), Checksum(**stored))


def changes(cache: Path, workload: Workload, change: Change) -> Changes:
    """The change files of a workload, from the cache or newly created."""
    table = workload.table
    before = full_load(cache, table).checksum

    def create(folder: Path) -> None:
        write_change_files(change, folder, uuid_keys=table.uuid_keys)
        after = checksum_after(before, change, uuid_keys=table.uuid_keys)
        (folder / "checksum.json").write_text(json.dumps(asdict(after)), encoding="utf-8")

    folder = cached_folder(folder_of(cache, table) / "changes" / workload.name, create)
    stored = json.loads((folder / "checksum.json").read_text(encoding="utf-8"))
    files = tuple(map(str, sorted(folder.glob("*.parquet"))))
    touched = _touched_partitions(table, change) if table.partitioned else _touched_files(table, change)
    return Changes(files, touched, Checksum(**stored))


def cached_folder(folder: Path, create: Callable[[Path], None]) -> Path:
    """A folder that `create` fills if it does not exist. An interrupted run leaves no incomplete folder."""
    if not folder.exists():
        unfinished = folder.with_name(f"{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        create(unfinished)
        unfinished.rename(folder)
    return folder


def _touched_files(table: Table, change: Change) -> tuple[str, ...]:
    starts = [int(piece[0]) for piece in np.array_split(np.arange(table.rows), table.files)]
    existing = np.concatenate([change.updated, change.deleted])
    touched = {*np.searchsorted(starts, existing, "right").tolist(), table.files}  # inserts go to the last
    return tuple(f"LOAD{number:08X}.parquet" for number in sorted(touched))


def _touched_partitions(table: Table, change: Change) -> tuple[str, ...]:
    existing = np.concatenate([change.updated, change.deleted])
    targets = np.concatenate([region_of(change.updated, change.last_version), region_of(change.inserted, 1)])
    regions, sources = region_of(np.arange(table.rows), 0), region_of(existing, 0)
    touched = []
    for region, name in enumerate(REGIONS):
        pieces = np.array_split(np.flatnonzero(regions == region), table.files // len(REGIONS))
        starts = [int(piece[0]) for piece in pieces]
        files = set((np.searchsorted(starts, existing[sources == region], "right") - 1).tolist())
        if region in targets:
            files.add(len(pieces) - 1)
        touched += [f"{PARTITION}={name}/part-{number:05d}.parquet" for number in sorted(files)]
    return tuple(touched)
