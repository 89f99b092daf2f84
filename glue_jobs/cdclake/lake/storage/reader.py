"""Reads data files: plain Parquet, a row group or less at a time, in bounded memory."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.adapters.filesystem import FetchedFiles, ParquetFile, open_input
from cdclake.errors import LakeFilesError, without_values
from cdclake.lake.limits import DEFAULT_LIMITS
from cdclake.lake.memory_errors import does_not_fit, too_large
from cdclake.lake.storage.parquet.decoding import ENCODED_BYTES_PER_ROW, decoded, plan_step
from cdclake.lake.storage.parquet.footer import footer_of
from cdclake.lake.storage.shape import conform, is_deleted
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.position import FULL_LOAD_POSITION
from cdclake.model.schema import DELETE, INSERT, OP_COLUMN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyarrow.fs import FileSystem

    from cdclake.lake.limits import EngineLimits
    from cdclake.lake.storage.parquet.footer import ColumnChunk, Footer
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.snapshot import DataFile

    RowGroupFilter = Callable[[pa.NativeFile, Footer], Iterable[int]]

SMALL_DICTIONARY_BYTES = 64 << 10
"""Base limit for a text column chunk to be read as a dictionary. Larger chunks are cheaper to decode."""


def read_batches(
    fs: FileSystem,
    key: str,
    shape: TableShape,
    columns: Sequence[str] | None = None,
    *,
    file: DataFile | None = None,
    encoded: bool = False,
    row_groups: RowGroupFilter | None = None,
) -> Iterator[pa.Table]:
    """Read a data file, see `batches_of`.

    Args:
        key: Object key of the file in the lake bucket.
        file: What its snapshot says of it; None if there is no snapshot with it.

    Raises:
        As `lake_file`.
    """
    size_bytes, loaded = (file.bytes, file.counts_as_loaded) if file else (None, False)
    with lake_file(fs, key, size_bytes) as source:
        yield from batches_of(source, shape, columns, encoded=encoded, row_groups=row_groups, loaded=loaded)


def batches_of(
    source: pa.NativeFile,
    shape: TableShape,
    columns: Sequence[str] | None = None,
    *,
    encoded: bool = False,
    row_groups: RowGroupFilter | None = None,
    loaded: bool = False,
) -> Iterator[pa.Table]:
    """Read an open data file, one row group at a time, or less of a large one.

    An adopted file may lack operations and positions. Its rows then count as rows of a full load: inserted, and older
    than every change.

    Args:
        shape: The table. Columns that the file has in another order, case or narrower type are converted.
        columns: Names of stored columns to read; None for all.
        encoded: Leave repeated texts dictionary-encoded, which is faster to read, filter and write.
        row_groups: Selects row groups, given the open file and its footer; None reads all.
        loaded: See `DataFile.counts_as_loaded`.
    """
    stored = shape.stored if columns is None else pa.schema([shape.stored.field(name) for name in columns])
    wanted = {name.lower() for name in stored.names}
    footer = footer_of(source)
    schema = footer.arrow.schema.to_arrow_schema()
    names = [name for name in schema.names if name.lower() in wanted]
    texts = repeating_texts(schema, footer) if encoded else []
    for group in row_groups(source, footer) if row_groups else range(len(footer.row_groups)):
        for rows in _read_row_group(source, footer, schema, group, names, texts, shape.limits):
            yield as_full_load(conform(rows, stored, keep_encoded=encoded), everything=loaded)


def _read_row_group(
    source: pa.NativeFile,
    footer: Footer,
    schema: pa.Schema,
    group: int,
    names: Sequence[str],
    encoded: Sequence[str],
    limits: EngineLimits,
) -> Iterator[pa.Table]:
    """Read a row group at once; one that is large, or large in memory, in parts: only other writers wrote such.

    Args:
        schema: Columns of the file.
        encoded: Text columns to leave encoded.
    """
    facts, decodes = footer.row_groups[group], set(names).difference(encoded)
    plan = partial(plan_step, source, footer, schema, [group], decodes)
    step = plan(max(facts.rows, 1), limits.read_group_bytes)
    is_large, part_bytes = facts.memory_bytes > limits.read_group_bytes, limits.part_bytes
    if is_large or step.rows < facts.rows:
        step = plan(max(1, facts.rows * part_bytes // max(facts.memory_bytes, part_bytes)), part_bytes)
    parquet = parquet_file(
        source, footer, [*encoded, *step.dictionaries], pre_buffer=facts.size_bytes <= limits.read_group_bytes
    )
    if not step.dictionaries and step.rows >= facts.rows:
        yield parquet.read_row_group(group, columns=names, use_threads=False)
        return
    for batch in parquet.iter_batches(step.rows, row_groups=[group], columns=names, use_threads=False):
        for part in decoded(batch, encoded, part_bytes):
            yield pa.Table.from_batches([part])


@contextmanager
def lake_file(fs: FileSystem, key: str, size_bytes: int | None = None) -> Iterator[pa.NativeFile]:
    """Open a Parquet file of the lake.

    Args:
        key: Object key of the file in the lake bucket.
        size_bytes: Its size in the snapshot; None if there is no snapshot with it.

    Raises:
        LakeFilesError: The file is missing, overwritten or damaged; also in the block that reads.
        TooLargeError: The rows that the block reads need more memory than there is.
        CdclakeError: As `storage_errors`: the file cannot be reached.
    """
    with damage_reported(key), open_input(fs, key) as source:
        if size_bytes is not None and source.size() != size_bytes:
            message = f"A data file was overwritten: it has {source.size()} bytes instead of {size_bytes}"
            remedy = "Restore its earlier version in the bucket, or reload the table"
            raise LakeFilesError(message, remedy=remedy, file=key)
        yield source


@contextmanager
def damage_reported(key: str) -> Iterator[None]:
    """Raise `LakeFilesError` in place of Arrow's errors if a file of the lake is missing, or damaged.

    Args:
        key: Object key of the file that the block reads, for the error.
    """
    try:
        yield
    except FileNotFoundError as error:
        remedy = "Make sure that no other job writes there. cdclake repair restores a data file"
        raise LakeFilesError("A file vanished from the lake folder", remedy=remedy, file=key) from error
    except (pa.ArrowException, OSError, UnicodeDecodeError, MemoryError) as error:
        if does_not_fit(error):
            raise too_large(error, key) from error
        message = f"A file in the lake folder cannot be read as Parquet: {without_values(error)}"
        remedy = "Move it out of the folder if it is not a data file. Otherwise restore its earlier version"
        raise LakeFilesError(message, remedy=remedy, file=key) from error


def fetched_together(
    fs: FileSystem, files: Sequence[DataFile], limits: EngineLimits = DEFAULT_LIMITS
) -> FileSystem | FetchedFiles:
    """A file system in which a task reads its data files, perhaps twice. Small ones are fetched at once and whole.

    Args:
        files: The data files, `path` being the object key.
    """
    is_small = sum(file.bytes for file in files) <= limits.fetched_bytes
    return FetchedFiles(fs, [file.path for file in files]) if is_small and files else fs


def uncompressed_bytes(fs: FileSystem, files: Iterable[DataFile]) -> int:
    """What data files hold, by their footers; as they are compressed, that may be a hundred times their bytes.

    Args:
        files: The data files, `path` being the object key.

    Raises:
        As `lake_file`.
    """
    found = 0
    for file in files:
        with lake_file(fs, file.path, file.bytes) as source:
            found += sum(group.memory_bytes for group in footer_of(source).row_groups)
    return found


@contextmanager
def open_parquet(fs: FileSystem, key: str) -> Iterator[ParquetFile]:
    """Open a Parquet file that anybody wrote, and check its footer, see `lake_file`."""
    with lake_file(fs, key) as source:
        yield parquet_file(source)


def parquet_file(
    source: pa.NativeFile,
    footer: Footer | None = None,
    encoded: Sequence[str] = (),
    *,
    pre_buffer: bool = False,
    buffer_size: int = 0,
) -> ParquetFile:
    """Prepare to read an open file, whose footer is checked first: pyarrow may abort at a damaged one.

    Args:
        footer: The footer, if already read.
        encoded: Text columns to read as dictionaries.
        pre_buffer: Whether to request adjacent column chunks together, and keep a row group's in memory.
        buffer_size: Bytes of a column chunk to request at once; 0 for the whole chunk.
    """
    return ParquetFile(
        source,
        metadata=(footer or footer_of(source)).arrow,
        read_dictionary=list(encoded),
        pre_buffer=pre_buffer,
        buffer_size=buffer_size,
        # INT96 timestamps would be read as nanoseconds, which silently overflow before 1677 and after 2262.
        coerce_int96_timestamp_unit="us",
    )


def repeating_texts(schema: pa.Schema, footer: Footer) -> list[str]:
    """Text columns with a small dictionary in every row group.

    Args:
        schema: The columns of the file.
    """
    return [
        column.name
        for i, column in enumerate(schema)
        if column.type == pa.string()
        and footer.arrow.num_columns == len(schema)  # no nested columns, so indices agree
        and all(_is_small_dictionary(group.columns[i]) for group in footer.row_groups)
    ]


def _is_small_dictionary(chunk: ColumnChunk) -> bool:
    max_bytes = SMALL_DICTIONARY_BYTES + ENCODED_BYTES_PER_ROW * chunk.values
    return chunk.has_dictionary and chunk.memory_bytes <= max_bytes


def as_full_load(rows: pa.Table, *, everything: bool = False) -> pa.Table:
    """Fill missing operations and positions as in a full load.

    Args:
        everything: Whether to replace the others, too. Soft-deleted rows stay so.
    """
    for name, value in ((OP_COLUMN, INSERT), (POSITION, FULL_LOAD_POSITION)):
        i = rows.schema.get_field_index(name)
        if i >= 0 and everything:
            values = pa.repeat(value, rows.num_rows)
            values = pc.if_else(is_deleted(rows), DELETE, values) if name == OP_COLUMN else values
            rows = rows.set_column(i, name, values)
        elif i >= 0 and rows.column(i).null_count:
            rows = rows.set_column(i, name, pc.fill_null(rows.column(i).cast(pa.string()), value))
    return rows
