"""Rows are found by keys of any columns."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from cdclake.lake.storage.keys import KEY, LEADING_KEY
from cdclake.lake.storage.shape import TableShape
from cdclake.lake.storage.types import to_arrow
from cdclake.lake.storage.wanted_keys import WantedKeys
from cdclake.model.schema import Column, Schema
from tests.examples import examples

VALUES = {
    "int": st.integers(-2, 2),
    "string": st.text(alphabet="\0\1:aé", max_size=2),
    "decimal(4,2)": st.decimals(-1, 1, places=1),
    "boolean": st.booleans(),
}


@examples(default=200, thorough=3_000)
@given(st.data())
def test_rows_with_wanted_keys_are_found(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    schema = Schema(tuple(Column(f"c{i}", kind) for i, kind in enumerate(kinds)))
    leading = data.draw(st.integers(1, len(kinds)))
    shape = TableShape(schema, tuple(schema.names), (), leading=leading)
    keys = st.tuples(*(VALUES[kind] for kind in kinds))
    held, wanted = (data.draw(st.lists(keys, min_size=minimum, max_size=8)) for minimum in (0, 1))

    def table(rows: list[tuple[object, ...]]) -> pa.Table:
        columns = [[row[i] for row in rows] for i in range(len(kinds))]
        arrays = [pa.array(column, to_arrow(kind)) for column, kind in zip(columns, kinds, strict=True)]
        return pa.table(arrays, names=schema.names)

    leading_keys, wanted_keys = shape.keys_of(table(wanted), ())
    found = WantedKeys(pa.table({LEADING_KEY: leading_keys, KEY: wanted_keys}), shape).find(table(held), ())

    assert found.to_pylist() == [row in wanted for row in held]
