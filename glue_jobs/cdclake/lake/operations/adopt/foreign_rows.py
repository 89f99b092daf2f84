"""Checks the rows of files that another program wrote: null keys, repeated keys, and operations.

Only the key columns and `Op` are read. Keys are compared one key range at a time, so memory holds only one range and
the row groups being read, regardless of the table's size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.concurrency import in_parallel
from cdclake.errors import LakeFilesError
from cdclake.lake.merge.resolve import is_last_of_key
from cdclake.lake.operations.adopt.foreign_file import FIX_FILE
from cdclake.lake.storage.key_ranges import quantiles
from cdclake.lake.storage.keys import key_range, matches
from cdclake.lake.storage.reader import read_batches
from cdclake.model.schema import INSERT, OP_COLUMN, UPDATE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyarrow.fs import FileSystem

    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.snapshot import DataFile, KeyValue

CONCURRENT_READS = 8
MAX_NAMES = 3


@dataclass(frozen=True)
class KeyRange:
    """The keys of a file.

    Attributes:
        leading_key: Smallest and largest leading key, as `DataFile` has them.
        key: Smallest and largest key, as `cdclake.lake.storage.keys` encodes it.
        samples: Some keys, see `EngineLimits.adopted_key_step`.
        key_bytes: Size of all keys in memory.
    """

    leading_key: tuple[KeyValue, KeyValue]
    key: tuple[KeyValue, KeyValue]
    samples: tuple[KeyValue, ...]
    key_bytes: int

    def overlaps(self, low: KeyValue, high: KeyValue) -> bool:
        """Whether a key may be in a range, from `low` up to but excluding `high`; None means no bound."""
        first, last = self.key
        if first is None or last is None:
            return False
        return (low is None or last >= low) and (high is None or first < high)  # type: ignore[operator]  # one kind


class ForeignRows:
    """The rows of a table's files.

    Args:
        table_prefix: The table's folder.
        files: Its data files, whose key bounds are ignored.
        shape: Columns and keys of the table.
    """

    def __init__(self, fs: FileSystem, table_prefix: str, files: Sequence[DataFile], shape: TableShape) -> None:
        self._fs, self._prefix, self._files, self._shape = fs, table_prefix, files, shape

    def check(self) -> list[tuple[KeyValue, KeyValue]]:
        """Check that these rows can be a lake table.

        Returns:
            For each file, the smallest and the largest leading key; None if there is no key.

        Raises:
            LakeFilesError: A key column is null, a key is repeated, or an operation is neither I nor U. Contains the
                number of rows and the files, but no keys.
        """
        ranges = in_parallel(self._check_file, self._files, CONCURRENT_READS)
        if self._shape.primary_key:
            self._require_unique_keys(ranges)
        return [keys.leading_key for keys in ranges]

    def _check_file(self, file: DataFile) -> KeyRange:
        leading_keys: list[KeyValue] = []
        keys: list[KeyValue] = []
        samples: list[KeyValue] = []
        key_bytes = nulls = other_operations = 0
        step = self._shape.limits.adopted_key_step
        for batch in self._batches(file):
            valid = pc.is_in(batch[OP_COLUMN], value_set=pa.array([INSERT, UPDATE]))
            other_operations += batch.num_rows - (pc.sum(valid).as_py() or 0)
            if self._shape.primary_key:
                leading_key, key = self._shape.keys_of(batch, file.partition)
                nulls += key.null_count
                leading_keys += key_range(leading_key)
                keys += key_range(key)
                samples += key.take(pa.array(np.arange(0, len(key), step))).to_pylist()
                key_bytes += key.nbytes
        if nulls:
            message = f"{nulls} rows of a file in the lake folder have null in a key column"
            remedy = f"Correct PrimaryKey, which is {','.join(self._shape.primary_key)}. {FIX_FILE}"
            raise LakeFilesError(message, remedy=remedy, file=file.path)
        if other_operations:
            message = f"{other_operations} rows of a file in the lake folder have an {OP_COLUMN} other than I and U"
            remedy = f"A lake table contains existing rows, but no deletes. {FIX_FILE}"
            raise LakeFilesError(message, remedy=remedy, file=file.path)
        return KeyRange(_extremes(leading_keys), _extremes(keys), tuple(samples), key_bytes)

    def _batches(self, file: DataFile) -> Iterator[pa.Table]:
        columns = [*self._shape.key_columns_stored(), OP_COLUMN]
        return read_batches(self._fs, self._prefix + file.path, self._shape, columns)

    def _require_unique_keys(self, ranges: Sequence[KeyRange]) -> None:
        pieces = ceil(sum(keys.key_bytes for keys in ranges) / self._shape.limits.adopted_key_bytes)
        samples = sorted(sample for keys in ranges for sample in keys.samples)  # type: ignore[type-var]  # one kind
        if pieces > 1 and len(set(samples)) < len(samples):
            # Such frequent keys could make one range too large for memory.
            at_least = f"At least {len(samples) - len(set(samples))}"
            raise self._repeated(at_least, [])
        cuts = [None, *quantiles(samples, pieces), None]
        repeated_rows, repeating_files = 0, set[str]()
        for low, high in zip(cuts, cuts[1:], strict=False):
            files = [file for file, keys in zip(self._files, ranges, strict=True) if keys.overlaps(low, high)]
            keys_of_files = in_parallel(partial(self._keys_within, low, high), files, CONCURRENT_READS)
            repeated = _repeated_keys(keys_of_files)
            repeated_rows += len(repeated)
            pairs = zip(files, keys_of_files, strict=True)
            repeating_files.update(file.path for file, keys in pairs if pc.any(matches(keys, repeated)).as_py())
        if repeated_rows:
            raise self._repeated(str(repeated_rows), sorted(repeating_files))

    def _keys_within(self, low: KeyValue, high: KeyValue, file: DataFile) -> pa.Array:
        """Keys of a file from `low` up to but excluding `high`; None means no bound."""
        parts = [_within(self._shape.key_of(batch, file.partition), low, high) for batch in self._batches(file)]
        return pa.concat_arrays(parts)

    def _repeated(self, rows: str, files: Sequence[str]) -> LakeFilesError:
        key = ",".join(self._shape.primary_key)
        message = f"{rows} rows in the lake folder repeat the key ({key}) of an earlier row"
        remedy = (
            "Correct PrimaryKey; or, if a crashed job duplicated rows, remove the duplicates with the program that "
            "wrote them; or empty the folder and reload the table"
        )
        names = ", ".join(files[:MAX_NAMES])
        more = f" and {len(files) - MAX_NAMES} more" if len(files) > MAX_NAMES else ""
        return LakeFilesError(message, remedy=remedy, files=names + more or None)


def _within(keys: pa.Array, low: KeyValue, high: KeyValue) -> pa.Array:
    if low is not None:
        keys = keys.filter(pc.greater_equal(keys, low))
    return keys if high is None else keys.filter(pc.less(keys, high))


def _extremes(values: Sequence[KeyValue]) -> tuple[KeyValue, KeyValue]:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else (None, None)


def _repeated_keys(parts: Sequence[pa.Array]) -> pa.Array:
    """The keys that repeat another key, once for each repetition."""
    if not parts:
        return pa.array([], pa.string())
    keys = pa.concat_arrays(parts)
    in_order = keys.take(pc.array_sort_indices(keys))
    return in_order.filter(pc.invert(is_last_of_key(in_order)))
