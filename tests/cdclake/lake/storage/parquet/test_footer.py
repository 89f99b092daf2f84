"""The footer of any Parquet file: as pyarrow reads it, or refused where pyarrow ends the process."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
import tracemalloc
from contextlib import suppress
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdclake.lake.storage.parquet.footer import footer_of
from cdclake.lake.storage.parquet.thrift import (
    BINARY,
    ENCODED,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    ListOf,
    decode,
    decode_list,
    field,
)
from tests.builders import parquet_bytes
from tests.cdclake.lake.raw.mutated_files import ABORTS_PYARROW

if TYPE_CHECKING:
    from cdclake.lake.storage.parquet.footer import Footer

AT = datetime(2024, 3, 5, 10, tzinfo=timezone.utc)
COLUMNS = {
    "i8": pa.array([-3, None, 5], pa.int8()),
    "u32": pa.array([3, 2**32 - 1, None], pa.uint32()),
    "i64": pa.array([-(2**63), 2**63 - 1, 0], pa.int64()),
    "text": pa.array(["b", "a", None]),
    "bytes": pa.array([b"", b"\xff", b"a"]),
    "fixed": pa.array([b"ab", b"cd", None], pa.binary(2)),
    "price": pa.array([Decimal("1.5"), Decimal("-2.5"), None], pa.decimal128(9, 1)),
    "day": pa.array([date(2024, 3, 5), date(1, 1, 1), None]),
    "at": pa.array([AT, None, AT], pa.timestamp("us", "UTC")),
    "ratio": pa.array([0.5, -1.5, None]),
    "ok": pa.array([True, None, False]),
    "nothing": pa.array([None, None, None], pa.int32()),
    "list": pa.array([[1, 2], [], None]),
    "struct": pa.array([{"a": 1, "b": [{"c": "x"}]}, None, {"a": 2, "b": []}]),
}


NESTED = b"\x29\xfc\xe8\x07" + b"\x35\0\x18\x01x\x15\x02\0" * 1000 + b"\x16\0\x19\x0c\0"
"""Metadata of 1,000 columns, each of which is within the one before, and of no rows."""


def footer(content: bytes) -> Footer:
    return footer_of(pa.BufferReader(content))


@pytest.mark.parametrize("columns", [list(COLUMNS), [name for name in COLUMNS if name not in ("list", "struct")]])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"version": "1.0", "store_schema": False, "use_dictionary": False, "compression": "gzip"},
        {"row_group_size": 1, "compression": "none", "write_statistics": False},
        {"row_group_size": 2, "bloom_filter_options": {"text": {"ndv": 2, "fpp": 0.01}}},
        {"compression": "lz4", "use_deprecated_int96_timestamps": True, "data_page_version": "2.0"},
        {"compression": "brotli", "write_page_index": True, "store_decimal_as_integer": True},
    ],
)
def test_a_footer_says_what_pyarrow_says(columns: list[str], options: dict[str, Any]):
    content = parquet_bytes(pa.table({name: COLUMNS[name] for name in columns}), **options)
    found, expected = footer(content), pq.ParquetFile(pa.BufferReader(content)).metadata
    assert found.version == expected.format_version
    assert found.arrow.equals(expected)
    assert len(found.row_groups) == expected.num_row_groups
    for number, group in enumerate(found.row_groups):
        theirs = expected.row_group(number)
        assert (group.rows, group.memory_bytes) == (theirs.num_rows, theirs.total_byte_size)
        for i, chunk in enumerate(group.columns):
            column = theirs.column(i)
            assert (chunk.codec, chunk.encodings) == (column.compression, column.encodings)
            assert (chunk.values, chunk.has_dictionary) == (column.num_values, column.has_dictionary_page)
            assert (chunk.size_bytes, chunk.memory_bytes) == (
                column.total_compressed_size,
                column.total_uncompressed_size,
            )
            assert chunk.filter_range == (column.bloom_filter_offset or 0, column.bloom_filter_length or 0)
            statistics = column.statistics
            has_extremes = statistics is not None and statistics.has_min_max
            assert [value is not None for value in found.extremes(group, i)] == [has_extremes] * 2


def test_the_extremes_of_a_column_are_its_plain_bytes():
    found = footer(parquet_bytes(pa.table({name: COLUMNS[name] for name in ("i8", "u32", "text", "day")})))
    assert [found.extremes(found.row_groups[0], i) for i in range(4)] == [
        ((-3).to_bytes(4, "little", signed=True), b"\x05\0\0\0"),
        (b"\x03\0\0\0", b"\xff\xff\xff\xff"),
        (b"a", b"b"),
        ((-719162).to_bytes(4, "little", signed=True), (19787).to_bytes(4, "little")),
    ]


def test_a_footer_longer_than_a_first_read_and_one_without_row_groups_are_read():
    wide = parquet_bytes(pa.table({f"column {number}": [number] for number in range(2000)}))
    assert len(wide) > 3 * 65536
    assert len(footer(wide).row_groups[0].columns) == 2000
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, pa.schema([("id", pa.int64())])).close()
    assert footer(bytes(sink.getvalue())).row_groups == ()


@pytest.mark.slow
def test_a_footer_that_makes_pyarrow_end_the_process_is_refused():
    code = "import sys, pyarrow.parquet as pq; pq.ParquetFile(sys.argv[1]).metadata.to_dict()"
    ended = subprocess.run([sys.executable, "-c", code, str(ABORTS_PYARROW)], capture_output=True, check=False)
    assert ended.returncode == -6
    with pytest.raises(pa.ArrowInvalid, match="the metadata is damaged"):
        footer(ABORTS_PYARROW.read_bytes())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes"),
        (b"PAR1", "4 bytes"),
        (b"PAR1PAR1", "8 bytes"),
        (b"Op,id\nI,1\n" * 9, "does not end as"),
        (b"PAR1" + bytes(99) + b"\xff\xff\xff\x7fPAR1", "longer than the file"),
        (b"PAR1" + b"\x15" + b"\x01\0\0\0PAR1", "ends too early"),
        (b"PAR1" + bytes(99) + b"\x09\0\0\0PARE", "encrypted"),
        (b"PAR1" + NESTED + len(NESTED).to_bytes(4, "little") + b"PAR1", "nested too deeply"),
        (b"PAR1" + b"\0" + b"\x01\0\0\0PAR1", "it lacks a list"),
    ],
)
def test_what_is_no_footer_is_refused(content: bytes, message: str):
    with pytest.raises(pa.ArrowInvalid, match=message):
        footer(content)


@pytest.mark.parametrize("name", ["rows", "values"])
def test_row_groups_that_do_not_have_the_rows_of_the_file_are_refused_as_rows_would_be_lost(name: str):
    """pyarrow reads as many rows as the row group says."""
    content = bytearray(parquet_bytes(pa.table({"id": range(100)}), compression="none", write_statistics=False))
    length = int.from_bytes(content[-8:-4], "little")
    places = [
        at for at in range(len(content) - 8 - length, len(content) - 8) if content[at : at + 3] == b"\x16\xc8\x01"
    ]
    assert len(places) == 3  # the file's rows, the column's values, the row group's rows
    changed = {"rows": places[:1] + places[2:], "values": places[1:2]}[name]
    for at in changed:
        content[at : at + 3] = b"\x16\x94\x01"  # 74
    with pytest.raises(pa.ArrowInvalid, match="more or fewer values than its row group has rows"):
        footer(bytes(content))


def test_metadata_of_many_row_groups_take_little_memory():
    content = parquet_bytes(pa.table({f"c{number}": range(100) for number in range(20)}), row_group_size=1)
    tracemalloc.start()
    assert len(footer(content).row_groups) == 100
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 2_000_000  # 2,000 column chunks, which as a tree of objects take 8 MB


def test_a_schema_without_columns_is_read_once_for_all_row_groups():
    """Else these 190 kB would take minutes."""
    elements, groups = 30_000, 20_000
    schema = b"\x19\xfc" + _varint(elements + 1) + b"\x55" + _varint(2 * elements) + b"\0" + b"\x55\0\0" * elements
    metadata = b"\x15\x02" + schema + b"\x16\0" + b"\x19\xfc" + _varint(groups) + b"\x19\x0c\x26\0\0" * groups + b"\0"
    began = time.process_time()
    with suppress(pa.ArrowException, OSError):
        footer(b"PAR1" + metadata + len(metadata).to_bytes(4, "little") + b"PAR1")
    assert time.process_time() - began < 5


def _varint(number: int) -> bytes:
    groups = [number >> shift & 0x7F for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])


def test_a_schema_of_many_columns_does_not_stay_in_memory():
    content = parquet_bytes(pa.table({f"column_{number}": [number] for number in range(3000)}))
    tracemalloc.start()
    columns = len(footer(content).row_groups[0].columns)
    gc.collect()
    kept_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert columns == 3000
    assert kept_bytes < 200_000  # all 3,000 would take 650,000


@pytest.mark.parametrize(
    "data",
    [
        b"\x19\xfc\xff\xff\xff\x7f",  # a list of 2^28 structs
        b"\x18\xff\xff\xff\xff\x0f",  # 2^32 bytes
        b"\x16" + b"\xff" * 20,
        b"\x1c" * 9999,
        b"\x19\x19" * 9999,
        b"\x1b\x01\xbb" * 9999,
        b"\x1e",
        b"",
    ],
    ids=["list", "bytes", "number", "structs", "lists", "maps", "type", "nothing"],
)
def test_metadata_that_would_fill_the_memory_or_the_stack_are_refused(data: bytes):
    with pytest.raises(pa.ArrowInvalid, match="the metadata is damaged"):
        decode(data, {})


def test_wanted_values_are_decoded_and_those_of_every_kind_skipped():
    data = (
        b"\x11\x12"  # 1: true, 2: false
        b"\x13\x07"  # 3: byte 7
        b"\x14\x03"  # 4: i16 -2
        b"\x05\x14\x96\x01"  # 10: i32 75
        b"\x17" + bytes(8) + b"\x18\x03abc"  # 11: double, 12: text
        b"\x19\x21\x01\x02"  # 13: list of booleans
        b"\x1b\x01\x85\x01a\x06"  # 14: map of text to i32
        b"\x1c\x15\x02\0"  # 15: struct
        b"\x1d"
        + bytes(16)  # 16: uuid
        + b"\x15\xac\x02\0"  # 17: i32 150
    )
    numbers = {field(4, I16): None, field(10, I32): None, field(17, I32): None}
    others = {field(12, BINARY): None, field(13, LIST): ENCODED, field(15, STRUCT): {field(1, I32): None}}
    of_another_kind = {field(10, I64): None, field(11, BINARY): None, field(14, LIST): ListOf(I32)}
    found = {4: -2, 10: 75, 12: b"abc", 13: b"\x21\x01\x02", 15: {1: 1}, 17: 150}
    assert decode(data, {**numbers, **others, **of_another_kind}) == found
    assert decode(data, {field(17, I32): None}) == {17: 150}


def test_a_list_of_structs_is_converted_as_it_is_decoded():
    data = b"\x15\x02\x19\x2c\x15\x04\0\x15\x06\0\0"  # 1: i32 1, 2: list of two structs
    sums = ListOf(STRUCT, {field(1, I32): None}, lambda before, struct: before[1] + struct[1])
    assert decode(data, {field(1, I32): None, field(2, LIST): sums}) == {1: 1, 2: [3, 4]}


def test_a_list_of_another_kind_than_its_definition_says_is_refused():
    assert decode_list(b"\x25\x02\xac\x02", ListOf(I32)) == [1, 150]
    assert decode_list(b"\x06", ListOf(I32)) == []
    with pytest.raises(pa.ArrowInvalid, match="values of another type"):
        decode_list(b"\x26\x02\x04", ListOf(I32))
