"""A table `orders`, and another one with the name of its history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.cdclake.lake.operations.erase.erasable_table import ErasableTable
from tests.cdclake.lake.over_time import TableOverTime

if TYPE_CHECKING:
    from pathlib import Path

    from cdclake.model.layout import LakeLayout

COLUMNS = pa.schema([("id", pa.int64()), ("city", pa.string())])
READERS = pytest.mark.parametrize("readers", ["iceberg", "folder", "both"])


def row(number: int, city: str = "Kiel") -> dict[str, Any]:
    return {"id": number, "city": city}


class Namesake(TableOverTime):
    """A table whose name is that of the history of `orders`."""

    @property
    def layout(self) -> LakeLayout:
        return super().layout.history


def with_undone_history(tmp_path: Path, readers: str) -> tuple[ErasableTable, Namesake]:
    """`orders` after a change with a history and a rollback to before it, and an empty `orders_history` beside it."""
    item = {"PrimaryKey": "id", "Readers": readers}
    table = ErasableTable(tmp_path / "orders", COLUMNS, {**item})
    table.load([row(5)])
    table.item["History"] = "true"
    table.apply(("U", row(5, "Ulm")))
    table.roll_back(1)
    other = Namesake(tmp_path / "other", COLUMNS, {**item})
    other.lake.rmdir()
    other.lake = table.lake
    return table, other
