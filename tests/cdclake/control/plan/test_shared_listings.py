from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ClassVar

from cdclake.control.plan.raw_scan import transactions_begin
from cdclake.control.plan.shared_listings import SharedListings
from cdclake.model.table.settings import TableSettings
from cdclake.model.table.state import TableState
from cdclake.raw_listing import list_raw_files
from cdclake_devkit.memory import MemoryStore
from tests.cdclake.control.world import RawBucket

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake.model.raw.files import ListedObject
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
    assert sorted(shared.list_level("")) == ["cdc/", "shop/"]


def test_tables_of_one_folder_list_it_from_where_the_first_of_them_begins(clock: ManualClock):
    class Recording(MemoryStore):
        begun: ClassVar[list[str]] = []

        def list(self, prefix: str, start_after: str = "") -> Iterator[ListedObject]:
            self.begun.append(start_after)
            return super().list(prefix, start_after)

    raw, now = Recording(clock), clock()
    new = TableState.new("raw", "shop/", "t/").with_attributes(CdcPath="cdc")
    early, late = (
        new.with_attributes(LastIncrementalFile=f"raw/cdc/CDC_TXN-{day}000000000.csv")
        for day in ("20240305", "20240309")
    )
    invalid = new.with_attributes(LastIncrementalFile="raw/shop/t/nonsense")
    first = transactions_begin(early, now)
    list(SharedListings.of_tables(raw, [late, early, invalid], now).list("cdc/CDC_TXN-", first))
    list(SharedListings.of_tables(raw, [late, new], now).list("cdc/CDC_TXN-", first))
    assert first > "cdc/CDC_TXN-2024"
    assert raw.begun == [first, ""]
