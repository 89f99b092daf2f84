"""Rows are found by keys of any columns."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from cdclake.lake.storage.keys import KEY, LEADING_KEY
from cdclake.lake.storage.partitions import partition_text
from cdclake.lake.storage.shape import TableShape
from cdclake.lake.storage.types import to_arrow
from cdclake.lake.storage.wanted_keys import WantedKeys
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.schema import Column, Schema
from tests.examples import examples

VALUES = {
    "int": st.integers(-2, 2),
    "string": st.text(alphabet="\0\1:aé", max_size=2),
    "decimal(4,2)": st.decimals(-1, 1, places=1),
    "boolean": st.booleans(),
}


@examples(thorough=3_000, ci=200, test=100)
@given(st.data())
def test_rows_with_wanted_keys_are_found(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    schema = Schema(tuple(Column(f"c{i}", kind) for i, kind in enumerate(kinds)))
    leading = data.draw(st.integers(1, len(kinds)))
    folders = data.draw(st.sets(st.integers(0, len(kinds) - 1)))
    shape = TableShape(schema, tuple(schema.names), tuple(schema.names[i] for i in sorted(folders)), leading=leading)
    keys = st.tuples(*(VALUES[kind] for kind in kinds))
    drawn, wanted = (data.draw(st.lists(keys, min_size=minimum, max_size=8)) for minimum in (0, 1))
    held = [tuple(drawn[0][i] if i in folders else value for i, value in enumerate(row)) for row in drawn]

    def columns(rows: list[tuple[object, ...]]) -> dict[str, pa.Array]:
        arrays = (pa.array([row[i] for row in rows], to_arrow(kind)) for i, kind in enumerate(kinds))
        return dict(zip(schema.names, arrays, strict=True))

    leading_keys, wanted_keys = replace(shape, partition_key=()).keys_of(pa.table(columns(wanted)), ())
    stored = {name: values for name, values in columns(held).items() if name not in shape.partition_key}
    rows = pa.table({**stored, POSITION: pa.repeat("", len(held))})
    values = columns(held[:1] or wanted)
    partition = tuple(partition_text(values[name])[0].as_py() for name in shape.partition_key)
    found = WantedKeys(pa.table({LEADING_KEY: leading_keys, KEY: wanted_keys}), shape).find(rows, partition)

    assert found.to_pylist() == [row in wanted for row in held]
