"""Raw files of all names and fates: each is applied once, or reported with a remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.orders import Orders

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    return Orders(tmp_path)


def test_change_files_in_date_folders_without_leading_zeros_are_applied_by_time_among_dms_files(orders: Orders):
    orders.put("2024/3/5/20240305_101500.csv", "U,1,second\n")
    orders.put("20240305-101400000.csv", "U,1,first\nI,3,three\n")
    orders.put("2024/3/5/20240305_101600.csv", "D,3,three\n")
    orders.run()
    assert orders.rows() == {1: "second", 2: "two"}
    assert orders.attribute("LastIncrementalFile").endswith("orders/2024/3/5/20240305_101600.csv")
    orders.put("2024/3/10/20240310_090000.csv", "U,2,newest\n")
    orders.run(minutes=5 * 24 * 60)
    assert orders.rows() == {1: "second", 2: "newest"}
