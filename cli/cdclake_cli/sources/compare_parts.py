"""Compares tables of any size with their source, with one part of each in memory at a time."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from cdclake_cli.comparing.parts import pairs_of_parts
from cdclake_cli.sources.compare import compare_rows, in_lake_types, merge_comparisons

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from cdclake_cli.sources.compare import RowComparison


def compare_in_parts(
    lake: Iterable[pa.Table],
    source: Iterable[pa.Table],
    key: Sequence[str],
    added: Sequence[str],
    parts: int,
    *,
    integers_alike: bool = False,
) -> RowComparison:
    """Compare a lake table with its source as `compare_rows` does, part by part.

    Args:
        lake: The rows of the lake table, in batches with the same columns; at least one batch, which may be empty.
        source: The rows of the source in such batches, with the types that DMS converts to. They are read first.
        key: Columns of the primary key; empty for none.
        added: Columns of the lake table that neither the source has nor cdclake adds.
        parts: Number of parts, which are stored compressed in the temporary folder.
        integers_alike: As in `compare_rows`.
    """
    our_schema, ours = _with_schema(lake)
    their_schema, theirs = _with_schema(source)
    shared = [name for name in their_schema.names if name in our_schema.names]
    split_by = [name for name in key or shared if name in shared]
    return merge_comparisons(
        compare_rows(mine, other, key, added, integers_alike=integers_alike)
        for mine, other in pairs_of_parts(ours, theirs, lambda rows: in_lake_types(rows.select(split_by)), parts)
    )


def _with_schema(batches: Iterable[pa.Table]) -> tuple[pa.Schema, Iterator[pa.Table]]:
    remaining = iter(batches)
    first = next(remaining)
    return first.schema, chain([first], remaining)
