"""Loads a full load whose raw files are sorted by key, without a shuffle.

DMS unloads a table by its primary key, so that as a rule the rows of one slice of a raw file all come before those of
the next. Then a task can make data files of a few neighbouring slices by itself, with key ranges as tight as can be.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from math import ceil
from typing import TYPE_CHECKING

import pyarrow as pa

from cdclake.lake.merge.merge_file import MergeSpec, merge
from cdclake.lake.merge.tasks import ReadStats, WriteResult
from cdclake.lake.raw.quarantine import BadRowCollector, quarantine_rows
from cdclake.lake.raw.read_ahead import read_all
from cdclake.lake.storage.partitions import by_partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cdclake.lake.merge.tasks import Locations
    from cdclake.lake.raw.reader import Slice
    from cdclake.lake.raw.rows import BadRow
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.snapshot import DataFile, KeyValue
    from cdclake.model.table import TableName, TableSettings

MIN_BYTES_PER_TASK = 8 << 20
MAX_TARGETS_PER_TASK = 2
"""A task holds its rows in memory; one that would get more raw data than so many data files' is too much."""


def sorted_groups(
    slices: Sequence[Slice], *, has_key: bool, partitioned: bool, target_file_bytes: int, parallelism: int
) -> list[list[Slice]] | None:
    """Group slices so that each group's rows come before the next one's, as far as the raw files' footers tell.

    Args:
        slices: All slices of a full load, in file order.
        has_key: Whether the table has a key; if not, every order is right.
        partitioned: Whether the table has partitions: then one group at most is right, as each writes to partitions of
            its own accord, and several would leave several small files in each.
        target_file_bytes: Size that data files grow to.
        parallelism: How many tasks Spark runs side by side.

    Returns:
        The groups, or None if a shuffle has to bring the rows in order.
    """
    most_bytes = MAX_TARGETS_PER_TASK * target_file_bytes
    total = sum(part.size_bytes for part in slices)
    if partitioned:
        return [list(slices)] if slices and total <= target_file_bytes else None
    runs = _runs(slices) if has_key else [[part] for part in slices]
    if runs is None or any(_bytes(run) > most_bytes for run in runs):
        return None
    wanted = _task_count(total, target_file_bytes, parallelism)
    groups: dict[int, list[Slice]] = {}
    done = 0
    for run in runs:
        middle = done + _bytes(run) // 2
        groups.setdefault(min(middle * wanted // max(total, 1), wanted - 1), []).extend(run)
        done += _bytes(run)
    return list(groups.values()) if all(_bytes(group) <= most_bytes for group in groups.values()) else None


def key_ranges_are_disjoint(ranges: Sequence[Sequence[DataFile]]) -> bool:
    """Whether what tasks wrote proves that no key of one is also another's.

    Args:
        ranges: The data files that each task wrote.
    """
    spans = [_span(files) for files in ranges if files]
    known = [(low, high) for low, high in spans if low is not None and high is not None]
    known.sort()
    return (
        len(known) == len(spans)
        and all(
            before[1] < after[0]  # type: ignore[operator]  # likewise
            for before, after in zip(known, known[1:])
        )
    )


@dataclass(frozen=True)
class LoadResult:
    """What one task read and wrote."""

    read: ReadStats
    written: WriteResult


def load_slices(
    task: int,
    groups: Iterable[Sequence[Slice]],
    *,
    locations: Locations,
    shape: TableShape,
    settings: TableSettings,
    table: TableName,
    attempt: str,
) -> Iterator[LoadResult]:
    """Write the rows of some slices of a full load, one data file for each partition."""
    raw, lake = locations.raw.open(), locations.lake.open()
    batches: list[pa.Table] = []
    bad_rows = BadRowCollector(settings.max_quarantined_rows)
    for batch in read_all(raw, chain.from_iterable(groups), shape, settings, table):
        bad_rows.add(batch.bad_rows)
        batches.append(batch.rows)
    most = settings.max_quarantined_rows
    aside = bad_rows.write(lake, f"{locations.quarantine}read-{task:05d}.jsonl")
    rows = pa.concat_tables(batches) if batches else shape.in_flight.empty_table()
    stats = ReadStats(inserts=rows.num_rows, quarantine=aside)
    if aside.rows > most:  # the change will be refused
        yield LoadResult(stats, WriteResult())
        return
    files: list[DataFile] = []
    repeated: list[BadRow] = []
    for number, (partition, part_rows) in enumerate(by_partition(rows, shape.partition_key)):
        key = f"{locations.staging}{task:05d}-{number:05d}-{attempt}.parquet"
        merged = merge(lake, MergeSpec((), 0, partition, 1, (key,), full_load=True), shape, None, part_rows)
        files += merged.files
        repeated += merged.repeated
    left_out = quarantine_rows(lake, f"{locations.quarantine}write-{task:05d}.jsonl", repeated, most)
    yield LoadResult(stats, WriteResult(tuple(files), quarantine=left_out))


def _runs(slices: Sequence[Slice]) -> list[list[Slice]] | None:
    """Slices by key, those that overlap or touch together; None if not all tell their range."""
    if any(part.bounds[0] is None or part.bounds[1] is None for part in slices):
        return None
    runs: list[list[Slice]] = []
    end: KeyValue = None
    for part in sorted(slices, key=lambda part: part.bounds[0]):  # type: ignore[arg-type, return-value]  # no None
        low, high = part.bounds
        if end is None or low > end:  # type: ignore[operator]  # one kind in a table
            runs.append([])
        runs[-1].append(part)
        end = high if end is None or high > end else end  # type: ignore[operator]  # likewise
    return runs


def _task_count(total_bytes: int, target_file_bytes: int, parallelism: int) -> int:
    """As many tasks as there are data files to write, but enough for all cores, which should end together."""
    count = max(ceil(total_bytes / target_file_bytes), min(parallelism, total_bytes // MIN_BYTES_PER_TASK), 1)
    return ceil(count / parallelism) * parallelism if count > 1 else 1


def _bytes(slices: Sequence[Slice]) -> int:
    return sum(part.size_bytes for part in slices)


def _span(files: Sequence[DataFile]) -> tuple[KeyValue, KeyValue]:
    if any(file.key_min is None or file.key_max is None for file in files):
        return None, None
    return min(file.key_min for file in files), max(file.key_max for file in files)  # type: ignore[type-var]
