"""Raw files of all names and fates: each is applied once, or reported with a remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cdclake.control.status import Health
from tests.e2e.orders import Orders, after, change_name

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
    orders.put("2024/3/10/20240310_090000.csv", "U,2,newest\n", after(days=5))
    orders.run()
    assert orders.rows() == {1: "second", 2: "newest"}


FUTURE = "20340305-101500000.csv"


def test_a_change_file_stamped_in_the_future_stops_its_table_and_costs_no_later_file(orders: Orders):
    orders.run()
    orders.put(FUTURE, "I,9,future\n")
    orders.put(change_name(after(minutes=70)), "U,1,real\n")
    status = orders.run()
    assert status.health is Health.BROKEN
    assert FUTURE in status.to_do
    assert "Rename it" in status.to_do
    assert orders.rows() == {1: "one", 2: "two"}
    orders.remove(FUTURE)
    assert orders.run().health is Health.UP_TO_DATE
    assert orders.rows() == {1: "real", 2: "two"}


def test_a_reload_does_not_cover_a_change_file_stamped_in_the_future(orders: Orders):
    orders.run()
    orders.put(FUTURE, "I,9,future\n")
    orders.clock.advance(60)
    orders.put("LOAD00000001.csv", "1,reloaded\n")
    assert orders.run().health is Health.BROKEN
    orders.remove(FUTURE)
    orders.put(change_name(after(minutes=130)), "U,1,real\n")
    assert orders.run().health is Health.UP_TO_DATE
    assert orders.rows() == {1: "real"}


@pytest.mark.parametrize("hours", [14, 24])
def test_a_change_file_may_be_named_in_a_time_zone_ahead_of_utc(orders: Orders, hours: int):
    orders.put(change_name(after(hours=hours)), "U,1,local time\n")
    assert orders.run().health is Health.UP_TO_DATE
    assert orders.rows() == {1: "local time", 2: "two"}


def test_a_lake_that_applied_a_file_stamped_in_the_future_stops_until_that_change_is_undone(orders: Orders):
    orders.put(FUTURE, "I,9,future\n", after(days=3652))
    orders.run()
    assert orders.rows() == {1: "one", 2: "two", 9: "future"}
    orders.put(change_name(after(minutes=70)), "U,1,real\n")
    status = orders.run()
    assert status.health is Health.BROKEN
    assert "cdclake rollback shop.orders" in status.to_do
    orders.remove(FUTURE)
    orders.rollback(to=1)
    assert orders.run().health is Health.UP_TO_DATE
    assert orders.rows() == {1: "real", 2: "two"}


def test_a_lake_that_applied_a_file_stamped_in_the_future_can_be_loaded_again(orders: Orders):
    orders.put(FUTURE, "I,9,future\n", after(days=3652))
    orders.run()
    orders.remove(FUTURE)
    orders.put(change_name(after(minutes=70)), "U,1,real\n")
    orders.set(LastFullLoadDate="1900-01-01 00:00:00")
    assert orders.run().health is Health.UP_TO_DATE
    assert orders.rows() == {1: "real", 2: "two"}
