"""Full loads and change files, cached by size, with the expected checksums."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from benchmarks.change import (
    CHANGES_BEGIN_UTC,
    checksum_after,
    checksum_of_versions,
    past_of,
    write_change_files,
)
from benchmarks.checksum import Checksum, checksum
from benchmarks.rows import REGION, SEED, region_of, rows, store_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from benchmarks.change import Change
    from benchmarks.rows import Numbers
    from benchmarks.workloads import Table, Workload

FORMAT = 2
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
        versions: Expected checksum of its history.
    """

    files: tuple[str, ...]
    touched: tuple[str, ...]
    checksum: Checksum
    versions: Checksum


def folder_of(cache: Path, table: Table) -> Path:
    """The cache folder of a table; tables with the same full load share it."""
    options = {**asdict(table.source), "row_group_rows": table.row_group_rows, "past": table.past}
    options |= {"shuffled": table.shuffled, "aged": table.aged}
    names = [
        f"-{name.removesuffix('_keys')}{'' if value is True else value}" for name, value in options.items() if value
    ]
    return cache / f"format{FORMAT}-seed{SEED}" / f"{table.rows}x{table.files}{''.join(names)}"


def full_load(cache: Path, table: Table) -> FullLoad:
    """The full load of a table, from the cache or newly created. That of an aged table precedes its small changes."""

    def create(folder: Path) -> None:
        def write(number: int, numbers: Numbers) -> Checksum:
            part = rows(numbers, 0 if table.aged else versions_of(table, numbers), table.source)
            pq.write_table(part, folder / f"LOAD{number:08X}.parquet", row_group_size=table.row_group_rows or None)
            return checksum(part)

        with ThreadPoolExecutor(_THREADS) as pool:
            sums = pool.map(write, range(1, table.files + 1), np.array_split(_load_order(table), table.files))
        _write_checksums(folder, sum(sums, Checksum()))

    folder = cached_folder(folder_of(cache, table) / "full-load", create)
    return FullLoad(tuple(map(str, sorted(folder.glob("LOAD*.parquet")))), *_read_checksums(folder))


def past_files(cache: Path, table: Table) -> tuple[str, ...]:
    """The files of an aged table's small changes, in order, from the cache or newly created."""

    def create(folder: Path) -> None:
        begin_utc = CHANGES_BEGIN_UTC - timedelta(minutes=table.past)
        for i, change in enumerate(past_of(table.rows, table.past)):
            write_change_files(change, folder, table.source, begin_utc + timedelta(minutes=i))

    folder = cached_folder(folder_of(cache, table) / "past", create)
    return tuple(map(str, sorted(folder.glob("*.parquet"))))


def changes(cache: Path, workload: Workload, change: Change) -> Changes:
    """The change files of a workload, from the cache or newly created."""
    table = workload.table
    before = full_load(cache, replace(table, aged=False)).checksum

    def create(folder: Path) -> None:
        write_change_files(change, folder, table.source)
        replaced = versions_of(table, np.concatenate([change.updated, change.deleted]))
        after = checksum_after(before, change, table.source, replaced)
        _write_checksums(folder, after, checksum_of_versions(before, change, table.source))

    folder = cached_folder(folder_of(cache, table) / "changes" / workload.name, create)
    files = tuple(map(str, sorted(folder.glob("*.parquet"))))
    return Changes(files, _touched(table, change), *_read_checksums(folder))


def versions_of(table: Table, numbers: Numbers) -> Numbers:
    """The version of each row before the change of the workload."""
    past = past_of(table.rows, table.past) if table.past else []
    changed = [rows for change in past for rows in (change.updated, change.inserted)]
    return np.isin(numbers, np.concatenate([numbers[:0], *changed])).astype(np.int64)


def cached_folder(folder: Path, create: Callable[[Path], None]) -> Path:
    """A folder that `create` fills if it does not exist. An interrupted run leaves no incomplete folder."""
    if not folder.exists():
        unfinished = folder.with_name(f"{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        create(unfinished)
        unfinished.rename(folder)
    return folder


def _write_checksums(folder: Path, *sums: Checksum) -> None:
    (folder / "checksums.json").write_text(json.dumps([asdict(one) for one in sums]), encoding="utf-8")


def _read_checksums(folder: Path) -> list[Checksum]:
    return [Checksum(**one) for one in json.loads((folder / "checksums.json").read_text(encoding="utf-8"))]


def _load_order(table: Table) -> Numbers:
    """The numbers of the full load's rows, in order: by key, unless the table is shuffled."""
    numbers = np.arange(table.loaded_rows)
    if table.shuffled:
        return np.random.default_rng(SEED).permutation(numbers)
    return np.argsort(numbers % max(table.source.tenants, 1), kind="stable")


def _touched(table: Table, change: Change) -> tuple[str, ...]:
    """Data files of updated, deleted and inserted rows; inserts go to the last file of their tenant or partition."""
    order, tenants = _load_order(table), max(table.source.tenants, 1)
    names: list[str] = []
    file_of, last_file = np.zeros(table.rows, np.int64), []
    for folder, group in _partitions(table, order):
        pieces = np.array_split(group, table.data_files // max(len(table.partition_values), 1))
        for number, piece in enumerate(pieces):
            file_of[piece] = len(names)
            names.append(f"{folder}/part-{number:05d}.parquet" if folder else f"LOAD{number + 1:08X}.parquet")
        last_file.append(len(names) - 1)
    touched = {*file_of[change.updated].tolist(), *file_of[change.deleted].tolist()}
    if table.partition:
        new = [(change.updated, change.last_version), (change.inserted, change.version)]
        touched |= {last_file[target] for rows_and_version in new for target in _partition_of(table, *rows_and_version)}
    else:
        touched |= set(file_of[table.rows - tenants :].tolist())
    return tuple(names[number] for number in sorted(touched))


def _partitions(table: Table, order: Numbers) -> Iterator[tuple[str, Numbers]]:
    """Folder and row numbers of each partition, in a partitioned table; else all rows."""
    if not table.partition:
        yield "", order
        return
    partitions = _partition_of(table, order, 0)
    by_partition = order[np.argsort(partitions, kind="stable")]
    ends = np.cumsum(np.bincount(partitions, minlength=len(table.partition_values)))
    for value, numbers in zip(table.partition_values, np.split(by_partition, ends[:-1]), strict=True):
        yield f"{table.partition}={value}", numbers


def _partition_of(table: Table, numbers: Numbers, version: int) -> Numbers:
    """Index of each row's partition."""
    return region_of(numbers, version) if table.partition == REGION else store_of(numbers, table.source)
