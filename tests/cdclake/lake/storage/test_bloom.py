"""Bloom filters select every row group that contains a key and few others; files without filters are read whole."""

from __future__ import annotations

import uuid
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.lake.storage.bloom import (
    bloom_filter_options,
    filtered_column,
    hashes_of,
    row_groups_that_may_contain,
)
from cdclake.lake.storage.key_ranges import overlapping_files
from cdclake.lake.storage.parquet.footer import footer_of
from cdclake.lake.storage.shape import TableShape
from cdclake.model.schema import Column, Schema
from cdclake.model.snapshot import DataFile
from tests.examples import examples

if TYPE_CHECKING:
    from pathlib import Path

GROUP_ROWS = 1000
SHAPE = TableShape(Schema((Column("id", "string"), Column("n", "bigint"))), ("id",), ())


def uuids(count: int, seed: int) -> list[str]:
    rng = Random(seed)
    return [str(uuid.UUID(int=rng.getrandbits(128))) for _ in range(count)]


def write(path: Path, values: pa.Array, *, filtered: bool = True) -> Path:
    options = {"id": {"ndv": GROUP_ROWS, "fpp": 0.001}} if filtered else None
    pq.write_table(pa.table({"id": values}), path, row_group_size=GROUP_ROWS, bloom_filter_options=options)
    return path


def selected(path: Path, leading_keys: pa.Array, encoding: str = "BYTE_ARRAY") -> list[int]:
    hashes = hashes_of(leading_keys, encoding)
    with pa.OSFile(str(path)) as source:
        return list(row_groups_that_may_contain(source, footer_of(source), "ID", encoding, hashes))


@pytest.mark.parametrize(
    ("kind", "encoding"),
    [(pa.string(), "BYTE_ARRAY"), (pa.int16(), "INT32"), (pa.int32(), "INT32"), (pa.int64(), "INT64")],
)
def test_every_value_is_found_in_its_row_group(tmp_path: Path, kind: pa.DataType, encoding: str) -> None:
    numbers = [number if number % 2 else -number for number in range(3 * GROUP_ROWS)]
    values = pa.array([f"né {number}" for number in numbers] if kind == pa.string() else numbers, kind)
    path = write(tmp_path / "file.parquet", values)
    for i in range(0, len(values), 17):
        value = values.slice(i, 1)
        value = value if kind == pa.string() else value.cast(pa.int64())
        assert i // GROUP_ROWS in selected(path, value, encoding)
    other = pa.array(["other"]) if kind == pa.string() else pa.array([2**30])
    assert selected(path, other, encoding) == []


def test_false_positives_are_rare(tmp_path: Path) -> None:
    path = write(tmp_path / "file.parquet", pa.array(uuids(4 * GROUP_ROWS, 1)))
    assert sum(len(selected(path, pa.array([value]))) for value in uuids(500, 2)) <= 10  # of 2,000; 2 expected


def test_several_values_select_all_their_row_groups(tmp_path: Path) -> None:
    values = uuids(4 * GROUP_ROWS, 3)
    path = write(tmp_path / "file.parquet", pa.array(values))
    assert selected(path, pa.array([values[0], values[-1]])) == [0, 3]


def test_without_filters_all_row_groups_are_selected(tmp_path: Path) -> None:
    path = write(tmp_path / "file.parquet", pa.array(uuids(2 * GROUP_ROWS, 4)), filtered=False)
    assert selected(path, pa.array(["other"])) == [0, 1]


def test_a_filter_with_an_unknown_header_is_ignored(tmp_path: Path) -> None:
    path = write(tmp_path / "file.parquet", pa.array(uuids(GROUP_ROWS, 5)))
    assert selected(path, pa.array(["other"])) == []
    content = bytearray(path.read_bytes())
    content[pq.read_metadata(path).row_group(0).column(0).bloom_filter_offset + 6] ^= 0x0F
    path.write_bytes(content)
    assert selected(path, pa.array(["other"])) == [0]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, 2], pa.timestamp("ms")),  # keys are microseconds
        pa.array([b"a", b"b"]),  # keys are the bytes as hexadecimal digits
    ],
)
def test_filters_of_columns_with_another_encoding_than_keys_are_ignored(tmp_path: Path, values: pa.Array) -> None:
    path = write(tmp_path / "file.parquet", values)
    assert selected(path, pa.array([5]), "INT64") == [0]
    assert selected(path, pa.array([5]), "INT32") == [0]
    assert selected(path, pa.array(["5"])) == [0]


@pytest.mark.parametrize(
    ("key", "partition", "column"),
    [
        (("id",), (), "id"),
        (("n",), (), None),  # numbers usually ascend
        (("n",), ("id",), "n"),  # but may be in every partition
        (("id",), ("id",), None),  # it is in the folder name
        (("N", "id"), ("id",), "n"),
        ((), (), None),
    ],
)
def test_filters_are_written_where_key_ranges_do_not_suffice(
    key: tuple[str, ...], partition: tuple[str, ...], column: str | None
) -> None:
    shape = TableShape(SHAPE.schema, key, partition)
    assert filtered_column(shape) == column
    assert (bloom_filter_options(shape, 5) or {}).keys() == ({column} if column else set())


@examples(thorough=3_000, ci=300, test=100, quick=20)
@given(st.lists(st.none() | st.tuples(st.integers(0, 30), st.integers(0, 5)), max_size=8))
def test_files_overlap_if_their_key_ranges_do(ranges: list[tuple[int, int] | None]) -> None:
    bounds = [(one[0], one[0] + one[1]) if one else None for one in ranges]
    files = [DataFile("f", 1, 1, (), *(one or (None, None))) for one in bounds]
    expected = {
        i
        for i, one in enumerate(bounds)
        if one is None
        or any(other and i != j and one[0] <= other[1] and other[0] <= one[1] for j, other in enumerate(bounds))
    }
    assert overlapping_files(files) == expected
