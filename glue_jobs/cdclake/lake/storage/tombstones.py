"""Tombstones: deletes remembered for the late window, so that an older row that arrives late stays deleted.

They are in the control area as Parquet files of leading key, key and position, listed in the snapshot with their key
ranges. A change writes at most one file, into which it merges the smaller files before it. So the number of files grows
with the logarithm of the deletes, up to a size. Merging drops deletes that are older than the window. Files
are sorted by key, so a task reads only the row groups that may contain its keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdclake.adapters.filesystem import open_output
from cdclake.lake.limits import DEFAULT_LIMITS
from cdclake.lake.storage.keys import (
    KEY,
    LEADING_KEY,
    convert_keys,
    has_usable_bounds,
    key_range,
    matches,
    may_contain,
)
from cdclake.lake.storage.parquet.footer import footer_of, from_plain
from cdclake.lake.storage.reader import lake_file, parquet_file
from cdclake.lake.storage.writer import COMPRESSION
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.snapshot import TombstoneFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from pyarrow.fs import FileSystem

    from cdclake.adapters.filesystem import ParquetFile
    from cdclake.lake.limits import EngineLimits
    from cdclake.lake.storage.parquet.footer import Footer
    from cdclake.lake.storage.shape import TableShape

"""A change merges files only up to this many rows, because it has the merged rows in memory."""
_COLUMNS = (LEADING_KEY, KEY, POSITION)
_FILE_ORDER = r"^\d{8}-"
"""How the `file_order` of a change file begins."""


@dataclass(frozen=True)
class TombstonePlan:
    """What a change does with the existing tombstone files.

    Attributes:
        kept: Files that stay as they are.
        merged: Files that become part of the new file.
        oldest: Smallest `file_order` to remember; deletes from older change files may be dropped.
        needed: Whether the change writes a new file.
        forgotten: Greatest position in the files that are dropped; empty if none is.
    """

    kept: tuple[TombstoneFile, ...]
    merged: tuple[TombstoneFile, ...]
    oldest: str
    needed: bool
    forgotten: str = ""


NO_TOMBSTONES = TombstonePlan((), (), "", needed=False)
"""Nothing to write."""


def plan_tombstones(
    files: Sequence[TombstoneFile], new_rows: int, oldest: str, limits: EngineLimits = DEFAULT_LIMITS
) -> TombstonePlan:
    """Choose which files to drop, to keep, and to merge with `new_rows` new tombstones."""
    remembered = [file for file in files if file.newest >= oldest]
    merged: list[TombstoneFile] = []
    rows = new_rows
    while new_rows and remembered and remembered[-1].rows <= min(2 * rows, limits.tombstone_file_rows - rows):
        merged.insert(0, remembered.pop())
        rows += merged[0].rows
    forgotten = max((file.last for file in files if file.newest < oldest), default="")
    return TombstonePlan(tuple(remembered), tuple(merged), oldest, bool(new_rows), forgotten)


def find_tombstones(
    fs: FileSystem,
    files: Sequence[TombstoneFile],
    leading_keys: pa.ChunkedArray,
    keys: pa.ChunkedArray,
    shape: TableShape,
) -> pa.Table:
    """Read the tombstones of these keys: leading key, key, position."""
    if not files:
        return tombstone_schema(shape).empty_table()
    wanted, wanted_leading = pc.unique(keys), np.sort(pc.unique(leading_keys).to_numpy(zero_copy_only=False))
    low, high = key_range(leading_keys)
    tombstones = [tombstone_schema(shape).empty_table()]
    for file in files:
        has_bounds = has_usable_bounds(file, shape.key_types)
        if has_bounds and not may_contain(file, low, high):
            continue
        with lake_file(fs, file.key) as source:
            footer = footer_of(source)
            parquet = _open(source, footer)
            for group in _row_groups_with(footer, wanted_leading) if has_bounds else range(len(footer.row_groups)):
                rows = _converted(parquet.read_row_group(group, use_threads=False), file, shape)
                tombstones.append(rows.filter(matches(rows[KEY], wanted)))
    return pa.concat_tables(tombstones)


def tombstone_schema(shape: TableShape) -> pa.Schema:
    """Schema of tombstones: leading key, key, position."""
    return pa.schema([shape.in_flight.field(name) for name in _COLUMNS])


def _converted(rows: pa.Table, file: TombstoneFile, shape: TableShape) -> pa.Table:
    """Rows of a file, with the keys as the table encodes them now."""
    if file.key_types == shape.key_types:
        return rows
    leading_keys, keys = (rows[name].combine_chunks() for name in (LEADING_KEY, KEY))
    leading_keys, keys = convert_keys(leading_keys, keys, file.key_types, shape.key_types)
    return pa.table([leading_keys, keys, rows[POSITION]], schema=tombstone_schema(shape))


def _row_groups_with(footer: Footer, leading_keys: NDArray[Any]) -> Iterator[int]:
    """Row groups that may contain one of these keys, which are sorted; those without extremes may contain any."""
    kind = footer.arrow.schema.to_arrow_schema().field(LEADING_KEY).type
    for number, group in enumerate(footer.row_groups):
        low, high = footer.extremes(group, _COLUMNS.index(LEADING_KEY))
        if low is None or high is None:
            yield number
            continue
        smallest, greatest = from_plain([low, high], kind).to_pylist()
        first = np.searchsorted(leading_keys, smallest, "left")
        if first < len(leading_keys) and leading_keys[first] <= greatest:
            yield number


def _open(source: pa.NativeFile, footer: Footer) -> ParquetFile:
    """Prepare to read an open file of tombstones.

    Raises:
        pa.ArrowInvalid: It has other columns.
    """
    parquet = parquet_file(source, footer)
    columns = parquet.schema_arrow
    kinds = [{pa.int64(), pa.string()}, {pa.int64(), pa.string()}, {pa.string()}]
    if tuple(columns.names) != _COLUMNS or not all(map(set.__contains__, kinds, columns.types)):
        raise pa.ArrowInvalid("it lacks the columns of a file of tombstones")
    return parquet


def write_tombstones(
    fs: FileSystem, key: str, plan: TombstonePlan, new: pa.Table, shape: TableShape
) -> tuple[TombstoneFile, str]:
    """Write the new tombstones and the tombstones of the merged files as one file.

    Returns:
        The file, and the greatest position that was dropped; empty if none was.
    """
    merged = (_converted(read_tombstone_file(fs, file.key), file, shape) for file in plan.merged)
    rows = pa.concat_tables([new, *merged])
    orders = file_orders(rows[POSITION], plan.oldest)
    is_kept = pc.greater_equal(orders, plan.oldest)
    forgotten = ""
    if not pc.all(is_kept).as_py():
        forgotten = pc.max(rows.filter(pc.invert(is_kept))[POSITION]).as_py() or ""
        orders, rows = orders.filter(is_kept), rows.filter(is_kept)
    newest = pc.max(orders).as_py() or plan.oldest
    return write_tombstone_file(fs, key, rows, newest, shape.key_types, shape.limits), forgotten


def write_tombstone_file(
    fs: FileSystem,
    key: str,
    rows: pa.Table,
    newest: str,
    key_types: tuple[str, ...],
    limits: EngineLimits = DEFAULT_LIMITS,
) -> TombstoneFile:
    """Write tombstones as one file, sorted by key.

    Args:
        rows: Leading key, key, position.
        newest: Greatest `file_order` of the change files that the deletes came from.
        key_types: Types of the key columns that the keys are encoded for.
    """
    rows = rows.take(pc.sort_indices(rows, [(LEADING_KEY, "ascending")]))
    last = pc.max(rows[POSITION]).as_py() or ""
    with open_output(fs, key) as sink:
        pq.write_table(rows, sink, limits.tombstone_group_rows, compression=COMPRESSION, store_schema=False)
    return TombstoneFile(key, rows.num_rows, newest, *key_range(rows[LEADING_KEY]), key_types, last)


def read_tombstone_file(fs: FileSystem, key: str) -> pa.Table:
    """All tombstones of one file as stored."""
    with lake_file(fs, key) as source:
        return _open(source, footer_of(source)).read(use_threads=False)


def file_orders(positions: pa.ChunkedArray, default: str) -> pa.ChunkedArray:
    """`file_order` of the change file in each position; `default` where the position names none."""
    return pa.chunked_array([_orders_of(chunk, default) for chunk in positions.chunks], pa.string())


def _orders_of(positions: pa.Array, default: str) -> pa.Array:
    parts = pc.split_pattern(positions, "|", max_splits=2, reverse=True)
    order = pc.list_slice(parts, 1, 2, return_fixed_size_list=True).flatten().dictionary_encode()
    is_order = pc.match_substring_regex(order.dictionary, _FILE_ORDER)
    orders = pc.if_else(is_order, order.dictionary, default)
    return pc.fill_null(orders.take(order.indices), default)
