"""The task of a full load whose raw files lie in the order of the key: from slices straight to data files."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from cdclake.lake.merge.merge_file import MergeJob, merge
from cdclake.lake.merge.resolve import by_partition
from cdclake.lake.merge.tasks import ReadStats, Written
from cdclake.lake.raw.quarantine import BadRows, put_aside
from cdclake.lake.raw.read_ahead import read_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cdclake.lake.merge.tasks import Places
    from cdclake.lake.raw.reader import Slice
    from cdclake.lake.raw.rows import BadRow
    from cdclake.lake.storage.reader import TableShape
    from cdclake.model.snapshot import DataFile
    from cdclake.model.table import TableName, TableSettings


@dataclass(frozen=True)
class Loaded:
    """What one task read and wrote."""

    read: ReadStats
    written: Written


def load_slices(
    task: int,
    groups: Iterable[Sequence[Slice]],
    *,
    places: Places,
    shape: TableShape,
    settings: TableSettings,
    table: TableName,
    attempt: str,
) -> Iterator[Loaded]:
    """Write the rows of some slices of a full load, one data file for each partition."""
    raw, lake = places.raw.open(), places.lake.open()
    batches: list[pa.Table] = []
    bad_rows = BadRows(settings.max_quarantined_rows)
    for batch in read_all(raw, chain.from_iterable(groups), shape, settings, table):
        bad_rows.add(batch.bad_rows)
        batches.append(batch.rows)
    most = settings.max_quarantined_rows
    aside = bad_rows.put_aside(lake, f"{places.quarantine}read-{task:05d}.jsonl")
    rows = pa.concat_tables(batches) if batches else shape.in_flight.empty_table()
    stats = ReadStats(inserts=rows.num_rows, quarantine=aside)
    if aside.rows > most:  # the change will be refused
        yield Loaded(stats, Written())
        return
    files: list[DataFile] = []
    repeated: list[BadRow] = []
    for number, (partition, part_rows) in enumerate(by_partition(rows, shape.partition_key)):
        key = f"{places.staging}{task:05d}-{number:05d}-{attempt}.parquet"
        merged = merge(lake, MergeJob((), 0, partition, 1, (key,), full_load=True), shape, None, part_rows)
        files += merged.files
        repeated += merged.repeated
    left_out = put_aside(lake, f"{places.quarantine}write-{task:05d}.jsonl", repeated, most)
    yield Loaded(stats, Written(tuple(files), quarantine=left_out))
