"""Splits rows by partition. Partition values are in the folder names, not in the data files."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Optional

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.errors import ConfigurationError
from cdclake.lake.storage.types import cast_exactly, text_depends_on_type, without_negative_zero
from cdclake.lake.storage.wide_rows import take
from cdclake.model.table.attributes import Attribute

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

Partition = tuple[Optional[str], ...]
"""The value of each partition column as text; None for null."""


class PartitionedRows(NamedTuple):
    """Rows in the order of their partitions. For thousands of partitions, this is much faster than a table for each.

    Attributes:
        rows: All rows, each partition's together.
        counts: Number of rows of each partition, at least one, in the order of the rows.
    """

    rows: pa.Table
    counts: Mapping[Partition, int]

    def parts(self) -> Iterator[tuple[Partition, pa.Table]]:
        """The rows of each partition."""
        start = 0
        for partition, count in self.counts.items():
            yield partition, self.rows.slice(start, count)
            start += count


NO_ROWS = PartitionedRows(pa.table({}), {})


def by_partition(rows: pa.Table, partition_key: Sequence[str], then_by: str = "") -> PartitionedRows:
    """Order rows by partition, see `in_partition_order`.

    Args:
        then_by: A column by which to sort the rows of a partition; empty: they keep their order.
    """
    if not rows.num_rows:
        return PartitionedRows(rows, {})
    partitions, ranks = _ranked_partitions(rows, partition_key)
    counts = dict(zip(partitions, np.bincount(ranks).tolist()))
    if then_by:
        order = pc.sort_indices(pa.table([ranks, rows[then_by]], "rv"), [("r", "ascending"), ("v", "ascending")])
        return PartitionedRows(take(rows, order), counts)
    if (np.diff(ranks) < 0).any():
        rows = take(rows, pa.array(np.argsort(ranks, kind="stable")))
    return PartitionedRows(rows, counts)


def _ranked_partitions(rows: pa.Table, partition_key: Sequence[str]) -> tuple[list[Partition], NDArray[np.int64]]:
    """The partitions in order, and for each row the position of its partition."""
    partitions: list[Partition] = [()]
    codes = np.zeros(rows.num_rows, np.int64)
    for name in partition_key:
        values = rows[name].combine_chunks().dictionary_encode("encode")
        texts = _folder_values(values.dictionary, name).to_pylist()
        joint = pa.array(codes * len(texts) + values.indices.to_numpy()).dictionary_encode()
        pairs = (divmod(code, len(texts)) for code in joint.dictionary.to_pylist())
        partitions = [(*partitions[before], texts[text]) for before, text in pairs]
        codes = joint.indices.to_numpy().astype(np.int64)
    ordered = in_partition_order(set(partitions))  # values of one column may have the same text
    rank = {partition: position for position, partition in enumerate(ordered)}
    return ordered, np.array([rank[partition] for partition in partitions])[codes]


def in_partition_order(partitions: Collection[Partition]) -> list[Partition]:
    """Partitions in the order of `partition_sort_key`."""
    if any(None in partition for partition in partitions):
        return sorted(partitions, key=partition_sort_key)
    return sorted(partitions)  # the same order, in a third of the time


def partition_sort_key(partition: Partition) -> list[tuple[bool, str]]:
    """Sort key of a partition: the texts of its values, null first."""
    return [(value is not None, value or "") for value in partition]


def partition_id(partition: Partition) -> str:
    """The values of a partition as one text, unique to the partition."""
    return "|".join("-" if value is None else f"{len(value)}:{value}" for value in partition)


def partition_ids(rows: pa.Table, partition_key: Sequence[str]) -> pa.ChunkedArray:
    """`partition_id` of each row."""
    if not partition_key:
        return pa.chunked_array([pa.repeat("", rows.num_rows)])
    texts = [_folder_values(rows[name].combine_chunks(), name) for name in partition_key]
    pieces = [
        pc.fill_null(pc.binary_join_element_wise(pc.utf8_length(text).cast(pa.string()), text, ":"), "-")
        for text in texts
    ]
    return pa.chunked_array([pc.binary_join_element_wise(*pieces, "|")])


def _folder_values(values: pa.Array, name: str) -> pa.Array:
    """`partition_text` of values of a column.

    Raises:
        ConfigurationError: A value is not UTF-8 text, so it cannot be in a folder name.
    """
    try:
        return partition_text(values)
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
