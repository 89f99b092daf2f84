"""The Controller's look at a raw folder sees what is new in few requests."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING
from zlib import crc32

import pytest

from cdclake.control.controller import Action, execute, plan
from cdclake.control.packing import PackLimits
from cdclake.control.raw_look import HOURS, look_at_raw
from cdclake.errors import JobRunError, RetryableError
from cdclake.model.rawfiles import start_after
from tests.control.world import ORDERS, RAW

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cdclake.model.rawfiles import ListedObject
    from cdclake.ports import ObjectReader
    from tests.control.world import World

FIRST = datetime(2024, 3, 1, tzinfo=timezone.utc)
ITEMS = f"{RAW}/dms/shop/items/"
FLAT, SLASHES, DASHES, TURNED = "", "%Y/%m/%d/", "%Y-%m-%d/", "%d%m%Y/"
EACH_ALONE = PackLimits(tables=1)


def change(minute: int, folder: str = FLAT) -> str:
    at = FIRST + timedelta(minutes=minute)
    return f"{at.strftime(folder)}{at:%Y%m%d-%H%M%S}000.parquet"


def a_busy_table(world: World, files: int = 3000, folder: str = FLAT) -> None:
    """A table with a change file a minute, all applied, in an hour in which it has not its turn."""
    turn = crc32(ORDERS.encode()) % HOURS
    world.clock.now = datetime(2024, 3, 5, (turn + 1) % HOURS, tzinfo=timezone.utc)
    for minute in range(files):
        world.put(change(minute, folder))
    world.put("LOAD00000001.parquet")
    world.register(
        LastIncrementalFile=ORDERS + change(files - 1, folder),
        LastFullLoadDate="2024-03-05 23:59:59",
        LastListedUtc="2024-03-05T23:59:59Z",
        LastChangeId="7",
    )


def seen(world: World) -> list[str]:
    look = look_at_raw(world.raw, world.state(), world.clock())
    return [file.relative for file in (*look.full_load_files, *look.change_files)]


@pytest.mark.parametrize("folder", [FLAT, SLASHES, DASHES])
def test_of_a_large_folder_the_first_page_and_what_is_near_the_watermark_is_read(world: World, folder: str):
    a_busy_table(world, folder=folder)
    files = seen(world)
    assert len(files) == 1 + 1000 + 12 * 60 + 1  # LOAD, first page, look back, and the watermark itself
    assert "LOAD00000001.parquet" in files
    assert change(2999, folder) in files


def test_a_small_folder_is_read_as_a_whole(world: World):
    a_busy_table(world, files=999)
    assert len(seen(world)) == 1000


def test_date_folders_that_are_not_in_the_order_of_time_are_read_as_a_whole(world: World):
    a_busy_table(world, files=1500, folder=TURNED)
    assert len(seen(world)) == 1501


def test_once_a_day_everything_is_read(world: World):
    a_busy_table(world)
    full = []
    for _ in range(HOURS):
        world.clock.advance(3600)
        full.append(len(seen(world)) == 3001)
    assert full.count(True) == 1


def test_new_files_late_ones_and_load_files_of_a_large_folder_are_seen(world: World):
    a_busy_table(world)
    world.clock.advance(7 * 86400)
    world.put(change(3000))
    world.put("20240302-140000500.parquet")
    (planned,) = plan(world.source, world.clock()).tables
    assert planned.decision
    assert (planned.decision.kind.value, planned.decision.files) == ("incremental", 1)
    world.put("LOAD00000001.parquet")
    (planned,) = plan(world.source, world.clock()).tables
    assert planned.decision
    assert planned.decision.kind.value == "full load and incremental"


def test_when_a_full_load_is_due_all_files_count(world: World):
    a_busy_table(world)
    world.states.set_by_person(ORDERS, {"LastFullLoadDate": "1900-01-01 00:00:00"})
    assert len(seen(world)) == 3001


@pytest.mark.parametrize(
    ("relative", "expected"),
    [
        ("20240305-101500123.parquet", "20240302-101500"),
        ("2024/03/05/10/20240305-101500123.csv", "2024/03/02/10/20240302-101500"),
        ("2024_03_05/20240305-101500123.csv.gz", "2024_03_02/20240302-101500"),
        ("20240305/20240305-101500123.csv", "20240302/20240302-101500"),
        ("202403/20240305-1015001234.csv", "202403/20240302-101500"),
        ("day=20240305/20240305-101500123.csv", "day=20240302/20240302-101500"),
        ("05032024/20240305-101500123.csv", ""),
        ("03/2024/05/20240305-101500123.csv", ""),
        ("CDC_TXN-20240305101500123.csv", ""),
        ("LOAD00000001.csv", ""),
        ("", ""),
    ],
)
def test_where_a_listing_may_begin_is_told_from_the_folders_of_the_watermark(relative: str, expected: str):
    assert start_after(relative, "20240302-101500") == expected


def test_transaction_files_are_listed_once_from_where_the_first_table_needs_them(world: World):
    names = [f"CDC_TXN-202403{day:02d}100000000.csv" for day in range(1, 11)]
    for name in names:
        world.raw.put(f"dms/cdc/{name}", b"rows")
    for table, day in (("a", 8), ("b", 10)):
        watermark = f"{RAW}/dms/cdc/CDC_TXN-202403{day:02d}100000000.csv"
        listed = "2024-03-05T23:59:59Z"
        world.register(f"{RAW}/dms/shop/{table}/", CdcPath="cdc", LastIncrementalFile=watermark, LastListedUtc=listed)
    world.register(f"{RAW}/dms/shop/off/", CdcPath="cdc", ActiveFlag="false")
    calls: list[tuple[str, str]] = []
    listing = world.raw.list

    def noted(prefix: str, start_after: str = "") -> Iterator[ListedObject]:
        calls.append((prefix, start_after))
        return listing(prefix, start_after)

    world.raw.list = noted  # type: ignore[method-assign]  # a bucket that notes what it is asked
    planned = {str(table.state.name): table.decision for table in plan(world.source, world.clock()).tables}
    assert calls.count(("dms/cdc/CDC_TXN-", "dms/cdc/CDC_TXN-20240307220000")) == 1
    assert sum(prefix == "dms/cdc/CDC_TXN-" for prefix, _ in calls) == 1
    a, b = planned["shop.a"], planned["shop.b"]
    assert a
    assert b
    assert (a.files, a.new_watermark) == (2, names[-1])
    assert b.files == 0


class BrokenFor:
    """A raw bucket that cannot list one prefix."""

    def __init__(self, raw: ObjectReader, prefix: str) -> None:
        self._raw, self._prefix = raw, prefix

    def list(self, prefix: str, start_after: str = "") -> Iterator[ListedObject]:
        return self._checked(prefix).list(prefix, start_after)

    def list_folders(self, prefix: str) -> Iterator[str]:
        return self._checked(prefix).list_folders(prefix)

    def _checked(self, prefix: str) -> ObjectReader:
        if prefix == self._prefix:
            raise RetryableError("AWS answered SlowDown", remedy="Run again", file=prefix)
        return self._raw


def test_a_listing_page_that_fails_is_reported_for_its_table_alone(world: World):
    for path in (ORDERS, ITEMS):
        world.put(change(1), path)
        world.register(path)
    source = replace(world.source, raw=BrokenFor(world.raw, "dms/shop/items/"))
    items, orders = plan(source, world.clock()).tables
    assert "SlowDown" in items.error
    assert items.action is Action.NONE
    assert orders.action is Action.START


def test_a_schema_that_cannot_be_listed_is_reported_and_the_other_tables_go_on(world: World):
    for path in (ORDERS, f"{RAW}/dms/crm/known/", f"{RAW}/dms/crm/new/"):
        world.put(change(1), path)
    world.register()
    world.register(f"{RAW}/dms/crm/known/")
    todo = plan(replace(world.source, raw=BrokenFor(world.raw, "dms/crm/")), world.clock())
    assert [str(table.state.name) for table in todo.tables] == ["crm.known", "shop.orders"]
    assert all(table.action is Action.START for table in todo.tables)
    summary = execute(todo, world.states, world.jobs, world.clock(), EACH_ALONE)
    assert len(world.jobs.started) == 2
    assert "folders that could not be looked at: 1" in str(summary.to_json()["error"])
    assert "SlowDown" in str(summary.to_json()["error"])


def test_when_glue_has_no_room_what_did_not_start_is_said_and_comes_next_time(world: World):
    tables = [f"{RAW}/dms/shop/t{number}/" for number in range(5)]
    for path in tables:
        world.put(change(1), path)
        world.register(path)
    started: list[str] = []

    def room_for_two(job: str, arguments: Mapping[str, str]) -> None:
        if len(started) == 2:
            raise JobRunError("Glue has no room for another run now", remedy="Run again when a run has ended")
        started.append(job)

    world.before_start = room_for_two
    summary = execute(plan(world.source, world.clock()), world.states, world.jobs, world.clock(), EACH_ALONE)
    assert [table.outcome for table in summary.tables[:2]] == ["started", "started"]
    assert all("no room" in table.error for table in summary.tables[2:])
    world.before_start = lambda _job, _arguments: None
    again = execute(plan(world.source, world.clock()), world.states, world.jobs, world.clock(), EACH_ALONE)
    assert {table.outcome for table in again.tables[2:]} == {"started"}
