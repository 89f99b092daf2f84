"""Keys of MySQL's BIGINT UNSIGNED, whose values may exceed signed integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = pa.schema([("id", pa.uint64()), ("name", pa.string())])
GREATEST = 2**64 - 1


def row(number: int, name: str) -> dict[str, Any]:
    return {"id": number, "name": name}


def test_a_full_load_and_changes_of_keys_beyond_signed_integers_are_applied(tmp_path: Path) -> None:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "id"})
    table.load([row(5, "five"), row(2**63, "middle"), row(GREATEST, "last")])
    table.apply_file("20240305-100000000.parquet", [("U", row(GREATEST, "new")), ("D", row(2**63, ""))])
    assert {int(one.row["id"]): one.row["name"] for one in table.rows()} == {5: "five", GREATEST: "new"}
