"""Keys of several columns: every column counts when data files are chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.lake.limits import EngineLimits
from cdclake.lake.storage import reader, wanted_keys
from cdclake_devkit.oracle import merge
from tests.cdclake.lake.table import Table, by_key

if TYPE_CHECKING:
    from pathlib import Path

    from pyarrow.fs import FileSystem

COLUMNS = pa.schema([("tenant", pa.string()), ("id", pa.int64()), ("text", pa.string())])
TENANTS, ROWS = 3, 4_000


def row(tenant: int, number: int, text: str = "") -> dict[str, Any]:
    return {"tenant": f"t{tenant}", "id": number, "text": text or f"{number:032d}"}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table of three tenants, each with several data files."""
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "tenant,id", "TargetFileBytes": "20000"})
    table.load([row(tenant, number) for tenant in range(TENANTS) for number in range(ROWS)])
    return table


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The data files in which keys were looked up."""
    paths: list[str] = []
    read_batches = reader.read_batches

    def recorded(fs: FileSystem, path: str, *arguments: Any, **options: Any) -> Any:
        paths.append(path)
        return read_batches(fs, path, *arguments, **options)

    monkeypatch.setattr(wanted_keys, "read_batches", recorded)
    return paths


def test_a_full_load_becomes_files_whose_key_ranges_are_apart(table: Table) -> None:
    files = table.log.snapshot(1).files
    bounds = sorted((file.key_min, file.key_max) for file in files)
    assert len(files) > 3 * TENANTS
    assert all(before[1] < after[0] for before, after in zip(bounds, bounds[1:]))  # type: ignore[operator]


def test_a_key_is_looked_up_in_the_one_file_of_its_range(table: Table, probed: list[str]) -> None:
    table.apply_file("20240305-101500000.parquet", [("U", row(1, 7, "new"))])
    assert len(probed) == 1


@pytest.mark.slow
def test_newest_rows_of_each_tenant_leave_the_ranges_apart(table: Table) -> None:
    for number in range(5):
        inserts = [("I", row(tenant, ROWS + number)) for tenant in range(TENANTS)]
        updates = [("U", row(tenant, number * 500, "new")) for tenant in range(TENANTS)]
        table.apply_file(f"20240305-10150000{number}.parquet", [*inserts, *updates])
    bounds = sorted((file.key_min, file.key_max) for file in table.log.snapshot(6).files)
    assert all(before[1] < after[0] for before, after in zip(bounds, bounds[1:]))  # type: ignore[operator]


@pytest.mark.parametrize("limit_bytes", [0, 1 << 20])
def test_all_columns_of_a_key_may_be_in_the_names_of_folders(tmp_path: Path, limit_bytes: int) -> None:
    item = {"PrimaryKey": "tenant,id", "PartitionKey": "id,tenant"}
    table = Table(tmp_path, COLUMNS, item, limits=EngineLimits(small_change_bytes=limit_bytes))
    table.load([row(0, 1), row(0, 2), row(1, 1)])
    changes = [("U", row(0, 1, "new")), ("D", row(0, 2)), ("I", row(1, 2))]
    table.apply_file("20240305-101500000.parquet", changes)
    assert by_key(table.rows(), ("tenant", "id")) == merge(("tenant", "id"), table.loads, table.changes)
