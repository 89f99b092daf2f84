"""Files that are small on disk and large in memory: each process that reads or merges them has a bounded peak."""

from __future__ import annotations

import gzip
import json
import pickle
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import cdclake.lake  # noqa: F401 - chooses Arrow's allocator, before Arrow is imported
from cdclake.errors import TooLargeError
from cdclake.lake.limits import EngineLimits
from cdclake.lake.memory_errors import memory_errors_reported
from cdclake.lake.merge.sorted_rows import SortedRows
from cdclake.lake.storage.arrow_ipc import MAX_UNPACKED_BYTES, Rows
from cdclake.lake.storage.keys import LEADING_KEY
from tests import ROOT
from tests.cdclake.lake.table import Table

ROWS, LENGTH = 70_000, 32_000
"""2.2 GB of texts for each column."""
MAX_PEAK_BYTES = 1_600_000_000
LOAD, CHANGE, SMALL_CHANGE = "LOAD00000001", "20240306-101500123", "20240306-111500123"


def text(salt: str) -> str:
    return salt + "".join(Random(salt).choices("abcdefghij", k=LENGTH - 1))


def put_parquet(table: Table, name: str, rows: int, columns: int, op: str = "") -> None:
    values = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), rows), [text(op or "L")])
    added = {"Op": pa.repeat(op, rows)} if op else {}
    content = pa.table({**added, "id": pa.array(range(rows)), **{f"text{i}": values for i in range(columns)}})
    table.put(f"{name}.parquet", content, row_group_size=rows, store_schema=False)


def put_csv(table: Table, name: str, rows: int, columns: int, op: str = "") -> None:
    path = table.raw_path(f"{name}.csv.gz")
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = ("," + text(op or "L") + "{0}") * columns
    with gzip.open(path, "wt", compresslevel=1) as file:
        for number in range(rows):
            file.write((f"{op}," if op else "") + f"{number}" + texts.format(number) + "\n")


def run(folder: str, kind: str, columns: int, rows: int, settings: dict[str, str]) -> dict[str, int]:
    """Load a file, update each row, and update a few rows; returns the largest size of this process so far."""
    schema = pa.schema([("id", pa.int64()), *((f"text{i}", pa.string()) for i in range(columns))])
    declared = {"Schema": ", ".join(f"{name} {'bigint' if name == 'id' else 'string'}" for name in schema.names)}
    table = Table(Path(folder), schema, {"PrimaryKey": "id", **(declared if kind == "csv" else {}), **settings})
    put = put_csv if kind == "csv" else put_parquet
    put(table, LOAD, rows, columns)
    table.load_initial()
    after_load = peak_bytes()
    put(table, CHANGE, rows, columns, "U")
    assert table.load_incremental()["books"]["updated"] == rows
    put(table, SMALL_CHANGE, 3, columns, "D")
    books = table.load_incremental()["books"]
    assert (books["deleted"], books["rows_after"]) == (3, rows - 3)
    return {"after_load": after_load, "peak": peak_bytes()}


def peak_bytes() -> int:
    """The largest size of this process so far. `ru_maxrss` would begin with that of the process that started it."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) << 10


def run_in_child(folder: Path, *arguments: Any) -> dict[str, int]:
    command = [sys.executable, "-m", __name__, str(folder), json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    peaks: dict[str, int] = json.loads(done.stdout)
    return peaks


@pytest.mark.long
@pytest.mark.slow
def test_a_file_of_450_kb_with_2_gb_of_texts_needs_little_memory(tmp_path: Path) -> None:
    peaks = run_in_child(tmp_path, "parquet", 1, ROWS, {})
    assert peaks["after_load"] < 300_000_000  # repeated texts stay encoded
    assert peaks["peak"] < MAX_PEAK_BYTES


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "columns", "rows", "settings"),
    [
        ("parquet", 6, ROWS, {}),
        ("csv", 1, 10_000, {}),
        ("parquet", 1, ROWS, {"TargetFileBytes": "100000"}),
        ("parquet", 1, ROWS, {"History": "true"}),
        ("parquet", 1, ROWS, {"DeleteMode": "soft"}),
    ],
)
def test_other_small_files_with_gigabytes_of_texts_need_little_memory(
    tmp_path: Path, kind: str, columns: int, rows: int, settings: dict[str, str]
) -> None:
    assert run_in_child(tmp_path, kind, columns, rows, settings)["peak"] < MAX_PEAK_BYTES


def test_long_texts_that_repeat_are_packed_once() -> None:
    table = pa.table(
        {"id": range(1_000), "text": [text("a"), None] * 500, "other": [str(i) * 500 for i in range(1_000)]}
    )
    rows = Rows.to_keep(table)
    assert rows.table is not table, "large rows are packed at once"
    assert rows.size_bytes < MAX_UNPACKED_BYTES
    assert (rows.num_rows, rows.table) == (1_000, table)
    assert rows.columns(["text"]) == table.select(["text"])
    few = Rows(table.select(["id", "text"]))
    assert few.table is few.table, "a table stays as it is"
    sent = pickle.loads(pickle.dumps(few))
    assert sent.size_bytes < 100_000
    assert sent.table == few.table
    assert pickle.dumps(sent) == pickle.dumps(few), "what was sent is passed on as it is"


@pytest.mark.parametrize("max_bytes", [0, 1 << 10, 1 << 20])
@pytest.mark.parametrize("has_key", [True, False])
def test_rows_that_go_to_disk_come_back_by_key(max_bytes: int, *, has_key: bool) -> None:
    numbers = Random(3).sample(range(5_000), 5_000)
    rows = SortedRows(EngineLimits(sorted_bytes=max_bytes))
    for start in range(0, 5_000, 500):
        values = [number // 2 for number in numbers[start : start + 500]]
        rows.add(pa.table({LEADING_KEY if has_key else "value": values, "text": list(map(str, values))}))
    assert rows.num_rows == 5_000
    parts = list(rows.parts())
    found = [int(value) for part in parts for value in part["text"].to_pylist()]
    expected = [number // 2 for number in numbers]
    assert found == sorted(expected) if has_key and max_bytes < 1 << 20 else found == expected


def test_an_error_of_memory_names_file_row_group_and_remedy() -> None:
    for error in (
        pa.ArrowMemoryError("malloc of size 4096000000 failed"),
        pa.ArrowCapacityError("array cannot contain more than 2147483646 bytes"),
        pa.ArrowInvalid("offset overflow while concatenating arrays, consider casting input first"),
        pa.ArrowInvalid("Take operation overflowed binary array capacity"),
        MemoryError(),
    ):
        reported = pytest.raises(TooLargeError, match=r"file LOAD1, row_group 3 to 5.*larger workers")
        with reported as caught, memory_errors_reported("LOAD1", [3, 4, 5]):
            raise error
        assert caught.value.exit_code == 3
    with pytest.raises(pa.ArrowInvalid, match="parse"), memory_errors_reported("LOAD1"):
        message = "Failed to parse"
        raise pa.ArrowInvalid(message)


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], *json.loads(sys.argv[2]))))
