"""Values of columns with a rule are replaced when they are read, the same in both formats."""

from __future__ import annotations

import hmac
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.errors import SchemaMismatchError
from cdclake.lake.raw.reader import inspect_raw_file
from cdclake.lake.raw.rows import BadRowKind
from cdclake.model.names import HASH_SECRET_VARIABLE
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "0123456789abcdef0123456789abcdef"
LOAD, CHANGE = "LOAD00000001", "20240305-101500000"


def hashed(text: str) -> str:
    return hmac.new(SECRET.encode(), text.encode(), "sha256").hexdigest()


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HASH_SECRET_VARIABLE, SECRET)


def table(root: Path, policy: str, **item: str) -> Table:
    return Table(root, pa.schema([("id", pa.int32())]), {"PrimaryKey": "id", "ColumnPolicy": policy, **item})


VALUES: list[tuple[str, Any, str, str]] = [
    ("string", "Zoë", "Zoë", "Zoë"),
    ("string", "", "", ""),
    ("int", 7, "0007", "7"),
    ("bigint", -(2**62), str(-(2**62)), str(-(2**62))),
    ("decimal(10,2)", Decimal("5.00"), "5.00", "5"),
    ("decimal(10,2)", Decimal("-0.50"), "-0.5", "-0.5"),
    ("double", 0.5, "5e-1", "0.5"),
    ("date", date(1987, 11, 23), "1987-11-23", "1987-11-23"),
    (
        "timestamp",
        datetime(1991, 7, 17, 3, 57, 41, tzinfo=timezone.utc),
        "1991-07-17 03:57:41",
        "1991-07-17 03:57:41.000000Z",
    ),
    ("boolean", True, "1", "true"),
    ("binary", b"\x00\xff", "", "00ff"),
]


@pytest.mark.parametrize(("kind", "value", "in_csv", "text"), VALUES)
def test_equal_values_have_the_same_hash_in_both_formats(
    tmp_path: Path, kind: str, value: Any, in_csv: str, text: str
) -> None:
    one = table(tmp_path, "hash v", Schema=f"id int, v {kind}")
    typed = pa.array([value, None], pa.decimal128(10, 2) if kind.startswith("dec") else None)
    found = {"parquet": one.read_file(f"{LOAD}.parquet", pa.table({"id": [1, 2], "v": typed}))}
    if kind != "binary":  # CSV has no bytes but texts
        found["csv"] = one.read_file(f"{LOAD}.csv", f"1,{in_csv}\n2,NULL\n".encode())
    expected = [hashed(text), None]
    assert {name: batch.rows["v"].to_pylist() for name, batch in found.items()} == dict.fromkeys(found, expected)
    assert all(batch.bad_rows == () for batch in found.values())


def test_repeated_texts_may_be_encoded(tmp_path: Path) -> None:
    one = table(tmp_path, "hash v")
    texts = pa.array(["a", "b", None, "a"]).dictionary_encode()
    batch = one.read_file(f"{LOAD}.parquet", pa.table({"id": [1, 2, 3, 4], "v": texts}))
    assert batch.rows["v"].to_pylist() == [hashed("a"), hashed("b"), None, hashed("a")]


def test_each_action_changes_its_column_and_its_before_image(tmp_path: Path) -> None:
    one = table(tmp_path, "exclude a, redact b, truncate c 2, hash id", NullMeansUnsent="b")
    rows = {"Op": ["U", "U"], "id": [1, 2], "a": ["x", None], "b": ["x", None], "c": ["xyz", "x"]}
    images = {"BI_id": [9, None], "BI_a": ["w", "w"], "BI_b": ["w", "w"]}
    batch = one.read_file(f"{CHANGE}.parquet", pa.table({**rows, **images}))
    found = batch.rows.select(["id", "b", "c", "Op"]).to_pylist()
    assert found == [
        {"id": hashed("1"), "b": "***", "c": "xy", "Op": "U"},
        {"id": hashed("2"), "b": None, "c": "x", "Op": "U"},
        {"id": hashed("9"), "b": None, "c": None, "Op": "D"},
    ]
    assert "a" not in batch.rows.column_names


def test_what_was_not_sent_stays_so(tmp_path: Path) -> None:
    one = table(tmp_path, "hash b, truncate c 2", Schema="id int, b string, c string", CsvNoSupValue="#unsent")
    one.put(f"{CHANGE}.csv", b"Op,id,b,c,BI_b\nU,1,#unsent,NULL,\nU,2,#uns,#unsent,x\n")
    batch = one.read(f"{CHANGE}.csv")
    assert batch.rows.select(["b", "c", "_unsent"]).to_pylist() == [
        {"b": None, "c": None, "_unsent": "010"},
        {"b": hashed("#uns"), "c": None, "_unsent": "001"},
    ]


def test_a_bad_row_shows_only_what_the_lake_may_have(tmp_path: Path) -> None:
    one = table(tmp_path, "exclude a, hash b, redact c", Schema="id int, a string, b int, c string, d int")
    lines = ["U,1,SECRET,SECRET,x,4", "U,1,x,5,SECRET,bad", "U,1,SECRET,3,x", "SECRET,1,x,5,x,4", "U,NULL,x,5,x,4", ""]
    batch = one.read_file(f"{CHANGE}.csv", "\n".join(lines).encode())
    assert [(bad.row, bad.kind, bad.columns) for bad in batch.bad_rows] == [
        (0, BadRowKind.VALUE, ("b",)),
        (1, BadRowKind.VALUE, ("d",)),
        (2, BadRowKind.WIDTH, ()),
        (3, BadRowKind.OPERATION, ("Op",)),
        (4, BadRowKind.KEY, ("id",)),
    ]
    assert batch.bad_rows[0].content == {"Op": "U", "id": "1", "b": None, "c": "***", "d": "4"}
    assert batch.bad_rows[1].content == {"Op": "U", "id": "1", "b": hashed("5"), "c": "***", "d": "bad"}
    assert [bad.content for bad in batch.bad_rows[2:4]] == ["", ""]
    assert "SECRET" not in str(batch.bad_rows)


def test_bytes_that_are_no_text_are_bad(tmp_path: Path) -> None:
    one = table(tmp_path, "truncate v 3")
    batch = one.read_file(f"{LOAD}.csv", b"id,v\n1,ab\xfc\n2,abcd\n")
    assert batch.rows["v"].to_pylist() == ["abc"]
    assert [(bad.row, bad.reason) for bad in batch.bad_rows] == [(0, "A value of column v is not UTF-8 text")]


def test_an_excluded_column_may_have_a_type_that_the_lake_lacks(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "tags": pa.array([["a"]])})
    assert table(tmp_path / "a", "exclude tags").read_file(f"{LOAD}.parquet", rows).rows.num_rows == 1
    with pytest.raises(SchemaMismatchError, match="tags"):
        table(tmp_path / "b", "hash tags").read_file(f"{LOAD}.parquet", rows)


def test_the_footer_tells_no_bounds_of_a_hashed_key(tmp_path: Path) -> None:
    ranges = []
    for one in (table(tmp_path / "a", "null"), table(tmp_path / "b", "hash id")):
        one.write_load([{"id": 1}, {"id": 2}])
        run = one.run()
        found = inspect_raw_file(run.raw_fs.open(), one.raw_file(f"{LOAD}.parquet"), run.settings)
        ranges += [part.key_range for part in found.parts]
    assert ranges == [(1, 2), (None, None)]
