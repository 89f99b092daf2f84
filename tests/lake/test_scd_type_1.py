"""A published example of a load that keeps no history gives the table that is published with it.

The rows and both tables are those of Databricks' documentation of AUTO CDC (formerly APPLY CHANGES), "Process SCD
type 1 updates": users with a city, changes that come out of order, told apart by a sequence number.
https://docs.databricks.com/aws/en/dlt/cdc
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = pa.schema([("userId", pa.int64()), ("name", pa.string()), ("city", pa.string()), ("sequenceNum", pa.int64())])
OPERATIONS = {"INSERT": "I", "UPDATE": "U", "DELETE": "D"}
CHANGES = [
    (124, "Raul", "Oaxaca", "INSERT", 1),
    (123, "Isabel", "Monterrey", "INSERT", 1),
    (125, "Mercedes", "Tijuana", "INSERT", 2),
    (126, "Lily", "Cancun", "INSERT", 2),
    (123, None, None, "DELETE", 6),
    (125, "Mercedes", "Guadalajara", "UPDATE", 6),
    (125, "Mercedes", "Mexicali", "UPDATE", 5),
    (123, "Isabel", "Chihuahua", "UPDATE", 5),
]
RESULT = {124: ("Raul", "Oaxaca"), 125: ("Mercedes", "Guadalajara"), 126: ("Lily", "Cancun")}
CUTS = [(8,), (4, 6, 8), (1, 2, 3, 4, 5, 6, 7, 8)]


@pytest.mark.parametrize("cuts", CUTS, ids=str)
def test_users_are_where_the_greatest_sequence_number_has_them(tmp_path: Path, cuts: tuple[int, ...]) -> None:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "userId", "OrderColumn": "sequenceNum"})
    start = 0
    for number, end in enumerate(cuts):
        apply(table, f"20240305-10150{number}000.parquet", CHANGES[start:end])
        start = end
    assert users(table) == RESULT


@pytest.mark.parametrize("order", list(permutations([CHANGES[:4], CHANGES[4:6], CHANGES[6:]])))
def test_the_order_in_which_files_come_makes_no_difference(
    tmp_path: Path, order: tuple[list[tuple[int, str | None, str | None, str, int]], ...]
) -> None:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "userId", "OrderColumn": "sequenceNum"})
    for number, changes in enumerate(order):
        apply(table, f"20240305-10150{number}000.parquet", changes)
    assert users(table) == RESULT


def apply(table: Table, name: str, changes: list[tuple[int, str | None, str | None, str, int]]) -> None:
    rows = [
        (OPERATIONS[operation], {"userId": user, "name": name, "city": city, "sequenceNum": sequence})
        for user, name, city, operation, sequence in changes
    ]
    table.write_changes(name, rows)
    table.load_incremental()


def users(table: Table) -> dict[int, tuple[str, str]]:
    return {found.row["userId"]: (found.row["name"], found.row["city"]) for found in table.rows()}
