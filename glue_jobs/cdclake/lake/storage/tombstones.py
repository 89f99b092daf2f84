"""Tombstones: deletes remembered for the late window, so that an older row that comes late stays deleted.

They lie in the control area as Parquet files of route, key and position, listed in the snapshot with their key ranges.
A change writes at most one, into which it merges the smaller ones before it, so that their number grows with the
logarithm of the deletes; what is older than the window is left out on the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdclake.adapters.filesystem import open_output
from cdclake.lake.storage.keys import KEY, LEADING_KEY, bounds, matches, may_contain
from cdclake.lake.storage.writer import COMPRESSION
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.snapshot import TombstoneFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyarrow.fs import FileSystem

_FILE_OF_POSITION = r"\|(?P<order>\d{8}-[^|]*)\|\d+$"


@dataclass(frozen=True)
class TombstonePlan:
    """What a change does with the tombstones there are.

    Attributes:
        kept: Those that stay as they are.
        merged: Those that become part of the new one.
        oldest: Least `file_order` worth remembering; deletes from older change files may be left out.
        needed: Whether a new one is to be written.
    """

    kept: tuple[TombstoneFile, ...]
    merged: tuple[TombstoneFile, ...]
    oldest: str
    needed: bool


def plan_tombstones(files: Sequence[TombstoneFile], new_rows: int, oldest: str) -> TombstonePlan:
    """Decide which tombstones to forget, to keep, and to merge with `new_rows` more."""
    living = [file for file in files if file.newest >= oldest]
    merged: list[TombstoneFile] = []
    rows = new_rows
    while new_rows and living and living[-1].rows <= 2 * rows:
        merged.insert(0, living.pop())
        rows += merged[0].rows
    return TombstonePlan(tuple(living), tuple(merged), oldest, bool(new_rows))


def find_tombstones(
    fs: FileSystem, files: Sequence[TombstoneFile], route: pa.ChunkedArray, keys: pa.ChunkedArray, empty: pa.Schema
) -> pa.Table:
    """Tombstones of some keys.

    Args:
        files: All tombstones of the table.
        route: Routes of the keys.
        empty: Schema of the result: route, key, position.
    """
    low, high = bounds(route)
    wanted = pc.unique(keys)
    found = [empty.empty_table()]
    for file in files:
        if may_contain(file, low, high):
            rows = read_tombstone_file(fs, file.key)
            if rows.schema.field(KEY).type == empty.field(KEY).type:
                found.append(rows.filter(matches(rows[KEY], wanted)))
    return pa.concat_tables(found)


def write_tombstones(fs: FileSystem, key: str, plan: TombstonePlan, new: pa.Table) -> TombstoneFile:
    """Write a change's deletes, and those of the files merged with it, as one file."""
    rows = pa.concat_tables([new, *(read_tombstone_file(fs, file.key).cast(new.schema) for file in plan.merged)])
    rows = rows.filter(pc.greater_equal(_file_orders(rows[POSITION], plan.oldest), plan.oldest))
    newest = pc.max(_file_orders(rows[POSITION], plan.oldest)).as_py() or plan.oldest
    return write_tombstone_file(fs, key, rows, newest)


def write_tombstone_file(fs: FileSystem, key: str, rows: pa.Table, newest: str) -> TombstoneFile:
    """Write deletes as one file.

    Args:
        rows: Route, key, position.
        newest: Greatest `file_order` of the change files that they came from.
    """
    with open_output(fs, key) as sink:
        pq.write_table(rows, sink, compression=COMPRESSION, store_schema=False)
    return TombstoneFile(key, rows.num_rows, newest, *bounds(rows[LEADING_KEY]))


def read_tombstone_file(fs: FileSystem, key: str) -> pa.Table:
    """All deletes of one file: route, key, position."""
    with fs.open_input_file(key) as source:
        return pq.read_table(source, use_threads=False)


def _file_orders(positions: pa.ChunkedArray, otherwise: str) -> pa.ChunkedArray:
    """`file_order` of the change file that each position tells; `otherwise` where it tells none."""
    order = pc.struct_field(pc.extract_regex(positions, _FILE_OF_POSITION), "order")
    return pc.fill_null(order, otherwise)
