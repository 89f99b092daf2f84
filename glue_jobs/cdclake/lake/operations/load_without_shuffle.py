"""Computes a full load without a shuffle of its rows, in the order of its keys or of its raw files.

See `cdclake.lake.merge.full_load`.
"""

from __future__ import annotations

from functools import partial, reduce
from operator import add
from typing import TYPE_CHECKING

from cdclake.lake.merge.full_load import load_slices, sorted_groups
from cdclake.lake.merge.read_changes import ReadStats
from cdclake.lake.merge.repeated_keys import any_repeats
from cdclake.lake.merge.resolve import Counts
from cdclake.lake.merge.tasks.resolution import Resolution
from cdclake.lake.merge.tasks.write_file import WriteResult
from cdclake.lake.operations.request import Result
from cdclake.lake.operations.timing import timed
from cdclake.lake.storage.bloom import filtered_column
from cdclake.lake.storage.key_ranges import overlapping_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake.lake.merge.full_load import LoadedSlices, LoadResult
    from cdclake.lake.operations.request import Request
    from cdclake.lake.spark.backend import Backend


def load_without_shuffle(backend: Backend, request: Request) -> Result | None:
    """Compute a full load by key, or in the order of the raw files, and stage its files.

    A table with history needs a shuffle anyway, because its versions are built per range of keys.

    Returns:
        The result; None if the change is no full load, or one whose rows need a shuffle.
    """
    if not request.full_load or request.by_difference or request.history:
        return None
    shape, has_key, partitioned = request.shape, bool(request.shape.primary_key), bool(request.shape.partition_key)
    group = partial(
        sorted_groups,
        request.parts,
        partitioned=partitioned,
        target_file_bytes=request.settings.target_file_bytes,
        parallelism=backend.parallelism,
        limits=request.limits,
    )
    groups, buckets = group(by_key=has_key), 0
    if not groups and not partitioned and len(shape.primary_key) == 1 and filtered_column(shape):
        groups = group(by_key=False)
        buckets = len(groups or ())
    if not groups:
        return None
    seconds: dict[str, float] = {}
    load = partial(load_slices, reading=request.reading, buckets=buckets)
    with timed(seconds, "load"):
        nothing: tuple[LoadResult, ...] = ()
        tasks, loaded = backend.distribute(groups).run(load).keep(_results, nothing)
        read = reduce(add, (one.read for one in loaded), ReadStats())
        request.require_few_bad_rows(read.quarantine, read.rows)
        is_proven = not any(one.is_refused for one in loaded)
        if buckets:
            is_proven = is_proven and not any_repeats(tasks.flat_map(_hashes), buckets)
        elif has_key:
            written = [file for one in loaded for file in one.written]
            is_proven = is_proven and (len(loaded) == 1 or not overlapping_files(written))
        tasks.discard()
    if not is_proven:  # a key repeats, or the footers mislead; the clean-up deletes what was staged
        return None
    resolution = Resolution(Counts(applied=read.rows, inserted=read.rows))
    return Result.of(request, read, resolution, [WriteResult(one.written) for one in loaded], (), seconds)


def _hashes(loaded: LoadedSlices) -> Iterator[tuple[int, bytes]]:
    return enumerate(loaded.hashes)


def _results(loaded: LoadedSlices) -> tuple[LoadResult, ...]:
    return (loaded.result,)
