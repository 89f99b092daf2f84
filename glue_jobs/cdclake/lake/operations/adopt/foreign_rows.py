"""A look at the rows of files that another program wrote: keys that are null or come twice, and operations.

Only the key columns and `Op` are read. Keys are compared a range at a time, so that memory holds no more than one range
and the row groups being read, however large the table is.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.errors import LakeFilesError
from cdclake.lake.merge.resolve import is_last_of_key
from cdclake.lake.operations.adopt.foreign_file import MEND, reading
from cdclake.lake.storage.key_ranges import quantiles
from cdclake.lake.storage.keys import bounds, matches
from cdclake.lake.storage.reader import read_batches
from cdclake.model.schema import INSERT, OP_COLUMN, UPDATE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyarrow.fs import FileSystem

    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.snapshot import DataFile, KeyValue

CONCURRENT_READS = 8
KEY_BYTES_AT_ONCE = 256 << 20
ROWS_PER_SAMPLE = 10_000
MOST_NAMES = 3


@dataclass(frozen=True)
class KeyRange:
    """What the first look at a file tells of its keys.

    Attributes:
        route: Smallest and largest value of the first key column, as `DataFile` has them.
        key: Smallest and largest key as `lake.keys` makes it.
        samples: Some keys, one for each so many rows.
        key_bytes: Size of all keys in memory.
    """

    route: tuple[KeyValue, KeyValue]
    key: tuple[KeyValue, KeyValue]
    samples: tuple[KeyValue, ...]
    key_bytes: int

    def meets(self, low: KeyValue, high: KeyValue) -> bool:
        """Whether some key may lie in a range, see `_within`."""
        first, last = self.key
        if first is None or last is None:
            return False
        return (low is None or last >= low) and (high is None or first < high)  # type: ignore[operator]  # one kind


class ForeignRows:
    """The rows of a table's files.

    Args:
        fs: Lake file system.
        table_prefix: The table's folder.
        files: Its data files; what they say of keys does not count.
        shape: The table.
    """

    def __init__(self, fs: FileSystem, table_prefix: str, files: Sequence[DataFile], shape: TableShape) -> None:
        self._fs, self._prefix, self._files, self._shape = fs, table_prefix, files, shape

    def check(self) -> list[tuple[KeyValue, KeyValue]]:
        """Find out whether these rows can be a lake table.

        Returns:
            For each file the smallest and the largest value of the first key column; None if there is no key.

        Raises:
            LakeFilesError: Key columns are null, keys come twice, or operations are other than I and U; says how many
                rows, and of which files, but not which keys.
        """
        with ThreadPoolExecutor(CONCURRENT_READS) as pool:
            ranges = list(pool.map(self._look, self._files))
            if self._shape.primary_key:
                self._require_one_row_a_key(pool, ranges)
        return [one.route for one in ranges]

    def _look(self, file: DataFile) -> KeyRange:
        routes: list[KeyValue] = []
        keys: list[KeyValue] = []
        samples: list[KeyValue] = []
        key_bytes = nulls = other_operations = 0
        with reading(file.path):
            for batch in self._batches(file):
                known = pc.is_in(batch[OP_COLUMN], value_set=pa.array([INSERT, UPDATE]))
                other_operations += batch.num_rows - (pc.sum(known).as_py() or 0)
                if self._shape.primary_key:
                    route, key = self._shape.keys_of(batch, file.partition)
                    nulls += key.null_count
                    routes += bounds(route)
                    keys += bounds(key)
                    samples += key.take(pa.array(np.arange(0, len(key), ROWS_PER_SAMPLE))).to_pylist()
                    key_bytes += key.nbytes
        if nulls:
            message = f"{nulls} rows of a file in the lake folder have null in a key column"
            remedy = f"Correct PrimaryKey, which is {','.join(self._shape.primary_key)}. {MEND}"
            raise LakeFilesError(message, remedy=remedy, file=file.path)
        if other_operations:
            message = f"{other_operations} rows of a file in the lake folder have another {OP_COLUMN} than I and U"
            remedy = f"A lake table holds the rows that there are, and no deletes. {MEND}"
            raise LakeFilesError(message, remedy=remedy, file=file.path)
        return KeyRange(_extremes(routes), _extremes(keys), tuple(samples), key_bytes)

    def _batches(self, file: DataFile) -> Iterator[pa.Table]:
        columns = [*self._shape.key_columns_stored(), OP_COLUMN]
        return read_batches(self._fs, self._prefix + file.path, self._shape, columns)

    def _require_one_row_a_key(self, pool: ThreadPoolExecutor, ranges: Sequence[KeyRange]) -> None:
        pieces = ceil(sum(one.key_bytes for one in ranges) / KEY_BYTES_AT_ONCE)
        samples = sorted(sample for one in ranges for sample in one.samples)  # type: ignore[type-var]  # one kind
        if pieces > 1 and len(set(samples)) < len(samples):
            # Keys that come so often would make a range too large for memory.
            at_least = f"At least {len(samples) - len(set(samples))}"
            raise self._repeated(at_least, [])
        cuts = [None, *quantiles(samples, pieces), None]
        repeated_rows, holders = 0, set[str]()
        for low, high in zip(cuts, cuts[1:], strict=False):
            met = [file for file, one in zip(self._files, ranges, strict=True) if one.meets(low, high)]
            found = list(pool.map(lambda file, low=low, high=high: self._keys_within(file, low, high), met))
            repeated = _repeated_keys(found)
            repeated_rows += len(repeated)
            pairs = zip(met, found, strict=True)
            holders.update(file.path for file, keys in pairs if pc.any(matches(keys, repeated)).as_py())
        if repeated_rows:
            raise self._repeated(str(repeated_rows), sorted(holders))

    def _keys_within(self, file: DataFile, low: KeyValue, high: KeyValue) -> pa.Array:
        """Keys of a file, from `low` on and below `high`; None: without that bound."""
        with reading(file.path):
            parts = [_within(self._shape.keys_of(batch, file.partition)[1], low, high) for batch in self._batches(file)]
        return pa.concat_arrays(parts)

    def _repeated(self, rows: str, files: Sequence[str]) -> LakeFilesError:
        key = ",".join(self._shape.primary_key)
        message = f"{rows} rows in the lake folder have a key ({key}) that an earlier row has too"
        remedy = (
            "Correct PrimaryKey; or, if a job died and left rows twice, take the superfluous ones out with the program "
            "that wrote them; or empty the folder and load the table anew"
        )
        names = ", ".join(files[:MOST_NAMES])
        more = f" and {len(files) - MOST_NAMES} more" if len(files) > MOST_NAMES else ""
        return LakeFilesError(message, remedy=remedy, files=names + more or None)


def _within(keys: pa.Array, low: KeyValue, high: KeyValue) -> pa.Array:
    if low is not None:
        keys = keys.filter(pc.greater_equal(keys, low))
    return keys if high is None else keys.filter(pc.less(keys, high))


def _extremes(values: Sequence[KeyValue]) -> tuple[KeyValue, KeyValue]:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else (None, None)


def _repeated_keys(parts: Sequence[pa.Array]) -> pa.Array:
    """Of all these keys, those that come after an equal one."""
    if not parts:
        return pa.array([], pa.string())
    keys = pa.concat_arrays(parts)
    in_order = keys.take(pc.array_sort_indices(keys))
    return in_order.filter(pc.invert(is_last_of_key(in_order)))
