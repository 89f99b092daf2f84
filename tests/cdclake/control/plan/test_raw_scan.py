"""The Controller's scan of a raw folder finds new files in few requests, and all others in turn."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from math import ceil
from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.control.controller import execute, plan
from cdclake.control.plan.lost_files import PendingNote
from cdclake.control.plan.packing import PackLimits
from cdclake.control.plan.planned_table import Action
from cdclake.control.plan.raw_scan import HOURS, LOOKBACK_FILES, PAGE_OBJECTS, scan_raw, scan_start
from cdclake.control.run.trigger import STALE_AFTER_SECONDS
from cdclake.errors import RetryableError, UnknownTableError
from cdclake.model.raw.files import ListedObject, raw_files, start_after
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState
from tests.cdclake.control.world import ORDERS, RAW, World, seen
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cdclake.ports import ObjectReader

FIRST = datetime(2024, 3, 1, tzinfo=timezone.utc)
NOW = datetime(2024, 3, 6, tzinfo=timezone.utc)
PREFIX = "dms/shop/orders/"
ITEMS = f"{RAW}/dms/shop/items/"
FLAT, SLASHES, DASHES, TURNED = "", "%Y/%m/%d/", "%Y-%m-%d/", "%d%m%Y/"
EACH_ALONE = PackLimits(tables=1)
LOAD = "LOAD00000001.parquet"


def change(second: int, folder: str = FLAT) -> str:
    at = FIRST + timedelta(seconds=second)
    return f"{at.strftime(folder)}{at:%Y%m%d-%H%M%S}000.parquet"


def unpadded(day: int, minute: int = 0) -> str:
    """Day 213 is September 30, 244 October 31, 305 December 31, 8 March 9."""
    at = FIRST + timedelta(days=day, minutes=minute)
    return f"{at.year}/{at.month}/{at.day}/{at:%Y%m%d_%H%M%S}.parquet"


class Bucket:
    """The keys of one folder, listed like in S3: a page of 1,000 per request, requested when it is needed.

    The bucket holds nothing else, and listings of other prefixes do not count.

    Attributes:
        requests: Number of list requests.
    """

    calls_at_once = 1

    def __init__(self, relatives: Sequence[str]) -> None:
        self.keys = sorted(PREFIX + relative for relative in relatives)
        self.modified_utc = FIRST
        self.requests = 0

    def list(self, prefix: str, start_after: str = "") -> Iterator[ListedObject]:
        begin, truncated = bisect_right(self.keys, start_after), prefix == PREFIX
        while truncated:
            self.requests += 1
            end = begin + PAGE_OBJECTS
            yield from (ListedObject(key, 1, self.modified_utc) for key in self.keys[begin:end])
            begin, truncated = end, end < len(self.keys)

    def list_level(self, prefix: str) -> Iterator[str]:
        raise AssertionError(prefix)


def applied_up_to(relative: str, **attributes: str) -> TableState:
    """A table that is up to date unless a file is written after `NOW`."""
    state = TableState.new(RAW, "dms/shop/", "orders/").with_attributes(
        ActiveFlag="true",
        LastIncrementalFile=ORDERS + relative,
        LastFullLoadDate="2024-03-05 23:59:59",
        LastSeen=seen("2024-03-05T23:59:59Z"),
        LastChangeId="7",
        LastRetiredSinceUtc="",
        LastRepeatedSinceUtc="",
    )
    return state.with_attributes(**attributes)


def scans(bucket: Bucket, state: TableState, count: int) -> Iterator[tuple[set[str], int, str]]:
    """For each scan: the relative keys, the number of requests, and where the next page begins."""
    for _ in range(count):
        bucket.requests = 0
        scan = scan_raw(bucket, state, NOW)
        names = [file.relative for file in (*scan.files.full_load, *scan.files.changes)]
        assert len(names) == len(set(names)), "nothing counts twice"
        yield set(names), bucket.requests, scan.page_end
        state = state.with_attributes(**{Attribute.LAST_PAGE_END: scan.page_end})


def a_minute_each(files: int, folder: str = FLAT) -> list[str]:
    return [change(60 * number, folder) for number in range(files)]


@pytest.mark.parametrize("folder", [FLAT, SLASHES, DASHES])
def test_a_scan_of_a_large_folder_takes_two_requests_and_the_page_reaches_every_file(folder: str):
    files = a_minute_each(3000, folder)
    bucket = Bucket([*files, LOAD])
    first, second, third, fourth = scans(bucket, applied_up_to(files[-1]), 4)
    near = set(files[-12 * 60 - 1 :]) | {LOAD}
    assert first == (near | set(files[:1000]), 2, files[999])
    assert second == (near | set(files[1000:2000]), 2, files[1999])
    assert third == (near | set(files[2000:]), 2, "")
    assert fourth == first


@pytest.mark.sampled(test=3)
@pytest.mark.slow
@pytest.mark.parametrize("lookback_days", [0, 3, 40])
@pytest.mark.parametrize("watermark_day", [213, 244, 305, 8])
def test_a_scan_finds_every_new_file_in_date_folders_without_leading_zeros(watermark_day: int, lookback_days: int):
    applied = [unpadded(day, number) for day in range(watermark_day - 40, watermark_day + 1) for number in range(150)]
    new = {unpadded(watermark_day + days) for days in (1, 2, 9, 40)}
    noted = f"{FIRST + timedelta(days=watermark_day - lookback_days):%Y%m%d-%H%M%S}"
    state = applied_up_to(applied[-1], LastSeen=seen(tail_from=noted))
    assert new <= next(scans(Bucket([*applied, *new, LOAD]), state, 1))[0]


@pytest.mark.slow
def test_a_data_file_with_another_name_is_reported_once_any_page_of_a_large_folder_has_shown_it(world: World):
    world.put(*a_minute_each(2500))
    world.register(LateWindowHours="1")
    world.clock.advance(3600)
    assert not world.process().error
    world.put("20240301-x.csv")  # between the files of the first and the second day

    def findings() -> tuple[str, ...]:
        if any(table.run_id for table in world.run_controller().tables):
            world.process()
        return world.decision().findings

    shown = [findings() for _ in range(5)]
    assert all("1 file (20240301-x.csv) not read" in found[0] for found in shown[1:])
    world.raw.delete(["dms/shop/orders/20240301-x.csv"])
    assert findings() == ()
    assert world.state().left_out == ""


@pytest.mark.parametrize("files", [0, 1, 998, 999])
def test_a_folder_of_one_page_takes_one_request_and_stores_no_position(files: int):
    names = [LOAD, *a_minute_each(files)]
    watermark = names[-1] if files else ""
    assert list(scans(Bucket(names), applied_up_to(watermark), 2)) == [(set(names), 1, "")] * 2


def test_a_second_page_that_reaches_the_end_stores_no_position():
    files = a_minute_each(1500)
    assert list(scans(Bucket(files), applied_up_to(files[-1]), 2)) == [(set(files), 2, "")] * 2


@examples(thorough=500, ci=40, test=10)
@given(
    files=st.integers(1, 4500),
    seconds=st.sampled_from([1, 20, 60, 3600]),
    loads=st.sampled_from([0, 1, 1200]),
    late_window_hours=st.sampled_from(["0", "3", "72"]),
    page_end=st.one_of(st.just(""), st.text(max_size=20), st.integers(0, 4500).map(lambda number: change(60 * number))),
)
def test_every_object_of_any_folder_is_seen_within_one_scan_per_page_and_one_more(
    files: int, seconds: int, loads: int, late_window_hours: str, page_end: str
):
    names = [change(seconds * number) for number in range(files)]
    names += [f"LOAD{number:08X}.parquet" for number in range(1, loads + 1)]
    state = applied_up_to(names[files - 1], LateWindowHours=late_window_hours, LastPageEnd=page_end)
    seen: set[str] = set()
    for saw, _requests, _page_end in scans(Bucket(names), state, ceil(len(names) / PAGE_OBJECTS) + 1):
        seen |= saw
        assert names[files - 1] in saw or late_window_hours == "0"
    assert seen == set(names)


@examples(thorough=500, ci=25, test=10)
@given(
    files=st.integers(1, 6000), seconds=st.sampled_from([1, 10, 60, 3600]), loads=st.sampled_from([0, 1, 1100, 3000])
)
def test_no_idle_table_takes_more_than_two_requests(files: int, seconds: int, loads: int):
    names = [change(seconds * number) for number in range(files)]
    bucket = Bucket([*names, *(f"LOAD{number:08X}.parquet" for number in range(1, loads + 1))])
    changes = raw_files(bucket.list(PREFIX), PREFIX).changes
    noted = scan_start(changes, names[-1])
    assert all(
        requests <= 2 for _, requests, _ in scans(bucket, applied_up_to(names[-1], LastSeen=seen(tail_from=noted)), 4)
    )


def test_with_frequent_files_a_run_stores_where_the_tail_begins(world: World):
    world.put(*map(change, range(1000)))
    world.register(LastIncrementalFile=ORDERS + change(899), LastSeen=seen("2024-03-01T00:00:00Z"))
    assert not world.process().error
    assert world.state().seen.tail_from == change(1000 - LOOKBACK_FILES)[:15]
    world.put(change(2000))
    nothing_applied = {Attribute.LAST_INCREMENTAL_FILE: "null", Attribute.LAST_RECORDED: ""}
    world.states.record_run(ORDERS, nothing_applied)  # with a stored start that is too late
    assert world.plan().tables[0].action is Action.START


@pytest.mark.sampled(quick=2)
@pytest.mark.parametrize("noted", ["soon", "null", "2024", "20250101-000000", "20200101-000000"])
def test_an_invalid_stored_start_is_ignored(noted: str):
    files = a_minute_each(3000)
    expected = list(scans(Bucket(files), applied_up_to(files[-1]), 4))
    assert list(scans(Bucket(files), applied_up_to(files[-1], LastSeen=seen(tail_from=noted)), 4)) == expected


@pytest.mark.parametrize("page_end", ["zebra", "null", "\N{SNOWMAN}", "x" * 2000])
def test_a_page_after_the_folders_end_starts_over(page_end: str):
    files = a_minute_each(3000)
    first, second, *_ = scans(Bucket(files), applied_up_to(files[-1], LastPageEnd=page_end), 2)
    assert files[-1] in first[0]
    assert files[0] in first[0] | second[0]
    assert max(first[1], second[1]) == 2


def test_a_page_that_began_in_expired_files_continues_after_them():
    files = a_minute_each(3000)
    kept = Bucket(files[2500:])
    state = applied_up_to(files[-1], LastPageEnd=files[999])
    assert list(scans(kept, state, 2)) == [(set(files[2500:]), 1, "")] * 2


def test_all_new_files_are_seen_however_many_there_are():
    files = a_minute_each(6000)
    (seen, _, _), *_ = scans(Bucket([*files, LOAD]), applied_up_to(files[2000]), 1)
    assert seen >= {*files[2000:], LOAD}


def test_date_folders_that_do_not_sort_by_time_are_listed_completely():
    files = a_minute_each(1500, TURNED)
    assert list(scans(Bucket(files), applied_up_to(files[-1]), 2)) == [(set(files), 2, "")] * 2


def test_before_the_first_change_everything_is_listed():
    files = a_minute_each(2500)
    assert list(scans(Bucket(files), applied_up_to("0.parquet"), 1)) == [(set(files), 3, "")]


def test_when_a_full_load_is_due_all_files_are_listed_and_the_page_stays():
    files = a_minute_each(3000)
    state = applied_up_to(files[-1], LastFullLoadDate="1900-01-01 00:00:00", LastPageEnd=files[999])
    ((seen, _, page_end),) = scans(Bucket([*files, LOAD]), state, 1)
    assert (seen, page_end) == ({*files, LOAD}, files[999])


def a_busy_table(world: World) -> None:
    """A table with 3,000 change files, all applied."""
    world.clock.now = NOW - timedelta(days=1)
    world.put(*a_minute_each(3000), LOAD)
    world.states.register(applied_up_to(change(60 * 2999), FullLoadQuietMinutes="0"))


def controller_run(world: World) -> tuple[str, str]:
    """Run the Controller. Returns the decision, and the stored end of the page."""
    todo = world.plan()
    world.execute(todo)
    assert todo.tables[0].decision
    return todo.tables[0].decision.kind.value, world.state().last_page_end


@pytest.mark.slow
def test_new_files_late_ones_and_load_files_of_a_large_folder_are_seen(world: World):
    a_busy_table(world)
    world.clock.advance(7 * 86400)
    world.put(change(60 * 3000), "20240302-140000500.parquet")
    (planned,) = world.plan().tables
    assert planned.decision
    assert (planned.decision.kind.value, planned.decision.files) == ("incremental", 1)
    world.put(LOAD)
    (planned,) = world.plan().tables
    assert planned.decision
    assert planned.decision.kind.value == "full load and incremental"


def test_the_controller_stores_where_the_page_ended_and_a_plan_does_not(world: World):
    a_busy_table(world)
    world.clock.advance(2 * 86400)
    before = world.state().item
    assert world.plan() == world.plan()
    assert world.state().item == before
    ends = [controller_run(world) for _ in range(4)]
    assert ends == [("nothing new", end) for end in (change(60 * 999), change(60 * 1999), "", change(60 * 999))]
    assert {**world.state().item, "LastPageEnd": ""} == {**before, "LastPageEnd": ""}


def test_a_late_file_on_the_page_starts_runs_until_it_is_applied(world: World):
    a_busy_table(world)
    world.states.set_attributes(ORDERS, {"LateWindowHours": "72"})
    world.clock.advance(2 * 86400)
    late = "20240301-200000500.parquet"  # on the second page, before the tail
    world.put(late)
    assert controller_run(world) == ("nothing new", change(60 * 999))
    assert controller_run(world) == ("rescan", change(60 * 999))
    world.clock.advance(STALE_AFTER_SECONDS)  # the run has died
    assert controller_run(world) == ("rescan", change(60 * 999))
    assert len(world.jobs.started) == 2
    world.states.record_run(ORDERS, {Attribute.LAST_SEEN: seen("2024-03-07T00:00:01Z")})  # a run has applied it
    assert controller_run(world) == ("nothing new", change(60 * 1998))


def test_the_page_finds_load_files_with_unusual_names(world: World):
    a_busy_table(world)
    world.clock.advance(2 * 86400)
    world.put("20240301/again/LOAD00000001.parquet")
    assert controller_run(world)[0] == "nothing new"
    assert controller_run(world)[0] == "waiting"  # it is of another full load


def test_the_whole_folder_is_listed_before_a_table_counts_as_frozen(world: World):
    a_busy_table(world)
    world.clock.advance(2 * 86400)
    turned = "2024/03/03/20240303-100000000.parquet"  # DMS was switched to date folders, which sort before the rest
    world.put(turned)
    note = PendingNote.of([turned])
    world.states.record_run(ORDERS, {Attribute.LAST_PENDING: str(note), Attribute.LAST_PAGE_END: change(60 * 999)})
    assert controller_run(world)[0] == "incremental"
    world.raw.delete([PREFIX + turned])
    assert controller_run(world)[0] == "frozen"


def test_a_page_end_that_cannot_be_stored_is_an_error_of_its_table_alone(world: World):
    a_busy_table(world)
    world.add_table(change(1), path=ITEMS)
    todo = world.plan()
    kept = [state for state in world.states.all() if state.path != ORDERS]
    summary = execute(todo, type(world.states)(kept), world.jobs, world.clock)
    assert [(table.name, table.outcome) for table in summary.tables] == [("shop.items", "started"), ("shop.orders", "")]
    assert [type(table.error) for table in summary.failed] == [UnknownTableError]


@pytest.mark.parametrize(
    ("relative", "expected"),
    [
        ("20240305-101500123.parquet", "20240302-101500"),
        ("2024/03/05/10/20240305-101500123.csv", "2024/03/02/10/20240302-101500"),
        ("2024_03_05/20240305-101500123.csv.gz", "2024_03_02/20240302-101500"),
        ("20240305/20240305-101500123.csv", "20240302/20240302-101500"),
        ("202403/20240305-1015001234.csv", "202403/20240302-101500"),
        ("day=20240305/20240305-101500123.csv", "day=20240302/20240302-101500"),
        ("2024/3/5/20240305_101500.parquet", "2024/03/02/20240302-101500"),
        ("2024/12/15/20241215_101500.parquet", "2024/03/02/20240302-101500"),
        ("20240305-101500123/20240305-101500123.csv", "20240302-101500000/20240302-101500"),
        ("2024/03/05/10/15/00/1234/20240305-1015001234.csv", "2024/03/02/10/15/00/0000/20240302-101500"),
        ("05032024/20240305-101500123.csv", ""),
        ("03/2024/05/20240305-101500123.csv", ""),
        ("CDC_TXN-20240305101500123.csv", ""),
        ("LOAD00000001.csv", ""),
        ("", ""),
    ],
)
def test_the_start_of_a_listing_follows_the_date_folders_of_the_watermark(relative: str, expected: str):
    assert start_after(relative, "20240302-101500") == expected


def not_their_turn(prefix: str, by: int = 1) -> datetime:
    """A time at which transaction files are listed from the tail on; with 0, from the late window on."""
    return datetime(2024, 3, 10, (crc32(prefix.encode()) + by) % HOURS, tzinfo=timezone.utc)


def test_transaction_files_are_listed_once_from_where_the_first_table_needs_them(world: World):
    names = [f"CDC_TXN-202403{day:02d}100000000.csv" for day in range(1, 11)]
    world.clock.now = datetime(2024, 3, 10, 10, tzinfo=timezone.utc)
    for name in names:
        world.raw.put(f"dms/cdc/{name}", b"rows")
    for table, day in (("a", 8), ("b", 10)):
        watermark = f"{RAW}/dms/cdc/CDC_TXN-202403{day:02d}100000000.csv"
        listed = seen("2024-03-05T23:59:59Z")
        world.register(f"{RAW}/dms/shop/{table}/", CdcPath="cdc", LastIncrementalFile=watermark, LastSeen=listed)
    world.register(f"{RAW}/dms/shop/off/", CdcPath="cdc", ActiveFlag="false")
    calls: list[tuple[str, str]] = []
    listing = world.raw.list

    def noted(prefix: str, start_after: str = "") -> Iterator[ListedObject]:
        calls.append((prefix, start_after))
        return listing(prefix, start_after)

    world.raw.list = noted  # type: ignore[method-assign]  # a bucket that records its calls
    world.clock.now = not_their_turn("dms/cdc/CDC_TXN-")
    planned = {str(table.state.name): table.decision for table in world.plan().tables}
    assert calls.count(("dms/cdc/CDC_TXN-", "dms/cdc/CDC_TXN-20240307220000")) == 1
    assert sum(prefix == "dms/cdc/CDC_TXN-" for prefix, _ in calls) == 1
    a, b = planned["shop.a"], planned["shop.b"]
    assert a
    assert b
    assert (a.files, a.new_watermark) == (2, names[-1])
    assert b.files == 0


def test_once_a_day_transaction_files_are_listed_from_the_late_window_once_for_all_tables(world: World):
    names = [f"CDC_TXN-202403{day:02d}100000000.csv" for day in range(1, 11)]
    world.clock.now = datetime(2024, 3, 10, 10, tzinfo=timezone.utc)
    for name in names:
        world.raw.put(f"dms/cdc/{name}", b"rows")
    applied = {"CdcPath": "cdc", "LastIncrementalFile": f"{RAW}/dms/cdc/{names[-1]}", "LastChangeId": "7"}
    for table in ("a", "b"):
        world.register(f"{RAW}/dms/shop/{table}/", **applied, LastSeen=seen("2024-03-10T10:00:00Z"))
    world.clock.now = datetime(2024, 3, 12, tzinfo=timezone.utc)
    world.raw.put("dms/cdc/CDC_TXN-20240308120000000.csv", b"late")
    kinds = {}
    for by in (0, 1):
        world.clock.now = not_their_turn("dms/cdc/CDC_TXN-", by) + timedelta(days=2)  # after what the items have seen
        world.raw.listed.clear()
        kinds[by] = {table.decision.kind.value for table in world.plan().tables if table.decision}
        assert world.raw.listed.count("dms/cdc/CDC_TXN-") == 1
    assert kinds == {0: {"rescan"}, 1: {"nothing new"}}


def test_a_table_with_transaction_files_takes_two_requests_for_its_own_large_folder():
    loads = [f"LOAD{number:08X}.parquet" for number in range(1, 3001)]
    bucket = Bucket(loads)
    state = applied_up_to("", LastIncrementalFile=f"{RAW}/dms/cdc/CDC_TXN-20240305100000000.csv", CdcPath="cdc")
    own = scans(bucket, state, 4)
    seen: set[str] = set()
    for saw, requests, _ in own:
        seen |= saw
        assert requests == 2
    assert seen == set(loads)


class BrokenFor:
    """A raw bucket that cannot list one prefix."""

    calls_at_once = 1

    def __init__(self, raw: ObjectReader, prefix: str) -> None:
        self._raw, self._prefix = raw, prefix

    def list(self, prefix: str, start_after: str = "") -> Iterator[ListedObject]:
        return self._checked(prefix).list(prefix, start_after)

    def list_level(self, prefix: str) -> Iterator[str]:
        return self._checked(prefix).list_level(prefix)

    def _checked(self, prefix: str) -> ObjectReader:
        if prefix == self._prefix:
            raise RetryableError("AWS answered SlowDown", remedy="Run again", file=prefix)
        return self._raw


def test_a_failed_listing_is_an_error_of_its_table_alone(world: World):
    for path in (ORDERS, ITEMS):
        world.put(change(1), path=path)
        world.register(path)
    source = replace(world.plan_inputs, raw=BrokenFor(world.raw, "dms/shop/items/"))
    items, orders = plan(source, world.clock()).tables
    assert "SlowDown" in items.error_text
    assert items.action is Action.NONE
    assert orders.action is Action.START


def test_a_schema_that_cannot_be_listed_is_reported_and_the_other_tables_continue(world: World):
    for path in (ORDERS, f"{RAW}/dms/crm/known/", f"{RAW}/dms/crm/new/"):
        world.put(change(1), path=path)
    world.register()
    world.register(f"{RAW}/dms/crm/known/")
    todo = plan(replace(world.plan_inputs, raw=BrokenFor(world.raw, "dms/crm/")), world.clock())
    assert [str(table.state.name) for table in todo.tables] == ["crm.known", "shop.orders"]
    assert all(table.action is Action.START for table in todo.tables)
    summary = world.execute(todo, EACH_ALONE)
    assert len(world.jobs.started) == 2
    assert "folders that could not be listed: 1" in str(summary.to_json()["error"])
    assert "SlowDown" in str(summary.to_json()["error"])


def test_a_folder_with_data_files_of_other_names_only_is_reported_before_and_after_a_run(world: World):
    world.register()
    world.put("orders.json")
    (finding,) = world.decision().findings
    assert "1 file (orders.json) not read" in finding
    world.run_controller()
    world.process()
    assert (world.decision().reason, world.decision().findings) == ("no raw file is due", (finding,))
