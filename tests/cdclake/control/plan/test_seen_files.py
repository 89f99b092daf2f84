"""Change files that appear up to the watermark are noticed, whatever the time at which they were written."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.control.plan.decision import DecisionKind
from cdclake.control.plan.raw_scan import PAGE_OBJECTS, scan_raw
from cdclake.control.plan.seen_files import _digests, are_others, seen_by_run
from cdclake.model.raw.files import ListedObject, RawFile, RawFiles, raw_files
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState
from tests.cdclake.control.plan.test_raw_scan import Bucket, applied_up_to, change
from tests.cdclake.control.world import ORDERS, World, seen
from tests.examples import examples

WRITTEN = datetime(2024, 3, 5, 10, tzinfo=timezone.utc)
NAMES = [f"20240305-10{number // 60:02d}{number % 60:02d}000.csv" for number in range(200)]
LOAD = "LOAD00000001.csv"


def table(watermark: str = NAMES[-1]) -> TableState:
    return TableState.new("raw", "shop/", "orders/").with_attributes(LastIncrementalFile=f"raw/shop/orders/{watermark}")


def files(names: list[str], size_bytes: int = 10, seconds: int = 0) -> list[RawFile]:
    at = WRITTEN + timedelta(seconds=seconds)
    return list(
        raw_files([ListedObject(f"shop/orders/{name}", size_bytes, at) for name in names], "shop/orders/").changes
    )


def saw(state: TableState, changes: list[RawFile], begin: str = "") -> TableState:
    """The table after a good run that listed these files."""
    after = seen_by_run(state, RawFiles(changes=changes, begin=begin), WRITTEN, accounted=True)
    return state.with_attributes(**{Attribute.LAST_SEEN: str(after)})


def test_others_are_noticed_by_name_and_size_up_to_the_watermark():
    state = saw(table(NAMES[-2]), files(NAMES[:-1]))
    for same in (files(NAMES[:-1]), files(NAMES)):
        assert not are_others(state, same, complete=True)
    for others in (files(NAMES[:-1], size_bytes=11), files(NAMES[1:-1]), files(NAMES[:5] + NAMES[6:-1])):
        assert are_others(state, others, complete=True)
        assert are_others(state, others, complete=False)
    moved = state.with_attributes(LastIncrementalFile=f"raw/shop/orders/{NAMES[-3]}")
    assert are_others(moved, files(NAMES[:-1]), complete=True)
    assert not are_others(table(), files(NAMES), complete=True)


OLD = "20240301-000000000.csv"
"""Before the files that every scan lists."""


def test_files_that_not_every_scan_lists_are_compared_if_both_listed_all():
    with_old, without = files([OLD, *NAMES]), files(NAMES)
    assert are_others(saw(table(), with_old), without, complete=True)
    assert are_others(saw(table(), without), with_old, complete=True)
    assert not are_others(saw(table(), with_old), without, complete=False)
    assert not are_others(saw(table(), without, begin=NAMES[0][:8]), with_old, complete=True)


def test_other_files_to_ignore_are_noticed_though_no_scan_lists_them():
    state = saw(table(), files(NAMES)).with_attributes(IgnoreFiles=OLD)
    assert are_others(state, files(NAMES), complete=False)
    assert not are_others(saw(state, files(NAMES)), files(NAMES), complete=False)


def test_a_run_that_leaves_files_to_apply_keeps_what_the_last_good_one_saw():
    state, later = saw(table(), files(NAMES)), WRITTEN + timedelta(hours=1)
    listed = RawFiles(changes=files([OLD, *NAMES]))
    after = seen_by_run(state, listed, later, accounted=False)
    assert after == state.seen._replace(all_listed_utc=later)
    assert seen_by_run(state, listed, later, accounted=True).listed_utc == later


@examples(thorough=500, ci=20, test=20)
@given(
    count=st.integers(1, 2600),
    minutes=st.sampled_from([1, 7]),
    folder=st.sampled_from(["", "%Y/%m/%d/", "%d%m%Y/"]),
    noted=st.integers(0, 2600),
    page=st.integers(0, 2600),
)
def test_the_tail_is_the_same_in_every_scan(count: int, minutes: int, folder: str, noted: int, page: int):
    names = [change(60 * minutes * number, folder) for number in range(count)]
    stray = "z/" + change(60 * minutes * count - 30)
    bucket = Bucket(sorted([*names, stray, *(f"LOAD{number:08X}.parquet" for number in range(PAGE_OBJECTS))]))
    look_from = change(60 * minutes * min(noted, count - 1))[:15] if noted % 2 else ""
    end = names[min(page, count - 1)] if page % 2 else ""
    attributes = {"LastSeen": seen(tail_from=look_from), "LastPageEnd": end, "LastFullLoadDate": "2024-03-06 00:00:00"}
    state = applied_up_to(names[-1], **attributes)
    everything = raw_files(bucket.list("dms/shop/orders/"), "dms/shop/orders/")
    digests = _digests(state, everything.changes)
    state = state.with_attributes(LastSeen=str(state.seen._replace(tail=digests[0], whole=digests[1])))
    scan = scan_raw(bucket, state, datetime(2024, 3, 6, tzinfo=timezone.utc))
    assert not are_others(state, scan.files.changes, complete=scan.complete)


def applied(world: World, *names: str, **attributes: str) -> None:
    """A table that has applied these change files."""
    world.clock.now = datetime(2024, 4, 1, tzinfo=timezone.utc)
    world.add_table(LOAD, *names, **attributes)
    world.clock.advance(60)
    world.process()
    assert not world.decision().work


def put_with_old_time(world: World, name: str) -> None:
    """Write a file now with the time of its name, as a multipart upload or a copy does."""
    now, world.clock.now = world.clock.now, datetime(2024, 3, 5, 9, tzinfo=timezone.utc)
    world.put(name)
    world.clock.now = now


def test_a_late_file_with_an_old_time_is_applied(world: World):
    applied(world, NAMES[0], NAMES[2])
    put_with_old_time(world, NAMES[1])
    decision = world.decision()
    assert decision.kind is DecisionKind.RESCAN
    assert NAMES[2] in decision.reason
    world.process()
    assert world.applied == [NAMES[0], NAMES[2], NAMES[1]]
    assert world.decision().kind is DecisionKind.NOTHING_NEW


def test_a_file_that_not_every_scan_lists_is_known_to_be_overwritten_whatever_its_time(world: World):
    applied(world, OLD, *NAMES[:2])
    now, world.clock.now = world.clock.now, datetime(2024, 3, 1, tzinfo=timezone.utc)
    world.raw.put(f"dms/shop/orders/{OLD}", b"other rows, copied with their time")
    world.clock.now = now
    assert world.decision().kind is DecisionKind.RESCAN
    world.process()
    decision = world.decision()
    assert decision.kind is DecisionKind.NOTHING_NEW
    assert f"1 change file ({OLD}) overwritten since applied" in decision.findings[0]


def test_a_file_with_an_old_time_behind_the_late_window_is_too_late(world: World):
    applied(world, NAMES[0], "20240401-000000000.csv")
    put_with_old_time(world, NAMES[1])
    assert world.decision().kind is DecisionKind.RESCAN
    world.process()
    assert world.applied == [NAMES[0], "20240401-000000000.csv"]
    (finding,) = world.decision().findings
    assert f"1 change file ({NAMES[1]}) too late" in finding
    world.process()
    assert world.decision().findings == (finding,)


@pytest.mark.parametrize(("newest", "applies"), [(NAMES[2], True), ("20240401-000000000.csv", False)])
def test_a_file_that_is_no_longer_ignored_is_applied_or_too_late(world: World, newest: str, applies: bool):
    applied(world, NAMES[0], NAMES[1], newest, IgnoreFiles=NAMES[1])
    world.states.set_attributes(ORDERS, {Attribute.IGNORE_FILES: "null"})
    assert world.decision().kind is DecisionKind.RESCAN
    world.process()
    assert (NAMES[1] in world.applied) is applies
    assert world.decision().too_late == (not applies)


def test_a_table_of_which_nothing_is_known_to_be_seen_gets_a_run_that_notes_it(world: World):
    applied(world, NAMES[0], NAMES[1], NAMES[2])
    before = world.state().seen
    world.states.record_run(ORDERS, {Attribute.LAST_SEEN: ""})
    assert world.decision().kind is DecisionKind.RESCAN
    world.process()
    assert world.decision().kind is DecisionKind.NOTHING_NEW
    now = world.clock()
    assert world.state().seen == before._replace(listed_utc=now, all_listed_utc=now)


def test_a_reload_applies_again_what_came_too_late(world: World):
    applied(world, NAMES[0], "20240401-000000000.csv")
    world.clock.advance(60)
    world.put(NAMES[1])
    world.clock.advance(60)
    world.process()
    assert world.decision().too_late == 1
    world.states.set_attributes(ORDERS, {Attribute.LAST_FULL_LOAD_DATE: "1900-01-01 00:00:00"})
    world.process()
    assert (world.decision().kind, world.decision().findings) == (DecisionKind.NOTHING_NEW, ())
