"""Rows are taken and cut by bytes, whatever the size of their texts."""

from __future__ import annotations

import pyarrow as pa
import pytest

from cdclake.lake.storage.wide_rows import cut_by_bytes, take, where

ROWS = pa.concat_tables(
    pa.table(
        {
            "id": pa.array(range(first, first + 10), pa.int32()),
            "text": [None if i % 7 == 0 else str(i) * (i % 13) for i in range(first, first + 10)],
            "blob": pa.array([bytes([i]) * (100 * (i == 25)) for i in range(first, first + 10)], pa.binary()),
            "city": pa.array(["Ulm", "Köln"] * 5).dictionary_encode(),
        }
    )
    for first in (0, 10, 20)
)
INDICES = [[], [3], [29, 0, 25, 25, 25, 1], [*range(29, -1, -1)], [None, 4, None], [7] * 100]


@pytest.mark.parametrize("indices", INDICES)
@pytest.mark.parametrize("limit", [1, 300, 1 << 30])
def test_take_equals_arrows_own(indices: list[int], limit: int) -> None:
    picked = pa.array(indices, pa.int64())
    taken = take(ROWS, picked, limit)
    assert taken.schema == ROWS.schema
    assert taken.to_pylist() == ROWS.take(picked).to_pylist()


def test_rows_without_any_row_are_taken_as_nulls() -> None:
    taken = take(ROWS.slice(0, 0), pa.array([None], pa.int64()), max_bytes=1)
    assert taken.to_pylist() == [dict.fromkeys(ROWS.column_names)]


@pytest.mark.parametrize("limit", [1, 60, 200, 10_000])
def test_slices_have_at_most_so_many_bytes_or_one_row(limit: int) -> None:
    parts = list(cut_by_bytes(ROWS, limit))
    assert pa.concat_tables(parts).equals(ROWS)
    texts = [part.select(["id", "text", "blob"]) for part in parts]
    assert all(part.nbytes <= limit + 8 * part.num_rows or part.num_rows == 1 for part in texts)
    assert len(parts) == {1: 30, 10_000: 1}.get(limit, len(parts))


@pytest.mark.parametrize("wanted", [[True] * 30, [False] * 30, [True, None, False] * 10, [True] * 29 + [None]])
def test_where_equals_arrows_filter(wanted: list[bool | None]) -> None:
    mask = pa.chunked_array([wanted])
    assert where(ROWS, mask).equals(ROWS.filter(mask))


def test_nothing_is_copied_where_all_rows_are_wanted() -> None:
    assert where(ROWS, pa.repeat(True, 30)) is ROWS
