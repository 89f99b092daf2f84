"""A published example without history yields the published table."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.cdclake.lake.merge.published_scd import CHANGES, TYPE_1
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.cdclake.lake.merge.published_scd import Change

COLUMNS = pa.schema([("userId", pa.int64()), ("name", pa.string()), ("city", pa.string()), ("sequenceNum", pa.int64())])
CUTS = [(8,), (4, 6, 8), (1, 2, 3, 4, 5, 6, 7, 8)]


@pytest.mark.parametrize("cuts", CUTS, ids=str)
def test_the_greatest_sequence_number_of_a_user_wins(tmp_path: Path, cuts: tuple[int, ...]) -> None:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "userId", "OrderColumn": "sequenceNum"})
    start = 0
    for number, end in enumerate(cuts):
        apply(table, f"20240305-10150{number}000.parquet", CHANGES[start:end])
        start = end
    assert users(table) == TYPE_1


@pytest.mark.sampled(quick=2)
@pytest.mark.parametrize("order", list(permutations([CHANGES[:4], CHANGES[4:6], CHANGES[6:]])))
def test_the_order_in_which_files_arrive_makes_no_difference(
    tmp_path: Path, order: tuple[Sequence[Change], ...]
) -> None:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "userId", "OrderColumn": "sequenceNum"})
    for number, changes in enumerate(order):
        apply(table, f"20240305-10150{number}000.parquet", changes)
    assert users(table) == TYPE_1


def apply(table: Table, name: str, changes: Sequence[Change]) -> None:
    rows = [
        (operation, {"userId": user, "name": name, "city": city, "sequenceNum": sequence})
        for user, name, city, operation, sequence in changes
    ]
    table.apply_file(name, rows)


def users(table: Table) -> set[tuple[int, str, str]]:
    rows = [(one.row["userId"], one.row["name"], one.row["city"]) for one in table.rows()]
    assert len({user for user, _, _ in rows}) == len(rows)
    return set(rows)
