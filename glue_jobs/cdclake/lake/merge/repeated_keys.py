"""Finds rows of a full load that repeat a key, where no task has all rows of a key.

Only hashes of the keys are shuffled: few bytes for a proof that no key repeats. If a hash occurs twice, all keys are
shuffled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.merge.resolve import in_order, is_last_of_key
from cdclake.lake.storage.arrow_ipc import Rows, concat
from cdclake.lake.storage.keys import KEY, key_hashes
from cdclake.model.position import COLUMN as POSITION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from cdclake.lake.merge.tasks.resolution import Resolution
    from cdclake.lake.spark.backend import Partitions
    from cdclake.lake.storage.shape import TableShape


def hashes_by_bucket(keys: pa.ChunkedArray, buckets: int) -> tuple[bytes, ...]:
    """Hashes of keys as 64-bit integers in the machine's byte order; equal hashes are in one bucket."""
    hashes = key_hashes(keys)
    numbers = hashes % np.uint64(buckets)
    return tuple(hashes[numbers == number].tobytes() for number in range(buckets))


def any_repeats(hashes: Partitions[tuple[int, bytes]], buckets: int) -> bool:
    """Whether a hash occurs twice in a bucket.

    Args:
        hashes: Pairs of a bucket and its hashes, see `hashes_by_bucket`.
    """
    return any(hashes.shuffle(buckets).map_partitions(repeats_hash).collect())


def repeats_hash(entries: Iterable[bytes]) -> Iterator[bool]:
    """Whether a hash occurs twice in a bucket."""
    parts = [np.frombuffer(data, np.uint64) for data in entries]
    hashes = np.sort(np.concatenate([np.empty(0, np.uint64), *parts]))  # NumPy's `unique` takes ten times as long
    yield bool((hashes[1:] == hashes[:-1]).any())


def added_hashes(resolution: Resolution, *, buckets: int) -> Iterator[tuple[int, bytes]]:
    """Hashes of the keys of added rows, by bucket."""
    if resolution.additions:
        yield from enumerate(hashes_by_bucket(resolution.additions.columns([KEY])[KEY], buckets))


def added_keys(resolution: Resolution, *, buckets: int) -> Iterator[tuple[int, Rows]]:
    """Keys and positions of added rows, by bucket."""
    if not resolution.additions:
        return
    rows = resolution.additions.columns([KEY, POSITION])
    numbers: NDArray[np.uint64] = key_hashes(rows[KEY]) % np.uint64(buckets)
    for number in range(buckets):
        yield number, Rows.to_keep(rows.filter(pa.array(numbers == number)))


def earlier_positions(entries: Iterable[Rows], *, shape: TableShape, limit: int) -> Iterator[str]:
    """Positions of all rows of a bucket but the last of each key, and not many more than `limit` of them."""
    empty = pa.schema([shape.in_flight.field(name) for name in (KEY, POSITION)])
    rows = in_order(concat(entries, empty), (KEY, POSITION))
    if rows.num_rows:
        earlier = rows[POSITION].filter(pc.invert(is_last_of_key(rows[KEY].combine_chunks())))
        yield from earlier.slice(0, limit + 1).to_pylist()
