"""A run of a table with many raw files lists only the newest, and misses none."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cdclake.commit.ledger import all_entries
from cdclake.control.plan.decision import DecisionKind
from cdclake.control.plan.left_out import LeftOut
from cdclake.control.plan.raw_scan import RECONCILED_EVERY
from cdclake.model.table.attributes import Attribute
from cdclake_devkit.memory import ManualClock
from tests.cdclake.control.world import World
from tests.examples import examples

LOAD = "LOAD00000001.parquet"
FILES, SEGMENT = 300, 20


def name(minute: int) -> str:
    hours, minutes = divmod(minute, 60)
    return f"20240305-{hours:02d}{minutes:02d}00000.parquet"


def many(world: World, **attributes: str) -> World:
    """A table with a file a minute for five hours, all applied, and a late window of one."""
    world.segment_files = SEGMENT
    world.add_table(LOAD, LateWindowHours="1", **attributes)
    world.process()
    world.clock.advance(1)
    for begin in range(0, FILES, SEGMENT):
        world.put(*map(name, range(begin, begin + SEGMENT)))
        world.process()
    world.raw.objects_listed = 0
    world.applied.clear()
    return world


def test_a_run_with_something_to_load_lists_the_late_window_and_what_is_newer(world: World):
    many(world).put(name(FILES))
    report = world.process()
    assert [one.decision.kind for one in report.rounds] == [DecisionKind.INCREMENTAL]
    assert world.applied == [name(FILES)]
    assert world.raw.objects_listed <= 60 + 3  # the window, the new file and the LOAD file


def test_without_something_to_load_and_once_a_day_all_are_listed(world: World):
    many(world)
    world.process()
    assert world.raw.objects_listed >= FILES + 1
    listed_utc = world.state().seen.all_listed_utc
    assert listed_utc
    world.clock.advance(60)
    world.put(name(FILES))
    world.process()
    assert world.state().seen.all_listed_utc == listed_utc
    world.clock.advance(RECONCILED_EVERY.total_seconds())
    world.put(name(FILES + 1))
    world.raw.objects_listed = 0
    world.process()
    assert world.raw.objects_listed >= FILES + 3
    assert world.state().seen.all_listed_utc == world.clock()


def test_a_late_file_of_the_window_is_applied_beside_a_new_one(world: World):
    late = name(FILES - 55).replace("00000.", "00001.")
    many(world).put(late, name(FILES))
    world.process()
    assert world.applied == [late, name(FILES)]


def test_an_older_file_that_appears_or_changes_is_found_by_the_next_run_without_work_and_stays_a_finding(world: World):
    late = name(FILES - 200).replace("00000.", "00001.")
    many(world)
    world.clock.advance(60)
    world.put(late, name(FILES))
    world.raw.put(f"dms/shop/orders/{name(5)}", b"other rows")
    assert world.process().rounds[0].decision.findings == ()
    found = world.process().rounds[0].decision.findings
    assert [text.partition(":")[0].split(" ", 3)[2].strip("(") for text in found] == ["file", "file"]
    assert late in found[0]
    assert name(5) in found[1]
    world.clock.advance(60)
    world.put(name(FILES + 1))
    assert world.process().rounds[0].decision.findings == found
    assert world.applied == [name(FILES), name(FILES + 1)]


def test_files_in_other_folders_are_found_too(world: World):
    """Keys of date folders sort before those of files without."""
    moved = f"2024/03/05/{name(FILES)}"
    many(world).put(moved)
    world.process()
    assert world.applied == [moved]


def test_a_reload_lists_all(world: World):
    many(world)
    world.clock.advance(60)
    world.put(LOAD)
    world.clock.advance(60)
    world.put(name(FILES))
    world.process()
    assert world.applied == [name(FILES)]
    ledger = world.log().snapshot(world.log().head()).ledger
    assert set(all_entries(world.log(), ledger)) == set(map(name, range(FILES + 1)))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "rewrite", "remove", "reload", "ignore", "acknowledge", "pass"]),
        st.integers(0, 239),
    ),
    max_size=12,
)


@given(steps=STEPS)
@examples(thorough=3000, ci=40, test=12)
def test_it_makes_no_difference_to_a_table_whether_its_runs_list_all(steps: list[tuple[str, int]]):
    worlds = []
    for segment_files in (2, 0):
        world = World(ManualClock())
        world.segment_files = segment_files
        world.add_table(LOAD, *(name(minute) for minute in range(0, 120, 5)), LateWindowHours="1")
        world.process()
        worlds.append(world)
    for number, (step, minute) in enumerate(steps):
        seen = []
        for world in worlds:
            world.clock.advance(timedelta(hours=1).total_seconds())
            do(world, step, minute, number)
            for _ in range(2):
                world.process()
            seen.append(view(world))
        assert seen[0] == seen[1], step


def do(world: World, step: str, minute: int, number: int) -> None:
    file = f"dms/shop/orders/{name(minute)}"
    if step == "write":
        world.raw.put(file, b"rows")
    elif step == "rewrite" and world.raw.get(file) is not None:
        world.raw.put(file, f"rows {number}".encode())
    elif step == "remove":
        item = world.state().item
        if not (item[Attribute.LAST_PENDING] or world.raw.get(file) is None):
            world.raw.delete([file])
    elif step == "reload":
        world.put(LOAD)
    elif step == "acknowledge":
        left_out = LeftOut.parse(world.state().left_out)
        world.states.record_run(world.state().path, {Attribute.LAST_LEFT_OUT: left_out.acknowledged().stored})
    elif step == "ignore":
        from_now = {Attribute.IGNORE_FILES: f"{name(minute)[:11]}*" if minute % 2 else "null"}
        world.states.set_attributes(world.state().path, from_now)


def view(world: World) -> dict[str, Any]:
    """What users see of a table: what was applied, its findings, and its next plan."""
    decision = world.decision()
    snapshot = world.log().snapshot(world.log().head())
    return {
        "applied": world.applied,
        "watermark": snapshot.watermark,
        "findings": decision.findings,
        "kind": decision.kind,
        "left out": world.state().item[Attribute.LAST_LEFT_OUT],
    }
