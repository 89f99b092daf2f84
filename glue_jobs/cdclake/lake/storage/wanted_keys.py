"""Finds rows of data files by their keys."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.storage.keys import KEY, LEADING_KEY, comparable, matches, part_of
from cdclake.lake.storage.reader import read_batches
from cdclake.lake.storage.shape import conform
from cdclake.lake.storage.types import to_arrow
from cdclake.lake.storage.wide_rows import cut_by_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyarrow.fs import FileSystem

    from cdclake.lake.storage.partitions import Partition
    from cdclake.lake.storage.reader import RowGroupFilter
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.snapshot import DataFile


class WantedKeys:
    """Keys to find in data files.

    The key of several columns is a text, which is expensive to form for every row of a file. So the columns are
    compared first, each by itself: few rows pass that do not have one of the keys.

    Args:
        wanted: Leading keys and keys; repeated ones count once.
    """

    def __init__(self, wanted: pa.Table, shape: TableShape) -> None:
        self._shape = shape
        self._keys = wanted[KEY]
        names = shape.leading_columns
        self._parts: dict[str, pa.Array] = {}
        if len(shape.primary_key) == 1:
            return
        for i, (name, kind) in enumerate(zip(names, shape.key_types)):
            parts = wanted[LEADING_KEY]
            if len(names) > 1:
                parts = part_of(parts, i, comparable(pa.array([], to_arrow(kind))).type)
            self._parts[name] = pc.unique(parts)

    def read(
        self,
        fs: FileSystem,
        path: str,
        file: DataFile,
        columns: Sequence[str] | None = None,
        row_groups: RowGroupFilter | None = None,
    ) -> Iterator[pa.Table]:
        """Read the rows of a data file that have one of the keys, see `read_batches`.

        Args:
            path: Object key of the file.
        """
        batches = read_batches(fs, path, self._shape, columns, file=file, encoded=True, row_groups=row_groups)
        for rows in batches:
            found = rows.filter(self.find(rows, file.partition))
            for part in cut_by_bytes(found, self._shape.limits.part_bytes):
                yield conform(part, pa.schema([self._shape.stored.field(name) for name in rows.column_names]))

    def find(self, rows: pa.Table, partition: Partition) -> pa.Array:
        """Whether each row of a data file has one of the keys.

        Args:
            rows: The file's rows with at least the stored key columns.
            partition: The file's partition.
        """
        shape = self._shape
        if not self._parts:
            return matches(shape.key_of(rows, partition), self._keys)
        columns = {name: comparable(shape.key_column(name, rows, partition)) for name in self._parts}
        is_candidate = reduce(pc.and_, (matches(values, self._parts[name]) for name, values in columns.items()))
        candidates = pc.indices_nonzero(is_candidate)
        names = shape.key_columns_stored() or rows.column_names[:1]  # a table without columns has no rows
        few = rows.select(names).take(candidates)
        found = np.zeros(rows.num_rows, np.bool_)
        found[candidates.filter(matches(shape.key_of(few, partition), self._keys)).to_numpy()] = True
        return pa.array(found)
