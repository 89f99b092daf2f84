from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from cdclake.control.plan.shared_listings import SharedListings
from cdclake.model.table.settings import TableSettings
from cdclake.raw_listing import list_raw_files
from tests.cdclake.control.world import RawBucket

if TYPE_CHECKING:
    from cdclake_devkit.memory import ManualClock


def test_tables_that_plan_at_the_same_time_share_one_listing_of_transaction_files(clock: ManualClock):
    raw = RawBucket(clock)
    for number in range(100):
        raw.put(f"cdc/CDC_TXN-20240305{number:09d}.csv", b"")
    for number in range(40):
        raw.put(f"shop/t{number}/20240306-000000000.csv", b"")
    shared, settings = SharedListings(raw), TableSettings(cdc_path="cdc")
    with ThreadPoolExecutor(8) as pool:
        listed = list(pool.map(lambda number: list_raw_files(shared, f"shop/t{number}/", settings), range(40)))
    assert [len(files.changes) for files in listed] == [101] * 40
    assert raw.listed.count("cdc/CDC_TXN-") == 1
    assert sum(prefix.startswith("shop/") for prefix in raw.listed) == 40


def test_other_listings_are_not_cached(clock: ManualClock):
    raw = RawBucket(clock)
    raw.put("shop/t/LOAD00000001.csv", b"")
    raw.put("cdc/CDC_TXN-20240305000000000.csv", b"")
    shared = SharedListings(raw)
    assert len(list(shared.list("shop/"))) == 1
    raw.put("shop/t/LOAD00000002.csv", b"")
    assert len(list(shared.list("shop/"))) == 2
    after = list(shared.list("cdc/CDC_TXN-", "cdc/CDC_TXN-20240305000000000.csv"))
    assert after == []
    assert list(shared.list_folders("")) == ["cdc/", "shop/"]
