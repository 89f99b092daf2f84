"""Reads row groups of any encoding in steps of bounded size in memory.

A column chunk may be ten thousand times larger in memory than its footer says: a dictionary page has a long text once,
however many rows repeat it. So the length of a step does not follow from the footer. Such columns are read as
dictionaries, whose size in memory is that in the file, and decoded in slices of known length. Where that would be slow,
because many values do not repeat, the longest text of the dictionary limits the number of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.adapters.filesystem import ParquetFile
from cdclake.lake.storage.wide_rows import cut_by_bytes, is_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from cdclake.lake.storage.parquet.footer import ColumnChunk, Footer

ENCODED_BYTES_PER_ROW = 2.5
_DICTIONARY_CHUNK_BYTES = 2 << 20
"""Base limit for a column chunk to be read as a dictionary. Writers end a dictionary at about 1 MB and write the texts
themselves from there: to make these a dictionary takes three times as long as to read them."""
_PEEK_BYTES = 1 << 20
_INDEX_BYTES = 4


class Step(NamedTuple):
    """How to read row groups.

    Attributes:
        rows: Most rows to read at once.
        dictionaries: Columns to read as dictionaries, and to decode in slices.
    """

    rows: int
    dictionaries: tuple[str, ...]


def plan_step(
    source: pa.NativeFile,
    footer: Footer,
    schema: pa.Schema,
    row_groups: Sequence[int],
    names: Collection[str],
    max_rows: int,
    max_bytes: int,
) -> Step:
    """Plan to read row groups so that no step needs more memory, decoded, than about `max_bytes`.

    Args:
        source: The open file.
        schema: Its columns.
        row_groups: Indices of the row groups to read.
        names: The columns to read.
        max_rows: Most rows of a step, so that its plain texts, which are as long as in the file, fit.
    """
    if footer.arrow.num_columns != len(schema):  # nested columns, which nobody reads
        return Step(max_rows, ())
    groups = [footer.row_groups[number] for number in row_groups]
    max_rows = min(max_rows, max(sum(group.rows for group in groups), 1))
    row_bytes, longest, dictionaries = 0, {}, []
    for i, field in enumerate(schema):
        if field.name not in names:
            continue
        kind = _storage(field.type)
        if not is_text(kind):
            row_bytes += _width(kind)
            dictionaries += [field.name] if pa.types.is_dictionary(kind) else []
        elif bounds := [group.columns[i].memory_bytes for group in groups if _may_repeat(group.columns[i])]:
            longest[field.name] = max(bounds)
    if max_rows * (row_bytes + sum(longest.values())) <= max_bytes:  # even if all texts are as long as all together
        return Step(max_rows, tuple(dictionaries))
    columns = {field.name: i for i, field in enumerate(schema)}
    for name in list(longest):
        chunks = [group.columns[columns[name]] for group in groups]
        if any(_is_incremental(chunk) for chunk in chunks) or not is_text(schema.field(columns[name]).type):
            continue  # Arrow cannot read it as a dictionary
        large = [number for number, chunk in zip(row_groups, chunks, strict=True) if not _is_dictionary(chunk)]
        if large:
            longest[name] = max(_longest_text(source, footer, number, name) for number in large)
        else:
            longest[name] = _INDEX_BYTES
            dictionaries.append(name)
    return Step(max(1, min(max_rows, max_bytes // max(row_bytes + sum(longest.values()), 1))), tuple(dictionaries))


def decoded(batch: pa.RecordBatch, keep: Collection[str], max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Decode dictionary-encoded columns, in slices of at most about `max_bytes` and at least one row.

    Args:
        keep: Columns to leave encoded; the limit counts them as decoded.
    """
    encoded = [column for column in batch.columns if pa.types.is_dictionary(column.type)]
    if not encoded:
        yield batch
    elif batch.nbytes + batch.num_rows * sum(map(_longest_of, encoded)) <= max_bytes:
        yield _decoded(batch, keep)
    else:
        for part in cut_by_bytes(pa.Table.from_batches([batch]), max_bytes):
            yield from (_decoded(one, keep) for one in part.to_batches())


def _decoded(batch: pa.RecordBatch, keep: Collection[str]) -> pa.RecordBatch:
    columns = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) and name not in keep else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.record_batch(columns, names=batch.schema.names)


def _longest_of(values: pa.DictionaryArray) -> int:
    """Bytes of the longest value of a dictionary."""
    texts = values.dictionary
    return int(pc.max(pc.binary_length(texts)).as_py() or 0) if is_text(texts.type) else _width(texts.type)


def _storage(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _width(kind: pa.DataType) -> int:
    """Bytes of a value in Arrow."""
    if pa.types.is_dictionary(kind):
        return _INDEX_BYTES
    try:
        bits: int = kind.bit_width
        return max(bits // 8, 1)
    except ValueError:
        return 1


def _may_repeat(chunk: ColumnChunk) -> bool:
    """Whether texts may be longer in memory than in the file. Older writers do not say where the dictionary is."""
    is_dictionary = chunk.has_dictionary or any(name.endswith("DICTIONARY") for name in chunk.encodings)
    return is_dictionary or _is_incremental(chunk)


def _is_incremental(chunk: ColumnChunk) -> bool:
    """Whether a text may consist of the beginning of the one before."""
    return "DELTA_BYTE_ARRAY" in chunk.encodings


def _is_dictionary(chunk: ColumnChunk) -> bool:
    return chunk.memory_bytes <= _DICTIONARY_CHUNK_BYTES + ENCODED_BYTES_PER_ROW * chunk.values


def _longest_text(source: pa.NativeFile, footer: Footer, group: int, name: str) -> int:
    """Bytes of the longest text of a column chunk's dictionary, which comes before its first value."""
    parquet = ParquetFile(
        source, metadata=footer.arrow, read_dictionary=[name], pre_buffer=False, buffer_size=_PEEK_BYTES
    )
    longest = 0
    for batch in parquet.iter_batches(1, row_groups=[group], columns=[name], use_threads=False):
        longest = _longest_of(batch.column(0))
        break
    return longest
