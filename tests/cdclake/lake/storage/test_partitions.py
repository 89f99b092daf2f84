"""Tests of the split of rows by partition."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cdclake.errors import ConfigurationError
from cdclake.lake.storage.partitions import by_partition, partition_id, partition_ids, partition_sort_key

NUMBERS = range(1_000)


@pytest.mark.parametrize(
    "columns",
    [
        {"p": [["b", "a", None, "", "|", "-"][i % 6] for i in NUMBERS]},
        {"p": [[0.0, -0.0, 1.5, None][i % 4] for i in NUMBERS]},
        {"p": [[Decimal("1.10"), Decimal("-2.00"), None][i % 3] for i in NUMBERS]},
        {"p": [[datetime(2026, 1, 1, 0, 0, 0, i % 3, timezone.utc), None][i % 2] for i in NUMBERS]},
        {"p": [[True, False, None][i % 3] for i in NUMBERS], "q": [date(2026, 1, 1 + i % 28) for i in NUMBERS]},
        {"p": [str(i % 7) for i in NUMBERS], "q": [i % 11 or None for i in NUMBERS], "r": [i % 3 for i in NUMBERS]},
        {"p": ["only"] * len(NUMBERS)},
        {},
    ],
)
def test_rows_of_a_partition_are_together_and_in_order(columns: dict[str, list[Any]]) -> None:
    rows = pa.table({**columns, "value": [i * 7 % 1_000 for i in NUMBERS], "row": NUMBERS})
    expected: dict[str, list[int]] = {}
    for row, text in enumerate(partition_ids(rows, list(columns)).to_pylist()):
        expected.setdefault(text, []).append(row)
    for then_by, key in (("", None), ("value", lambda row: row * 7 % 1_000)):
        split = by_partition(rows, list(columns), then_by)
        parts = {partition_id(partition): part["row"].to_pylist() for partition, part in split.parts()}
        assert parts == {text: sorted(numbers, key=key) for text, numbers in expected.items()}
        assert list(split.counts) == sorted(split.counts, key=partition_sort_key)
        assert sum(split.counts.values()) == split.rows.num_rows == len(NUMBERS)


def test_many_partition_columns_with_many_values_each_do_not_overflow() -> None:
    rng = np.random.default_rng(5)
    names = [f"p{number}" for number in range(6)]
    rows = pa.table({**{name: rng.permutation(20_000) for name in names}, "row": np.arange(20_000)})
    split = by_partition(rows, names)
    assert set(split.counts.values()) == {1}
    for partition, part in list(split.parts())[:100]:
        assert partition == tuple(str(part[name][0].as_py()) for name in names)


def test_no_rows_have_no_partitions() -> None:
    rows = pa.table({"p": pa.array([], pa.string())})
    assert by_partition(rows, ["p"]).counts == by_partition(rows, []).counts == {}


def test_a_value_that_is_not_text_is_refused() -> None:
    rows = pa.table({"p": pa.array([b"a", b"\xff"], pa.binary())})
    with pytest.raises(ConfigurationError, match="Partition column p contains a value that is not UTF-8 text"):
        by_partition(rows, ["p"])
