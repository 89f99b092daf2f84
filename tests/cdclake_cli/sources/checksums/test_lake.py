"""Checksums of rows in Arrow are as documented, and different rows have different texts."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from hashlib import md5
from math import isfinite

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake_cli.sources.checksums.lake import BucketSums, checksums, digests, hash_buckets
from cdclake_cli.sources.mysql.checksum import SQL as MYSQL
from cdclake_cli.sources.mysql.checksum import double_text
from cdclake_cli.sources.postgres.checksum import SQL as POSTGRESQL

ROW = pa.table(
    {
        "id": pa.array([7], pa.int32()),
        "flag": [True],
        "price": pa.array([Decimal("0.00000001")], pa.decimal128(12, 8)),
        "note": ["a:é☃"],
        "photo": [b"\x00\xff"],
        "day": [date(44, 1, 2)],
        "at": pa.array([datetime(2024, 3, 5, 6, 7, 8, 90, timezone.utc)], pa.timestamp("us", "UTC")),
        "nothing": pa.array([None], pa.string()),
        "no_number": pa.array([None], pa.int8()),
        "empty": [""],
    }
)
TEXT = "7,1,0.00000001,4:a:é☃00ff,0044-01-02,2024-03-05 06:07:08.000090,--,0:"


@pytest.mark.parametrize("sql", [MYSQL, POSTGRESQL])
def test_the_text_of_a_row_tells_where_each_value_ends(sql: object) -> None:
    (digest,) = digests(ROW, ROW.column_names, sql.float_texts)  # type: ignore[attr-defined]
    assert digest == md5(TEXT.encode()).digest()
    assert checksums([digest]).tolist() == [int(digest.hex()[:15], 16)]
    assert hash_buckets([digest], 7).tolist() == [int(digest.hex()[:8], 16) % 7]


@given(st.floats())
def test_a_double_as_mysql_writes_it_is_the_same_number(value: float) -> None:
    text = double_text(value)
    assert float(text) == value or not isfinite(value)
    assert text == double_text(float(text)) or value != value
    assert "+" not in text
    assert "E" not in text


@given(st.floats(), st.floats())
def test_different_numbers_have_different_texts(left: float, right: float) -> None:
    for sql in (MYSQL, POSTGRESQL):
        ours, theirs = sql.float_texts(pa.array([left, right])).to_pylist()
        assert ours != theirs or left == right or (left != left and right != right)
    assert POSTGRESQL.float_texts(pa.array([1.5, None], pa.float32())).to_pylist() == ["3fc00000", None]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2**60 - 1))))
def test_sums_are_exact(rows: list[tuple[int, int]]) -> None:
    sums = BucketSums(4)
    for some in (rows[::2], rows[1::2]):
        sums.add(np.array([one for one, _ in some], np.int64), np.array([one for _, one in some], np.uint64))
    for bucket in range(4):
        own = [value for number, value in rows if number == bucket]
        assert sums.of(bucket) == (len(own), sum(own))
