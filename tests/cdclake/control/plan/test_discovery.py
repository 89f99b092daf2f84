from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cdclake.control.plan.discovery import discover_tables, has_raw_data
from cdclake.errors import ConfigurationError
from cdclake.model.table.state import TableState
from cdclake_devkit.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake.model.raw.files import ListedObject


def raw_with(*keys: str) -> MemoryStore:
    raw = MemoryStore()
    for key in keys:
        raw.put(key, b"")
    return raw


def test_discovered_tables_have_default_settings():
    raw = raw_with("dms/shop/orders/LOAD00000001.csv", "dms/shop/items/20240305-100000000.csv", "dms/crm/a/x/y.csv")
    discovered = discover_tables(raw, "raw", "dms/").tables
    assert [state.path for state in discovered] == ["raw/dms/crm/a/", "raw/dms/shop/items/", "raw/dms/shop/orders/"]
    assert discovered[2].item == TableState.new("raw", "dms/shop/", "orders/").item
    assert not discovered[2].active


def test_control_tables_and_validation_results_of_dms_are_skipped():
    raw = raw_with(
        "s3_validation_failures/shop/a.csv",
        "shop/awsdms_status/LOAD00000001.csv",
        "awsdms_control/x/LOAD00000001.csv",
        "shop/orders/LOAD00000001.csv",
    )
    assert [str(state.name) for state in discover_tables(raw, "raw", "").tables] == ["shop.orders"]


def test_raw_files_above_the_table_folders_are_found():
    names = ["LOAD00000001.parquet", "20240305-100000000.csv", "readme.txt", "CDC_TXN-20240305100000000.csv"]
    outside = [f"{folder}{name}" for folder in ("dms/", "dms/shop/", "", "dms/awsdms_x/") for name in names]
    discovered = discover_tables(raw_with(*outside, "dms/shop/orders/LOAD00000001.csv"), "raw", "dms/")
    assert [str(state.name) for state in discovered.tables] == ["shop.orders"]
    root, schema = discovered.findings
    assert root.startswith("2 files (20240305-100000000.csv, LOAD00000001.parquet) in raw/dms/ not read")
    assert schema.startswith("2 files (20240305-100000000.csv, LOAD00000001.parquet) in raw/dms/shop/ not read")


def test_a_location_with_only_raw_files_of_no_table_is_not_empty():
    assert len(discover_tables(raw_with("LOAD00000001.csv"), "raw", "").findings) == 1


def test_a_folder_without_raw_files_holds_no_table():
    raw = raw_with("shop/notes/readme.txt", "shop/orders/2024/03/05/20240305-100000000.csv.gz")
    notes, orders = discover_tables(raw, "raw", "").tables
    assert not has_raw_data(raw, notes, "")
    assert has_raw_data(raw, orders, "")


def test_a_folder_of_transaction_files_holds_no_table_and_is_not_listed_completely():
    class Counting(MemoryStore):
        read = 0

        def list(self, prefix: str, start_after: str = "") -> Iterator[ListedObject]:
            for entry in super().list(prefix, start_after):
                self.read += 1
                yield entry

    raw = Counting()
    for number in range(50):
        raw.put(f"cdc/txn/CDC_TXN-20240305{number:09d}.csv", b"")
    (txn,) = discover_tables(raw, "raw", "").tables
    assert not has_raw_data(raw, txn, "")
    assert raw.read == 1


def test_known_folders_of_transaction_files_are_skipped():
    keys = ["cdc/txn/CDC_TXN-20240305100000000.csv", "cdc/more/LOAD00000001.csv", "log/x/LOAD00000001.csv"]
    raw = raw_with(*keys)
    discovered = discover_tables(raw, "raw", "", {"cdc/txn/", "log/"}).tables
    assert [str(state.name) for state in discovered] == ["cdc.more"]


def test_a_location_with_only_transaction_files_is_not_empty():
    raw = raw_with("cdc/CDC_TXN-20240305100000000.csv")
    assert discover_tables(raw, "raw", "", {"cdc/"}).tables == []


def test_files_of_a_table_do_not_count_for_a_table_whose_name_is_a_prefix_of_its_name():
    raw = raw_with("shop/order/readme.txt", "shop/orders/LOAD00000001.csv")
    order, _ = discover_tables(raw, "raw", "").tables
    assert not has_raw_data(raw, order, "")


def test_an_empty_raw_location_is_an_error_with_bucket_prefix_and_remedy():
    with pytest.raises(ConfigurationError, match="bucket raw, prefix dms/") as caught:
        discover_tables(raw_with("elsewhere/shop/orders/LOAD00000001.csv"), "raw", "dms/")
    assert "DMS task" in caught.value.remedy
    assert "source database" in caught.value.remedy
