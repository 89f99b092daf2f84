"""Splits rows by partition. Partition values are in the folder names, not in the data files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.errors import ConfigurationError
from cdclake.lake.storage.types import cast_exactly, text_depends_on_type, without_negative_zero
from cdclake.lake.storage.wide_rows import take
from cdclake.model.names import Attribute

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Partition = tuple[Optional[str], ...]
"""The value of each partition column as text; None for null."""


def by_partition(rows: pa.Table, partition_key: Sequence[str]) -> Iterator[tuple[Partition, pa.Table]]:
    """Split rows by partition; rows of a partition keep their order."""
    if not partition_key:
        if rows.num_rows:
            yield (), rows
        return
    ids = partition_ids(rows, partition_key).combine_chunks().dictionary_encode()
    codes = ids.indices.to_numpy(zero_copy_only=False)
    if len(ids.dictionary) > 1:
        rows = take(rows, pa.array(np.argsort(codes, kind="stable")))
    ends = np.cumsum(np.bincount(codes, minlength=len(ids.dictionary))).tolist()
    for start, end in zip([0, *ends], ends):
        part = rows.slice(start, end - start)
        first = part.slice(0, 1)
        yield tuple(partition_text(first[name].combine_chunks())[0].as_py() for name in partition_key), part


def partition_id(partition: Partition) -> str:
    """The values of a partition as one text, unique to the partition."""
    return "|".join("-" if value is None else f"{len(value)}:{value}" for value in partition)


def partition_ids(rows: pa.Table, partition_key: Sequence[str]) -> pa.ChunkedArray:
    """`partition_id` of each row."""
    if not partition_key:
        return pa.chunked_array([pa.repeat("", rows.num_rows)])
    texts = [_folder_values(rows, name) for name in partition_key]
    pieces = [
        pc.fill_null(pc.binary_join_element_wise(pc.utf8_length(text).cast(pa.string()), text, ":"), "-")
        for text in texts
    ]
    return pa.chunked_array([pc.binary_join_element_wise(*pieces, "|")])


def _folder_values(rows: pa.Table, name: str) -> pa.Array:
    """`partition_text` of a column.

    Raises:
        ConfigurationError: A value is not UTF-8 text, so it cannot be in a folder name.
    """
    try:
        return partition_text(rows[name].combine_chunks())
    except pa.ArrowInvalid as error:
        message = f"Partition column {name} contains a value that is not UTF-8 text"
        remedy = f"Set another {Attribute.PARTITION_KEY}; nothing was applied"
        raise ConfigurationError(message, remedy=remedy, column=name) from error


def partition_text(values: pa.Array) -> pa.Array:
    """Partition values as text for the folder name, in Spark's format; null stays null.

    Equal values of one type have the same text; so do 0.0 and -0.0.
    """
    if not pa.types.is_timestamp(values.type):
        return without_negative_zero(values).cast(pa.string())
    text = values.cast(pa.timestamp("us")).cast(pa.string())  # always six decimals
    return pc.utf8_rtrim(pc.utf8_rtrim(text, "0"), ".")


def partition_column(text: str | None, kind: str, rows: int) -> pa.Array:
    """A partition value, parsed from its text, repeated for every row of a file."""
    return pa.repeat(cast_exactly(pa.array([text], pa.string()), kind)[0], rows)


def convert_partition(partition: Partition, before: Sequence[str], after: Sequence[str]) -> Partition:
    """A partition as it is named after its columns became wider: `1.1` becomes `1.10`.

    Args:
        before: Lake types of the partition columns for which the partition is named.
        after: The types now.
    """
    kinds = zip(partition, before, after, strict=True)
    return tuple(_convert(text, was, now) if text_depends_on_type(now) else text for text, was, now in kinds)


def _convert(text: str | None, before: str, after: str) -> str | None:
    converted: str | None = partition_text(cast_exactly(partition_column(text, before, 1), after))[0].as_py()
    return converted
