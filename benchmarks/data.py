"""Full loads and change files, made once for each size and kept; and what must come of them."""

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
"""Raised by one when the rows or their files change, so that data kept from before are not used."""
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
    """What a workload changes.

    Attributes:
        files: Change files, in order.
        touched: Data files of the plain table that the change touches, relative to its folder.
        checksum: Of the table afterwards.
    """

    files: tuple[str, ...]
    touched: tuple[str, ...]
    checksum: Checksum


def folder_of(cache: Path, table: Table) -> Path:
    """Where the data of a table are kept; partitioned or not, its full load is the same."""
    return cache / f"format{FORMAT}-seed{SEED}" / f"{table.rows}x{table.files}{'-uuid' if table.uuid_keys else ''}"


def full_load(cache: Path, table: Table) -> FullLoad:
    """The full load of a table, made if it is not there yet."""

    def make(folder: Path) -> None:
        def write(number: int, numbers: Numbers) -> Checksum:
            made = rows(numbers, 0, uuid_keys=table.uuid_keys)
            pq.write_table(made, folder / f"LOAD{number:08X}.parquet")
            return checksum(made)

        with ThreadPoolExecutor(_THREADS) as pool:
            sums = pool.map(write, range(1, table.files + 1), np.array_split(np.arange(table.rows), table.files))
        (folder / "checksum.json").write_text(json.dumps(asdict(sum(sums, Checksum()))), encoding="utf-8")

    folder = made_once(folder_of(cache, table) / "full-load", make)
    known = json.loads((folder / "checksum.json").read_text(encoding="utf-8"))
    return FullLoad(tuple(map(str, sorted(folder.glob("LOAD*.parquet")))), Checksum(**known))


def changes(cache: Path, workload: Workload, change: Change) -> Changes:
    """The change files of a workload, made if they are not there yet."""
    table = workload.table
    before = full_load(cache, table).checksum

    def make(folder: Path) -> None:
        write_change_files(change, folder, uuid_keys=table.uuid_keys)
        after = checksum_after(before, change, uuid_keys=table.uuid_keys)
        (folder / "checksum.json").write_text(json.dumps(asdict(after)), encoding="utf-8")

    folder = made_once(folder_of(cache, table) / "changes" / workload.name, make)
    known = json.loads((folder / "checksum.json").read_text(encoding="utf-8"))
    files = tuple(map(str, sorted(folder.glob("*.parquet"))))
    touched = _touched_partitions(table, change) if table.partitioned else _touched_files(table, change)
    return Changes(files, touched, Checksum(**known))


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """A folder that `make` fills: in another place first, so that a run that dies leaves no half of it."""
    if not folder.exists():
        unfinished = folder.with_name(f"{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        make(unfinished)
        unfinished.rename(folder)
    return folder


def _touched_files(table: Table, change: Change) -> tuple[str, ...]:
    starts = [int(piece[0]) for piece in np.array_split(np.arange(table.rows), table.files)]
    known = np.concatenate([change.updated, change.deleted])
    hit = {*np.searchsorted(starts, known, "right").tolist(), table.files}  # inserts go to the last
    return tuple(f"LOAD{number:08X}.parquet" for number in sorted(hit))


def _touched_partitions(table: Table, change: Change) -> tuple[str, ...]:
    known = np.concatenate([change.updated, change.deleted])
    came = np.concatenate([region_of(change.updated, change.last_version), region_of(change.inserted, 1)])
    regions, went = region_of(np.arange(table.rows), 0), region_of(known, 0)
    touched = []
    for region, name in enumerate(REGIONS):
        pieces = np.array_split(np.flatnonzero(regions == region), table.files // len(REGIONS))
        hit = set((np.searchsorted([int(piece[0]) for piece in pieces], known[went == region], "right") - 1).tolist())
        if region in came:
            hit.add(len(pieces) - 1)
        touched += [f"{PARTITION}={name}/part-{number:05d}.parquet" for number in sorted(hit)]
    return tuple(touched)
