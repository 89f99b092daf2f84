"""The lake equals the reference merge when columns of keys, orders and partitions widen between changes of few rows."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.lake.spark.in_process import InProcessBackend
from tests.cdclake.lake.merge.test_against_oracle import IN_PLACE, IN_STAGES, MODES, SMALL, TINY, WIDER, Row, check
from tests.examples import examples

FILES = 4
TYPES: dict[str, tuple[pa.DataType, ...]] = {
    "id": (pa.int32(), pa.int64(), pa.decimal128(20, 0), pa.decimal128(22, 2)),
    "n": WIDER,
    "amount": (pa.decimal128(12, 2), pa.decimal128(16, 4)),
    "ratio": (pa.float32(), pa.float64()),
}


def row(number: int, value: int, city: str) -> Row:
    return {
        "id": number,
        "code": "a",
        "day": date(2024, 1, 1),
        "city": city,
        "amount": Decimal(value) / 10,
        "at": datetime(2024, 1, 1, tzinfo=timezone.utc),
        "flag": None,
        "n": value,
        "ratio": value / 4 or (-0.0 if city == "minus" else 0.0),
    }


rows = st.builds(row, st.integers(1, 2), st.sampled_from([-5, 0, 7, 100]), st.sampled_from(["plus", "minus"]))
deletes = st.lists(st.tuples(st.just("D"), rows, st.none()), min_size=1, max_size=2)
changes = st.lists(st.tuples(st.sampled_from("UUUD"), rows, st.none()), min_size=1, max_size=2)
types = st.fixed_dictionaries({name: st.sampled_from(kinds) for name, kinds in TYPES.items()})


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("order", [None, "n", "ratio"])
@examples(thorough=500, ci=10, test=4)
@given(
    key=st.sampled_from([("id",), ("id",), ("n",), ("ratio", "id")]),
    partition=st.sampled_from([(), ("amount",), ("amount",), ("ratio",)]),
    delete_mode=st.sampled_from(MODES),
    files=st.tuples(deletes, *[changes] * (FILES - 1)),
    types=st.tuples(*[types] * FILES),
    arrivals=st.permutations(range(FILES)),
    in_place=st.sampled_from([IN_PLACE, IN_STAGES]),
    tiny=st.sets(st.sampled_from(sorted(TINY))),
    pieces=st.booleans(),
)
def test_any_widening_equals_the_oracle(order: str | None, in_order: bool, **feed: Any) -> None:
    feed["arrivals"] = sorted(feed["arrivals"]) if in_order else feed["arrivals"]
    applied = {"runs": [True] * FILES, "deaths": [None] * FILES, "load_death": None, "small": SMALL}
    window: dict[str, Any] = {"window_hours": "0" if in_order else "72", "target": "134217728", "full_load": []}
    check({**feed, **applied, **window, "order": order}, InProcessBackend())
