"""Change files that appear up to the watermark are noticed, whatever the time at which they were written."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.control.plan.decision import DecisionKind
from cdclake.control.plan.known_files import KnownFiles
from cdclake.control.plan.raw_scan import PAGE_OBJECTS, scan_raw
from cdclake.model.raw.files import ListedObject, RawFile, raw_files
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState
from tests.cdclake.control.plan.test_raw_scan import Bucket, applied_up_to, change
from tests.cdclake.control.world import ORDERS, World
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


def test_stored_text_is_small_and_round_trips():
    known = KnownFiles.of(table(), files(NAMES))
    assert KnownFiles.parse(str(known)) == known
    assert len(str(known)) < 200


@pytest.mark.parametrize("text", ["", "null", "{}", '{"after": "", "tail": ""}', "[1]"])
def test_other_text_means_that_the_files_are_unknown(text: str):
    assert KnownFiles.parse(text) is None


def test_the_digest_changes_with_names_and_sizes_but_not_with_files_after_the_watermark():
    known = KnownFiles.of(table(NAMES[-2]), files(NAMES[:-1]))
    assert KnownFiles.of(table(NAMES[-2]), files(NAMES)) == known
    assert KnownFiles.of(table(NAMES[-2]), files(NAMES[:-1], size_bytes=11)).tail != known.tail
    assert KnownFiles.of(table(NAMES[-2]), files(NAMES[1:-1])).tail != known.tail


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
    state = applied_up_to(names[-1], LastLookFrom=look_from, LastPageEnd=end, LastFullLoadDate="2024-03-06 00:00:00")
    everything = list(bucket.list("dms/shop/orders/"))
    expected = KnownFiles.of(state, raw_files(everything, "dms/shop/orders/").changes)
    scan = scan_raw(bucket, state, datetime(2024, 3, 6, tzinfo=timezone.utc))
    found = KnownFiles.of(state, scan.files.changes)
    assert found.tail == expected.tail
    assert not scan.complete or found.names == expected.names


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


def test_an_item_of_an_earlier_version_gets_the_known_files_in_its_next_run(world: World):
    applied(world, NAMES[0], NAMES[1])
    world.states.record_run(ORDERS, {Attribute.LAST_KNOWN_FILES: ""})
    assert world.decision().kind is DecisionKind.NOTHING_NEW
    world.process()
    assert KnownFiles.parse(world.state().item[Attribute.LAST_KNOWN_FILES])


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
