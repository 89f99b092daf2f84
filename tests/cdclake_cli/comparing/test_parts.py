"""Tables of any size are compared with bounded memory: parts that are too large are split again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from cdclake_cli.comparing.match import match
from cdclake_cli.comparing.parts import pairs_of_parts
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LARGEST = 2_000


def rows(ids: Sequence[int], text: str = "x") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "text": [text * 10] * len(ids)})


def batches(table: pa.Table, size: int = 50) -> Iterator[pa.Table]:
    yield table.schema.empty_table()
    yield from (table.slice(first, size) for first in range(0, table.num_rows, size))


def pairs(left: pa.Table, right: pa.Table, parts: int = 2) -> list[tuple[pa.Table, pa.Table]]:
    return list(pairs_of_parts(batches(left), batches(right), lambda one: one.select(["id"]), parts, LARGEST))


def test_no_part_is_larger_than_the_bound_and_no_row_is_lost() -> None:
    left, right = rows(range(3_000)), rows(range(10, 3_010))
    found = pairs(left, right)
    assert max(part.nbytes for pair in found for part in pair) <= LARGEST
    for whole, side in ((left, 0), (right, 1)):
        ids = [number for pair in found for number in pair[side]["id"].to_pylist()]
        assert sorted(ids) == whole["id"].to_pylist()


def test_a_part_is_split_by_what_its_keys_do_not_have_in_common() -> None:
    """Also if it is split into as many parts as the table was."""
    for count in range(300, 900, 50):
        found = pairs(rows(range(count)), rows([1]), parts=4)
        assert max(part.nbytes for part, _ in found) <= LARGEST, count


def test_a_larger_right_table_is_split_as_well() -> None:
    found = pairs(rows([1, 2]), rows(range(3_000)))
    assert max(right.nbytes for _, right in found) <= LARGEST
    assert sum(left.num_rows for left, _ in found) == 2


def test_rows_of_one_key_stay_together_however_many_they_are() -> None:
    found = pairs(rows([5] * 500), rows([5]))
    assert [(left.num_rows, right.num_rows) for left, right in found if left.num_rows] == [(500, 1)]


@examples(thorough=2_000, ci=200, test=60)
@given(st.lists(st.integers(0, 40), max_size=200), st.lists(st.integers(0, 40), max_size=200), st.integers(1, 5))
def test_equal_keys_meet_in_one_pair(left: list[int], right: list[int], parts: int) -> None:
    together = [
        set(mine["id"].to_pylist()) & set(other["id"].to_pylist())
        for mine, other in pairs(rows(left), rows(right), parts)
    ]
    assert sum(map(len, together)) == len(set(left) & set(right))


@examples(thorough=2_000, ci=200, test=60)
@given(st.data())
def test_matched_rows_are_those_of_a_simple_comparison(data: st.DataObject) -> None:
    row = st.tuples(st.integers(0, 5), st.sampled_from(["a", "b", None]))
    left, right = data.draw(st.lists(row, max_size=12)), data.draw(st.lists(row, max_size=12))
    found = match(_table(left), _table(right), ["id"])
    mine, other = {key for key, _ in left}, {key for key, _ in right}
    assert set(found.only_left["id"].to_pylist()) == mine - other
    assert set(found.only_right["id"].to_pylist()) == other - mine
    assert found.left["id"].to_pylist() == found.right["id"].to_pylist()
    equal = {key for key, _ in set(left) & set(right)}
    differing = {
        key for key, mask in zip(found.left["id"].to_pylist(), found.differing.to_pylist(), strict=True) if mask
    }
    assert differing == (mine & other) - equal
    assert found.repeated == len(left) - len(mine) + len(right) - len(other)


def test_of_several_rows_that_both_tables_have_the_same_one_counts() -> None:
    found = match(_table([(1, "a"), (1, "b")]), _table([(1, "b"), (1, "a")]), ["id"])
    assert (found.differing.to_pylist(), found.repeated) == ([False], 2)


def _table(values: list[tuple[int, str | None]]) -> pa.Table:
    return pa.table(
        {"id": pa.array([key for key, _ in values], pa.int64()), "v": pa.array([v for _, v in values], pa.string())}
    )
