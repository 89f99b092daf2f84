"""Reads raw Parquet files in bounded memory, whatever the size of their row groups."""

from __future__ import annotations

from itertools import accumulate, chain
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cdclake.adapters.filesystem import is_on_disk, open_input
from cdclake.lake.limits import DEFAULT_LIMITS
from cdclake.lake.raw.rows import RawRows, Slice
from cdclake.lake.storage.keys import comparable, key_range, key_range_of_columns
from cdclake.lake.storage.parquet.decoding import decoded, plan_step
from cdclake.lake.storage.parquet.footer import footer_of, from_plain
from cdclake.lake.storage.reader import parquet_file, repeating_texts
from cdclake.lake.storage.wide_rows import decoded_bytes

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from pyarrow.fs import FileSystem

    from cdclake.lake.limits import EngineLimits
    from cdclake.lake.storage.parquet import footer
    from cdclake.model.raw.files import RawFile
    from cdclake.model.snapshot import KeyValue

_LARGE_GROUP_BYTES = 512 << 20
_MIN_BUFFER_BYTES, _MAX_BUFFER_BYTES = 1 << 20, 4 << 20
_BUFFERS_BYTES = 64 << 20
"""About so many bytes of a large row group are requested at once, the same of each column within these limits."""
_DISK_BUFFER_BYTES = 1 << 18
"""So many of each column are read at once from a disk."""
_ORDERED_TYPES = (pa.types.is_integer, pa.types.is_string, pa.types.is_date32)
"""Types whose minimum and maximum in a footer follow the order of leading keys."""


def read_footer(fs: FileSystem, file: RawFile, key_columns: Sequence[str] = ()) -> tuple[pa.Schema, tuple[Slice, ...]]:
    """Read a file's columns, and a slice for each row group.

    Args:
        key_columns: The table's key columns, if the key ranges are needed.

    Raises:
        As `schema_and_footer`.
    """
    with open_input(fs, file.key) as source:
        schema, found = schema_and_footer(source)
        starts = accumulate((group.rows for group in found.row_groups), initial=0)
        ranges = [_key_range(found, group, schema, key_columns) for group in found.row_groups]
        return schema, tuple(
            Slice(file, group.size_bytes, (i,), start, ranges[i], memory_bytes=group.memory_bytes)
            for i, (group, start) in enumerate(zip(found.row_groups, starts, strict=False))
        )


def schema_and_footer(source: pa.NativeFile) -> tuple[pa.Schema, footer.Footer]:
    """Read the columns of an open raw file, and its footer.

    Raises:
        As `footer_of`.
    """
    file = footer_of(source)
    schema = parquet_file(source, file).schema_arrow
    for kind in filter(pa.types.is_timestamp, schema.types):
        try:
            kind.tz  # noqa: B018 - Arrow decodes it only now
        except UnicodeDecodeError:
            raise pa.ArrowInvalid("a column has a time zone that is no text") from None
    return schema, file


def _key_range(
    file: footer.Footer, group: footer.RowGroup, schema: pa.Schema, key_columns: Sequence[str]
) -> tuple[KeyValue, KeyValue]:
    return key_range_of_columns([_column_range(file, group, schema, name) for name in key_columns])


def _column_range(
    file: footer.Footer, group: footer.RowGroup, schema: pa.Schema, name: str
) -> tuple[KeyValue, KeyValue]:
    indices = [i for i, column in enumerate(schema.names) if column.lower() == name.lower()]
    if len(indices) != 1 or len(group.columns) != len(schema.names):
        return None, None
    kind, (low, high) = schema.field(indices[0]).type, file.extremes(group, indices[0])
    if low is None or high is None or not any(is_kind(kind) for is_kind in _ORDERED_TYPES):
        return None, None
    try:
        return key_range(comparable(from_plain([low, high], kind)))
    except (ValueError, OverflowError):  # not UTF-8, or too large for the type: the rows are bad
        return None, None


def batches(
    fs: FileSystem,
    key: str,
    row_groups: Sequence[int] | None,
    first_row: int,
    *,
    encoded: bool = False,
    limits: EngineLimits = DEFAULT_LIMITS,
) -> Iterator[RawRows]:
    """Read consecutive row groups in batches of at most about `batch_bytes`, and at least one row.

    Args:
        row_groups: Their indices; None for all.
        first_row: Index of their first row in the file.
        encoded: Leave repeated texts dictionary-encoded.

    Raises:
        As `footer_of`, and `pa.ArrowInvalid` if row groups are not as long as the footer says.
    """
    with open_input(fs, key) as source:
        file = footer_of(source)
        parquet = parquet_file(source, file, pre_buffer=True)
        schema = parquet.schema_arrow
        texts = repeating_texts(schema, file) if encoded else []
        for number, run in enumerate(_runs(file.row_groups, row_groups, limits)):
            step = plan_step(source, file, schema, run.row_groups, schema.names, run.batch_rows, limits.batch_bytes)
            dictionaries = {*texts, *step.dictionaries}
            if number or run.is_large or dictionaries:  # what is in memory of the run before is freed
                buffer_size = _buffer_bytes(fs, file.arrow.num_columns) if run.is_large else 0
                parquet = parquet_file(
                    source, file, [*dictionaries], pre_buffer=not run.is_large, buffer_size=buffer_size
                )
            end = first_row + run.rows
            small = parquet.iter_batches(step.rows, row_groups=run.row_groups, use_threads=False)
            parts = chain.from_iterable(decoded(batch, texts, limits.batch_bytes) for batch in small)
            for batch in _combined(parts, run.batch_rows, limits.batch_bytes):
                yield RawRows(batch, np.arange(first_row, first_row + batch.num_rows, dtype=np.int64))
                first_row += batch.num_rows
            if first_row != end:
                message = f"a row group has {abs(end - first_row)} rows more or fewer than the footer says"
                raise pa.ArrowInvalid(message)


def without_rows(fs: FileSystem, key: str, excluded: Container[int]) -> bytes:
    """Return a file's content without some rows, in one row group.

    Args:
        excluded: Numbers of these rows, as in `RawRows.numbers`.

    Raises:
        As `footer_of`.
    """
    with open_input(fs, key) as source:
        file = footer_of(source)
        codec = file.row_groups[0].columns[0].codec
        rows = parquet_file(source, file).read(use_threads=False)
    rest = pa.array(number not in excluded for number in range(rows.num_rows))
    sink = pa.BufferOutputStream()
    pq.write_table(
        rows.filter(rest),
        sink,
        compression="none" if codec == "UNCOMPRESSED" else codec,
        store_schema=False,
        use_dictionary=False,
    )
    return bytes(sink.getvalue())


def _combined(batches: Iterable[pa.RecordBatch], max_rows: int, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches, where these have at most so many rows and bytes.

    Each row group has its own dictionaries, so batches with encoded texts end where row groups do, and may be small.
    """
    pending: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        batch_bytes = decoded_bytes(pa.Table.from_batches([batch]))
        if pending and (rows + batch.num_rows > max_rows or size_bytes + batch_bytes > max_bytes):
            yield _concat(pending)
            pending, rows, size_bytes = [], 0, 0
        pending.append(batch)
        rows += batch.num_rows
        size_bytes += batch_bytes
    if pending:
        yield _concat(pending)


def _concat(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


class _Run(NamedTuple):
    """Row groups to read together.

    Attributes:
        rows: Rows of all.
        batch_rows: Rows of a batch.
        is_large: Whether it is a single row group of more than `raw_group_bytes`.
    """

    row_groups: list[int]
    rows: int
    batch_rows: int
    is_large: bool


def _runs(groups: Sequence[footer.RowGroup], chosen: Sequence[int] | None, limits: EngineLimits) -> Iterator[_Run]:
    """Consecutive row groups, together up to `raw_group_bytes` uncompressed.

    Small row groups are requested together, because each request takes time. A large one is read piece by piece.

    Args:
        groups: All of the file.
        chosen: Indices of those to read; None for all.
    """
    run: list[int] = []
    run_bytes = run_rows = 0
    for number in range(len(groups)) if chosen is None else chosen:
        if number >= len(groups):
            raise pa.ArrowInvalid("it was overwritten since it was inspected, and has fewer row groups now")
        if run and run_bytes + groups[number].memory_bytes > limits.raw_group_bytes:
            yield _run(run, run_rows, run_bytes, limits)
            run, run_bytes, run_rows = [], 0, 0
        run.append(number)
        run_bytes += groups[number].memory_bytes
        run_rows += groups[number].rows
    if run:
        yield _run(run, run_rows, run_bytes, limits)


def _buffer_bytes(fs: FileSystem, columns: int) -> int:
    """Bytes of a column to request at once: more need more memory, fewer more requests."""
    if is_on_disk(fs):
        return _DISK_BUFFER_BYTES
    return max(_MIN_BUFFER_BYTES, min(_MAX_BUFFER_BYTES, _BUFFERS_BYTES // max(columns, 1)))


def _run(row_groups: list[int], rows: int, size_bytes: int, limits: EngineLimits) -> _Run:
    return _Run(row_groups, rows, _batch_rows(rows, size_bytes, limits), size_bytes > limits.raw_group_bytes)


def _batch_rows(rows: int, size_bytes: int, limits: EngineLimits) -> int:
    """Rows of a batch of `batch_bytes`. Long values may follow each other, so a large row group gets shorter ones."""
    if size_bytes <= limits.batch_bytes:
        return limits.batch_rows
    mean_rows = rows * limits.batch_bytes // (size_bytes * ceil(size_bytes / _LARGE_GROUP_BYTES))
    return max(1, min(limits.batch_rows, mean_rows))
