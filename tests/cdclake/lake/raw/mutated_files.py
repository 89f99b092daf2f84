"""Damages small files, raw ones and some of the lake, and reads each through the product, in child processes of a test.

`python -m tests.cdclake.lake.raw.mutated_files FIRST COUNT SALT` prints `{"begin": number}` before it reads a file and
`{"end": number, ...}` after, so that the parent knows which file ended the process.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import resource
import sys
import tempfile
import traceback
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from cdclake.adapters.filesystem import FetchedFile
from cdclake.errors import CdclakeError, LakeFilesError
from cdclake.lake.operations.erase.raw_files import without_rows
from cdclake.lake.raw.reader import inspect_raw_file, read, read_raw
from cdclake.lake.storage.bloom import row_group_filter
from cdclake.lake.storage.keys import LEADING_KEY
from cdclake.lake.storage.parquet.footer import footer_of
from cdclake.lake.storage.reader import read_batches
from cdclake.lake.storage.shape import TableShape
from cdclake.lake.storage.tombstones import find_tombstones, read_tombstone_file, tombstone_schema
from cdclake.lake.storage.types import to_arrow
from cdclake.lake.storage.writer import COMPRESSION
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.raw.files import ListedObject, RawFile, RawFormat, RawKind, parse_raw_file
from cdclake.model.schema import OP_COLUMN, Column, Schema
from cdclake.model.snapshot import TombstoneFile
from cdclake.model.table.settings import TableSettings
from cdclake_cli.doctor.sampling import read_columns
from tests.builders import parquet_bytes
from tests.cdclake.lake.table import NAME, RAW_PREFIX, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cdclake.lake.raw.rows import RawRows

ABORTS_PYARROW = Path(__file__).parent / "aborts_pyarrow.parquet"
"""1,476 bytes (zstd, pages of version 2), of which byte 755, in the footer, was set from 6 to 71."""
LOAD, CHANGE = "LOAD00000001", "20240305-101500123"
ABORT_AT = "CDCLAKE_ABORT_AT"
"""Environment variable with the number of a file at which to abort, to see that the parent notices."""
MAX_MEMORY_BYTES = 6 << 30
LOADED_ONE_IN = 17
"""So many of the files are also loaded: that takes much longer than reading."""
ROWS = 40
KEYS = pa.array(range(1000, 1000 + ROWS), pa.int64())
TOMBSTONES = "lake tombstones"
NULL_TEXT = "NULL"
SCHEMA = "id int, name string, city string, price decimal(10,2), day date, at timestamp, ratio double, ok boolean"


class Seed(NamedTuple):
    """A raw file that is in order.

    Attributes:
        relative: Its name.
        item: The table's settings.
    """

    name: str
    relative: str
    content: bytes
    item: dict[str, str]


def source_rows() -> pa.Table:
    """Rows of many types, with nulls."""
    begin = datetime(2024, 3, 5, 10, tzinfo=timezone.utc)
    return pa.table(
        {
            "id": pa.array(range(ROWS), pa.int32()),
            "name": [None if i % 7 == 3 else f"name {i} " + "ä" * (i % 5) for i in range(ROWS)],
            "city": ["Ulm" if i % 3 else "Bonn" for i in range(ROWS)],
            "price": pa.array([Decimal(i * 125) / 100 for i in range(ROWS)], pa.decimal128(10, 2)),
            "day": pa.array(
                [None if i % 11 == 0 else date(2024, 1, 1) + timedelta(i) for i in range(ROWS)], pa.date32()
            ),
            "at": pa.array([begin + timedelta(seconds=i) for i in range(ROWS)], pa.timestamp("us", "UTC")),
            "ratio": [i / 8 for i in range(ROWS)],
            "ok": [i % 2 == 0 for i in range(ROWS)],
        }
    )


def with_operations(rows: pa.Table) -> pa.Table:
    return rows.add_column(0, "Op", pa.array([("I", "U", "D")[i % 3] for i in range(rows.num_rows)]))


PARQUET_OPTIONS: dict[str, dict[str, Any]] = {
    "as DMS writes": {"version": "1.0", "compression": "gzip", "use_dictionary": False},
    "plain": {"compression": "none", "use_dictionary": False, "column_encoding": "PLAIN"},
    "dictionaries": {"compression": "snappy", "row_group_size": 15},
    "zstd, pages of version 2": {"compression": "zstd", "data_page_version": "2.0"},
    "lz4, small pages": {"compression": "lz4", "data_page_size": 64, "dictionary_pagesize_limit": 16},
    "delta": {
        "compression": "none",
        "use_dictionary": False,
        "column_encoding": {"id": "DELTA_BINARY_PACKED", "name": "DELTA_BYTE_ARRAY", "city": "DELTA_LENGTH_BYTE_ARRAY"},
    },
    "int96, no statistics": {"compression": "none", "use_deprecated_int96_timestamps": True, "write_statistics": False},
    "indices": {"compression": "brotli", "write_page_index": True, "write_page_checksum": True},
    "Arrow's types": {"compression": "none", "store_schema": True},
}


@cache
def seeds() -> tuple[Seed, ...]:
    """One file of each kind, as a full load and as changes."""
    key = {"PrimaryKey": "id", "MaxQuarantinedRows": "1000"}
    made = []
    for name, options in PARQUET_OPTIONS.items():
        for relative, rows in ((LOAD, source_rows()), (CHANGE, with_operations(source_rows()))):
            content = parquet_bytes(rows, **{"store_schema": False, **options})
            made.append(Seed(f"parquet {relative}, {name}", f"{relative}.parquet", content, key))
    declared = {**key, "Schema": SCHEMA}
    for name, (dialect, header, settings) in CSV_DIALECTS.items():
        for relative, rows in ((LOAD, source_rows()), (CHANGE, with_operations(source_rows()))):
            content = csv_text(rows, dialect, header=header).encode()
            item = {**declared, **settings}
            made.append(Seed(f"csv {relative}, {name}", f"{relative}.csv", content, item))
            made.append(Seed(f"gzip {relative}, {name}", f"{relative}.csv.gz", gzip.compress(content, mtime=0), item))
    return (*made, *_lake_seeds())


def _lake_seeds() -> Iterator[Seed]:
    """Files of the lake whose footers tell which row groups to read: remembered deletes, data files with filters."""
    for kind in ("bigint", "string"):
        keys, texts = KEYS.cast(to_arrow(kind)), [f"text {i}" for i in range(ROWS)]
        deletes = pa.table([keys, keys, texts], schema=tombstone_schema(lake_shape(kind)))
        data = pa.table({"id": keys, "note": texts, OP_COLUMN: ["I"] * ROWS, POSITION: [""] * ROWS})
        for name, rows, options in (
            (TOMBSTONES, deletes, {}),
            ("lake data", data, {"bloom_filter_options": {"id": {"ndv": 10, "fpp": 1e-6}}}),
        ):
            content = parquet_bytes(rows, row_group_size=10, compression=COMPRESSION, store_schema=False, **options)
            yield Seed(f"{name}, {kind}", "lake.parquet", content, {"kind": kind})


def lake_shape(kind: str) -> TableShape:
    """A table whose data files have filters on its key."""
    return TableShape(
        Schema((Column("id", kind), Column("note", "string"))), ("id",), () if kind == "string" else ("p",)
    )


CSV_DIALECTS: dict[str, tuple[dict[str, Any], bool, dict[str, str]]] = {
    "header": ({}, True, {}),
    "no header": ({}, False, {}),
    "all quoted": ({"quoting": csv.QUOTE_ALL}, True, {}),
    "tabs": ({"delimiter": "\t", "lineterminator": "\r\n"}, True, {"CsvDelimiter": "\\t", "CsvRowDelimiter": "\\r\\n"}),
    "no quotes": (
        {"delimiter": "|", "quoting": csv.QUOTE_NONE},
        False,
        {"CsvDelimiter": "|", "Rfc4180": "false"},
    ),
}


def csv_text(rows: pa.Table, dialect: dict[str, Any], *, header: bool) -> str:
    text = io.StringIO()
    writer = csv.writer(text, **{"lineterminator": "\n", **dialect})
    if header:
        writer.writerow(rows.column_names)
    for row in rows.to_pylist():
        writer.writerow([_csv_value(value) for value in row.values()])
    return text.getvalue()


def _csv_value(value: object) -> object:
    if value is None:
        return NULL_TEXT
    return f"{value:%Y-%m-%d %H:%M:%S.%f}" if isinstance(value, datetime) else value


INTERESTING = (0, 1, 0x7F, 0x80, 0xFF)


def mutated(seed: Seed, random: Random) -> bytes:
    """The file with one to three damages. Half of those of a gzip file are in its text."""
    if seed.relative.endswith(".gz") and random.random() < 0.5:
        return gzip.compress(_damaged(gzip.decompress(seed.content), random), mtime=0)
    return _damaged(seed.content, random)


def _damaged(content: bytes, random: Random) -> bytes:
    data = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        if not data:
            break
        random.choice(DAMAGES)(data, _place(data, random), random)
    return bytes(data)


def _place(data: bytearray, random: Random) -> int:
    """A place in the file; of a Parquet file often in its footer, which is where small damages do most harm."""
    if data[-4:] == b"PAR1" and len(data) > 12 and random.random() < 0.4:
        footer_bytes = min(int.from_bytes(data[-8:-4], "little") + 8, len(data))
        return len(data) - 1 - random.randrange(footer_bytes)
    return random.randrange(len(data))


def _flip(data: bytearray, at: int, random: Random) -> None:
    data[at] ^= 1 << random.randrange(8)


def _set(data: bytearray, at: int, random: Random) -> None:
    data[at] = random.choice((random.choice(INTERESTING), random.randrange(256)))


def _overwrite(data: bytearray, at: int, random: Random) -> None:
    data[at : at + 4] = random.choice((0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)).to_bytes(4, "little")


def _insert(data: bytearray, at: int, random: Random) -> None:
    data[at:at] = random.choice(
        (random.randbytes(random.randint(1, 9)), b'"', b"\n", b"\r", b"\0", b",", b"\xef\xbb\xbf")
    )


def _delete(data: bytearray, at: int, random: Random) -> None:
    del data[at : at + random.choice((1, 1, 2, 8, 64))]


def _repeat(data: bytearray, at: int, random: Random) -> None:
    data[at:at] = data[at : at + random.choice((1, 8, 64))] * random.choice((1, 1, 2, 500))


def _swap(data: bytearray, at: int, random: Random) -> None:
    other, length = random.randrange(len(data)), random.choice((1, 8, 64))
    first, second = sorted((at, other))
    if first + length <= second and second + length <= len(data):
        data[first : first + length], data[second : second + length] = (
            data[second : second + length],
            data[first : first + length],
        )


def _truncate(data: bytearray, at: int, _random: Random) -> None:
    del data[at:]


DAMAGES: Sequence[Callable[[bytearray, int, Random], None]] = (
    *(_flip, _flip, _flip, _set, _set, _set),
    *(_overwrite, _insert, _delete, _repeat, _swap, _truncate),
)


def read_through_product(seed: Seed, content: bytes, *, loads: bool) -> str:
    """Read a file in all ways in which the product does.

    Returns:
        What came of it: `refused` with an error of cdclake, or `read`, and `loaded` into a table. If it was read, the
        rows are those that another reader finds in it.

    Raises:
        AssertionError: The rows are others.
        Exception: Any other error than cdclake's.
    """
    if seed.name.startswith("lake"):
        return _read_lake_file(seed, content)
    settings = TableSettings.from_item(seed.item)
    fs, file = FetchedFile(LocalFileSystem(), content), raw_file(seed.relative, len(content))
    is_refused = _is_refused(file, lambda: _read_and_compare(fs, file, settings, content))
    _is_refused(file, lambda: read_columns(fs, file, settings))  # as the doctor does
    if not is_refused:  # as an erasure does
        assert not _is_refused(file, lambda: without_rows(fs, file, settings, {1, 3})), "read, and then not"
    if loads:
        return _load(seed, content, was_read=not is_refused)
    return "refused" if is_refused else "read"


def _read_lake_file(seed: Seed, content: bytes) -> str:
    fs, key, shape = FetchedFile(LocalFileSystem(), content), seed.relative, lake_shape(seed.item["kind"])
    keys = pa.chunked_array([KEYS.cast(to_arrow(seed.item["kind"])).take(pa.array([3, 17, 18]))])
    try:
        if seed.name.startswith(TOMBSTONES):
            bounds = keys[0].as_py(), keys[2].as_py()
            file = TombstoneFile(key, ROWS, "20240305-101500123", *bounds, shape.key_types, "last")
            found = find_tombstones(fs, [file], keys, keys, shape).num_rows
            read_tombstone_file(fs, key)
        else:
            row_groups = row_group_filter(shape, pa.table({LEADING_KEY: keys}))
            for encoded in (False, True):
                batches = read_batches(fs, key, shape, encoded=encoded, row_groups=row_groups)
                found = sum(rows.num_rows for rows in batches)
    except LakeFilesError as error:
        assert error.details.get("file") == key, f"the error does not name the file: {error}"
        assert error.remedy, f"the error has no remedy: {error}"
        return "refused"
    assert content != seed.content or 0 < found < ROWS
    return "read"


def _is_refused(file: RawFile, step: Callable[[], object]) -> bool:
    """Whether a step ends in an error of cdclake, which then is clear."""
    try:
        step()
    except CdclakeError as error:
        _require_clear(error, file)
        return True
    return False


def _require_clear(error: CdclakeError, file: RawFile) -> None:
    assert error.details.get("file") == file.relative, f"the error does not name the file: {error}"
    assert error.remedy, f"the error has no remedy: {error}"


def raw_file(relative: str, size_bytes: int) -> RawFile:
    listed = ListedObject(RAW_PREFIX + relative, size_bytes, datetime(2024, 3, 5, tzinfo=timezone.utc))
    file = parse_raw_file(listed, RAW_PREFIX)
    assert file
    return file


def _read_and_compare(fs: FetchedFile, file: RawFile, settings: TableSettings, content: bytes) -> None:
    inspection = inspect_raw_file(fs, file, settings)
    raw = [rows for part in inspection.parts for rows in read_raw(fs, part, settings, NAME)]
    shape = TableShape(inspection.schema, settings.primary_key, settings.partition_key)
    batches = [batch for part in inspection.parts for batch in read(fs, part, shape, settings, NAME)]
    bad = sum(len(batch.bad_rows) for batch in batches)
    good = sum(batch.rows.num_rows for batch in batches)
    assert good + bad == sum(rows.columns.num_rows + len(rows.bad_rows) for rows in raw), "rows are lost"
    if file.format is RawFormat.PARQUET:
        with suppress(ValueError, OverflowError):  # of extremes that are no text or no date
            footer_of(pa.BufferReader(content)).arrow.to_dict()  # which ends the process if it should not have passed
        _compare_with_arrow(raw, content)
    else:
        _compare_with_csv(raw, file, settings, content)


def _compare_with_arrow(raw: Sequence[RawRows], content: bytes) -> None:
    """Compare with a plain reader's columns and rows."""
    expected = pq.read_table(pa.BufferReader(content), use_threads=False, coerce_int96_timestamp_unit="us")
    assert [number for rows in raw for number in rows.numbers] == list(range(expected.num_rows)), "other rows"
    if raw:
        found = pa.Table.from_batches([rows.columns for rows in raw])
        for column, other in zip(found.columns, expected.cast(found.schema).columns, strict=True):
            is_number = pa.types.is_floating(column.type)  # of which NaN is not itself
            is_same = repr(column.to_pylist()) == repr(other.to_pylist()) if is_number else column.equals(other)
            assert is_same, "other values"


def _compare_with_csv(raw: Sequence[RawRows], file: RawFile, settings: TableSettings, content: bytes) -> None:
    """Compare with the CSV reader of Python, where both have one meaning of the text."""
    text = (gzip.decompress(content) if file.format is RawFormat.CSV_GZ else content).decode("latin-1")
    dialect = settings.csv
    if dialect.row_delimiter == "\r\n":
        if text.count("\r") != text.count("\r\n") or text.count("\n") != text.count("\r\n"):
            return
        text = text.replace("\r\n", "\n")
    if not text.isprintable() and set(text) & set("\r\0\x1c\x1d\x1e\x85\x0b\x0c"):
        return
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=dialect.delimiter,
        strict=True,
        quoting=csv.QUOTE_MINIMAL if dialect.quoting else csv.QUOTE_NONE,
    )
    try:
        lines = [line for line in reader if line]
    except csv.Error:
        return
    width = len(raw[0].columns.schema.names) if raw else 0
    names = [name.encode().decode("latin-1") for name in raw[0].columns.schema.names] if raw else []
    lines = lines[1:] if lines and lines[0] == names else lines
    lines = [line for line in lines if width == 1 or line != [""]]  # `""` counts as an empty line
    expected = [line for line in lines if len(line) == width]
    found = [list(row.values()) for rows in raw for row in rows.columns.to_pylist()]
    texts = [[NULL_TEXT if value is None else value.decode("latin-1") for value in row] for row in found]
    if not text.startswith("\u00ef\u00bb\u00bf"):
        assert texts == expected, "other rows"
        assert sum(len(rows.bad_rows) for rows in raw) == len(lines) - len(expected), "other bad rows"


def _load(seed: Seed, content: bytes, *, was_read: bool) -> str:
    """Load the file into a new table, which then has the rows of the file, whose keys are numbers."""
    with tempfile.TemporaryDirectory() as folder:
        table = Table(Path(folder), source_rows().schema, dict(seed.item))
        table.put(seed.relative, content)
        is_load = table.raw_file(seed.relative).kind is RawKind.FULL_LOAD
        try:
            summary = table.load_initial() if is_load else table.load_incremental()
        except CdclakeError as error:
            assert error.remedy, f"the error has no remedy: {error}"
            assert table.files() == [], "a refused file left data files"
            return "refused"
        assert was_read, "a file was loaded that cannot be read"
        if summary["change"] is None:
            return "read"
        files = [pq.read_table(table.folder / path, partitioning=None) for path in table.files()]
        rows = pa.concat_tables(files, promote_options="default") if files else pa.table({})  # all rows are bad
        batch = table.read(seed.relative)
        last = {row["id"]: row for row in batch.rows.to_pylist()}
        repeated = batch.rows.num_rows - len(last) if is_load else 0  # of a full load, the last row with a key counts
        assert summary["books"]["quarantined"] == len(batch.bad_rows) + repeated, "other bad rows"
        expected = {key: row for key, row in last.items() if row["Op"] != "D"}
        found = {row["id"]: row for row in rows.to_pylist()}
        assert found.keys() == expected.keys(), "other keys"
        assert rows.num_rows == len(found), "a key twice"
        names = [name for name in rows.column_names if name not in ("Op", "_cdc_position")]
        assert all(_same(found[key], row, names) for key, row in expected.items()), "other values"
        return "loaded"


def _same(row: dict[str, Any], other: dict[str, Any], names: Sequence[str]) -> bool:
    return all(repr(row[name]) == repr(other[name]) for name in names)  # as NaN is not itself


def mutation(number: int, salt: str) -> tuple[Seed, bytes]:
    """A damaged file, the same for the same arguments."""
    seed = seeds()[number % len(seeds())]
    return seed, mutated(seed, Random(f"{salt} {number}"))


def main(first: int, count: int, salt: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    for number in range(first, first + count):
        seed, content = mutation(number, salt)
        print(json.dumps({"begin": number}), flush=True)
        if os.environ.get(ABORT_AT) == str(number):
            os.abort()
        try:
            outcome, wrong = read_through_product(seed, content, loads=number % LOADED_ONE_IN == 0), ""
        except Exception as error:  # noqa: BLE001 - reported
            outcome, wrong = "wrong", "".join(traceback.format_exception(error)[-3:])
        print(json.dumps({"end": number, "kind": seed.name.split()[0], "outcome": outcome, "wrong": wrong}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
