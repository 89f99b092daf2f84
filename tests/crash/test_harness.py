"""The crash tests can fail: faults strike where they say, and what goes wrong after them is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from cdclake.adapters.memory import MemoryStore
from cdclake.adapters.s3 import S3Store
from cdclake.errors import CdclakeError
from tests.crash import checks
from tests.crash.actor import LAYOUT, Actor
from tests.crash.faults import Fault, FaultyPort, Injector, Point
from tests.crash.matrix import try_points
from tests.crash.places import LAKE
from tests.crash.scenarios import SCENARIOS, Scenario
from tests.crash.stage import Stage, View
from tests.crash.worlds import AwsWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from cdclake.oracle import LakeRow
    from cdclake.ports import ObjectStore
    from tests.crash.worlds import World

    NewWorld = Callable[[str], AbstractContextManager[tuple[World, Path]]]


@pytest.fixture
def stage(new_world: NewWorld) -> Iterator[Stage]:
    with new_world("folder") as (world, folder):
        yield Stage(world, folder)


@pytest.fixture
def settled(stage: Stage) -> tuple[View, list[LakeRow]]:
    """A lake in which all is well, and the rows it must hold."""
    scenario = SCENARIOS["LoadIncremental"]
    expected = scenario.prepare(stage)
    scenario.run(stage.actor())
    return stage.look(), expected


@pytest.mark.parametrize(("fault", "is_written"), [(Fault.RAISES, False), (Fault.ANSWER_LOST, True)])
def test_a_fault_strikes_at_its_call_and_no_other(fault: Fault, is_written: bool) -> None:
    store = MemoryStore()
    injector = Injector(Point(fault, 2, changes_only=True))
    faulty = cast("ObjectStore", FaultyPort(store, injector))
    faulty.put("a", b"")
    assert list(faulty.list(""))
    with pytest.raises(CdclakeError, match="injected by a test"):
        faulty.put("b", b"")
    faulty.put("c", b"")
    assert [entry.key for entry in store.list("")] == (["a", "b", "c"] if is_written else ["a", "c"])
    assert (injector.struck, injector.calls) == ("put b", 3)


def test_a_paused_call_is_carried_out_after_what_others_do_meanwhile() -> None:
    store = MemoryStore()
    injector = Injector(Point(Fault.PAUSED, 1, changes_only=False), meanwhile=lambda: store.put("a", b"other"))
    cast("ObjectStore", FaultyPort(store, injector)).put("a", b"paused")
    assert store.get("a") == b"paused"


@pytest.mark.aws
@pytest.mark.parametrize(
    ("fault", "raises", "writes"),
    [(Fault.RAISES, True, 0), (Fault.ANSWER_LOST, True, 1), (Fault.CONNECTION_DROPPED, False, 2)],
)
def test_a_request_is_struck_on_its_way(fault: Fault, raises: bool, writes: int, new_world: NewWorld) -> None:
    with new_world("versioned bucket") as (world, _):
        assert isinstance(world, AwsWorld)
        store = world.place.ports(Injector()).lake
        assert isinstance(store, S3Store)
        with world.wire.watching(Point(fault, 1, changes_only=True), lambda: None) as watch:
            assert store.get("a") is None
            try:
                store.put("a", b"")
                raised = False
            except CdclakeError:
                raised = True
        assert (raised, watch.struck) == (raises, f"PUT /{LAKE}/a")
        found = store._client.list_object_versions(Bucket=LAKE)
        assert len(found.get("Versions", [])) == writes  # each time it was carried out, it left a version


def _without(view: View, key: str) -> View:
    return View({name: data for name, data in view.objects.items() if name != key})


def test_readers_who_miss_rows_are_noticed(settled: tuple[View, list[LakeRow]]) -> None:
    view, _ = settled
    key = LAYOUT.data_key(max(view.visible))
    with pytest.raises(AssertionError, match="readers"):
        checks.check_for_readers(view, _without(view, key))
    before = _without(view, LAYOUT.change_key(view.log.head()))
    with pytest.raises(AssertionError, match="readers"):
        checks.check_for_readers(before, _without(view, key))


def test_half_a_file_is_noticed(settled: tuple[View, list[LakeRow]]) -> None:
    view, _ = settled
    key = LAYOUT.data_key(max(view.visible))
    with pytest.raises(Exception, match="Parquet"):
        checks.check_for_readers(view, View({**view.objects, key: view.objects[key][:-9]}))


def test_a_file_too_many_and_a_row_too_few_are_noticed(settled: tuple[View, list[LakeRow]]) -> None:
    view, expected = settled
    checks.check_table(view, expected)
    path = max(view.visible)
    with pytest.raises(AssertionError, match="other files than the snapshot's"):
        checks.check_table(View({**view.objects, LAYOUT.data_key("x.parquet"): view.visible[path]}), expected)
    with pytest.raises(AssertionError, match="not what the oracle says"):
        checks.check_table(view, expected[1:])


@pytest.mark.parametrize("key", [LAYOUT.staging_prefix(9, "dead") + "x", LAYOUT.snapshot_key(9, "dead")])
def test_what_a_clean_up_leaves_is_noticed(settled: tuple[View, list[LakeRow]], key: str) -> None:
    view, _ = settled
    checks.check_clean(view)
    with pytest.raises(AssertionError, match=r"staging is not empty|something that nobody needs"):
        checks.check_clean(View({**view.objects, key: b""}))


def test_a_run_that_retires_before_it_publishes_does_not_survive(new_world: NewWorld) -> None:
    """The whole of it, on a run with a defect: it takes files out of sight before it has committed anything."""
    sound = SCENARIOS["LoadIncremental"]

    def retire_too_early(actor: Actor) -> Any:
        for entry in list(actor.log.store.list(LAYOUT.table_prefix)):
            path = entry.key[len(LAYOUT.table_prefix) :]
            actor.log.store.retire(entry.key, LAYOUT.retired_key(path))
        for entry in list(actor.log.store.list(LAYOUT.retired_key(""))):
            path = entry.key[len(LAYOUT.retired_key("")) :]
            actor.log.store.restore(LAYOUT.data_key(path), entry.key)
        return sound.run(actor)

    faulty = Scenario("early", sound.prepare, retire_too_early, sound.next_run, sound.after_that)
    with new_world("folder") as (world, folder):
        (tally,) = try_points(world, folder, faulty, [Fault.RAISES])
    assert tally.failures
    assert tally.survived < tally.tried
