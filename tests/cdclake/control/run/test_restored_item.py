"""The lake is the truth: a state item that is lost, made anew or restored from any backup goes on at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from cdclake.control.admin.table_admin import RegisteredTable
from cdclake.control.plan.decision import DecisionKind
from cdclake.control.run.lease import RENEW_AFTER_SECONDS, Lease
from cdclake.control.status import Health, table_statuses
from cdclake.errors import CommitConflictError, ConfigurationError, LeaseLostError
from cdclake.model.change.record import ChangeKind
from cdclake.model.names import JOB_PROCESS_TABLE
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState
from cdclake_devkit.memory import ManualClock, MemoryState
from tests.builders import change_record
from tests.cdclake.control.world import ORDERS, World, seen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cdclake.model.snapshot import Snapshot

LOAD = "LOAD00000001.parquet"
CHANGES = [f"20240305-10{n:02}00000.parquet" for n in range(10)]
LATE, LAST = "20240305-100030000.parquet", "20240305-101500000.parquet"
MAY_DIFFER = {
    *(Attribute.FENCING_TOKEN, Attribute.LAST_CHANGE_ID, Attribute.LAST_FINDINGS, Attribute.LAST_RUN_ID),
    *(Attribute.LAST_DELAYS, Attribute.LAST_LINEAGE_CHANGE, Attribute.LAST_OFF_BY_ROLLBACK),
}
"""A takeover of an old lease is a change more, and what turned a table off counts only while it is off."""
SETTINGS = {Attribute.PRIMARY_KEY: "id", Attribute.MAX_FILES_PER_RUN: "2"}


def hourly(world: World) -> None:
    """The Controller, and the run that it starts."""
    world.clock.advance(3600)
    before = len(world.jobs.started)
    world.run_controller()
    if any(start.job == JOB_PROCESS_TABLE for start in world.jobs.started[before:]):
        world.process(run_id=f"run-{len(world.jobs.started)}")


def by_hand(world: World) -> RegisteredTable:
    return RegisteredTable(world.states, world.state(), world.log(), "by-hand", world.clock)


def activate(world: World) -> None:
    world.states.set_attributes(ORDERS, {Attribute.ACTIVE_FLAG: "true"})


def roll_back(world: World) -> None:
    by_hand(world).rollback(to=2)


STEPS: tuple[Callable[[World], None], ...] = (
    lambda world: world.put(LOAD),
    lambda world: world.put(CHANGES[0]),
    lambda world: world.put(*CHANGES[1:7]),  # more than one change may take
    lambda world: world.put(LATE),
    roll_back,
    activate,
    lambda world: world.put(LOAD),  # a reload
    lambda world: world.put(CHANGES[7]),
    lambda world: world.put(*CHANGES[8:]),
)


def lived() -> tuple[World, list[dict[str, str]]]:
    """A table after all steps, and its item at every moment: after each step, and while a Spark job worked."""
    world = World(ManualClock())
    world.register(**SETTINGS)
    items: list[dict[str, str]] = [dict(world.state().item)]

    world.during_job = lambda: items.append(dict(world.state().item))
    for step in STEPS:
        step(world)
        items.append(dict(world.state().item))
        hourly(world)
        items.append(dict(world.state().item))
    return world, items


LIVED, ITEMS = lived()
"""Each test works on a copy."""


def facts(world: World) -> Snapshot:
    """The lake table, but for the numbers of its changes."""
    lake = world.log().snapshot(world.log().head())
    recent = {name: entry._replace(change=0) for name, entry in lake.ledger.recent.items()}
    return replace(lake, change=0, ledger=replace(lake.ledger, recent=recent, loaded_by=0))


def status(world: World) -> tuple[Health, str]:
    (one,) = table_statuses(world.plan().tables, lambda _: world.log(), world.clock(), 60)
    return one.health, one.reason


def restored(*items: Mapping[str, str]) -> World:
    """The table after all steps, with an item of an earlier moment, or none."""
    world = LIVED.copy()
    world.states = MemoryState(map(TableState, items))
    return world


@pytest.mark.sampled(quick=15)
@pytest.mark.parametrize("files_are_gone", [False, True])
@pytest.mark.parametrize("moment", range(len(ITEMS)))
def test_one_run_sets_an_item_of_any_earlier_moment_right_and_applies_what_is_due(
    moment: int, files_are_gone: bool
) -> None:
    twin, world = LIVED.copy(), restored({**ITEMS[moment], Attribute.ACTIVE_FLAG: "true"})
    for one in (world, twin):
        if files_are_gone:  # a lifecycle rule deletes applied files
            one.raw.delete([f"dms/shop/orders/{name}" for name in (*CHANGES, LATE)])
        hourly(one)
        one.put(LAST)
        hourly(one)
    assert world.applied == twin.applied == [LAST]
    assert facts(world) == facts(twin)
    assert status(world) == status(twin) == (Health.UP_TO_DATE, "every raw file is accounted for")
    now, then = dict(world.state().item), dict(twin.state().item)
    differing = {name for name in {*now, *then} if now.get(name) != then.get(name)}
    assert differing <= MAY_DIFFER
    assert int(now[Attribute.FENCING_TOKEN]) >= world.log().record(world.log().head()).fencing_token


def test_a_table_whose_item_was_deleted_and_registered_again_goes_on_at_once() -> None:
    token = LIVED.log().record(LIVED.log().head()).fencing_token
    world = restored()
    world.register(**SETTINGS)
    world.put(LAST)
    hourly(world)
    assert world.applied == [LAST]
    assert world.log().record(world.log().head()).fencing_token == token + 1
    assert int(world.state().item[Attribute.FENCING_TOKEN]) == token + 1
    hourly(world)
    assert status(world)[0] is Health.UP_TO_DATE


@pytest.mark.parametrize(
    "operate",
    [
        lambda world: by_hand(world).rollback(),
        lambda world: by_hand(world).repair(),
        lambda world: by_hand(world).clean_up(retention=world.clock() - world.clock()),
        lambda world: by_hand(world).change(lambda token: world.log().check_fence(world.log().head(), token)),
    ],
    ids=["rollback", "repair", "clean-up", "change"],
)
def test_commands_go_on_at_once_with_an_item_that_was_made_anew(operate: Callable[[World], object]) -> None:
    world = restored()
    world.register(**SETTINGS)
    operate(world)
    assert world.is_free()
    hourly(world)
    assert world.is_free()


def test_a_run_under_a_lost_item_and_one_under_the_new_item_cannot_both_commit(world: World) -> None:
    world.add_table(LOAD, **SETTINGS)
    world.process()
    old = Lease.acquire(world.states, ORDERS, world.state().name, "old", world.clock)
    anew = MemoryState()
    world.states = anew
    world.register(**SETTINGS)
    world.put(CHANGES[0])

    def as_old_run() -> None:
        """The old run, which was paused right before its commit, goes on, now with the item that there is."""
        with pytest.raises(CommitConflictError):
            world.log().commit(change_record(2, fencing_token=old.token))
        old._states = anew
        world.clock.advance(RENEW_AFTER_SECONDS)
        with pytest.raises(LeaseLostError):
            old.renew_if_due()
        assert old.release(even_if_requested=True)
        assert not world.is_free()

    world.after_job = as_old_run
    world.process(run_id="new")
    assert [record.kind for record in world.log().records(1, world.log().head())] == [
        ChangeKind.FULL_LOAD,
        ChangeKind.INCREMENTAL,
    ]
    assert world.applied == [CHANGES[0]]


def test_an_item_of_before_a_rollback_does_not_apply_again_what_was_undone(world: World) -> None:
    world.add_table(LOAD, **SETTINGS)
    for name in CHANGES[:2]:
        world.put(name)
        hourly(world)
    before = dict(world.state().item)
    by_hand(world).rollback()
    world.states = MemoryState([TableState(before)])
    world.applied.clear()
    world.put(CHANGES[2])
    head = world.log().head()
    with pytest.raises(ConfigurationError, match=f"Change {head} rolled shop.orders back and turned it off"):
        hourly(world)
    assert world.applied == []
    assert not world.state().active
    assert status(world)[0] is Health.ROLLED_BACK
    activate(world)
    hourly(world)
    assert world.applied == CHANGES[1:3]


ENDS: tuple[dict[str, str], ...] = (
    {Attribute.LEASE_EXPIRES_UTC: "2099-01-01T00:00:00Z"},
    {Attribute.LEASE_EXPIRES_UTC: "tomorrow"},
    {},
)


@pytest.mark.parametrize("lease", ENDS)
@pytest.mark.parametrize("due", [False, True])
def test_a_lease_that_ends_later_than_any_can_is_broken_and_plan_status_and_run_say_so(
    world: World, lease: dict[str, str], due: bool, caplog: pytest.LogCaptureFixture
) -> None:
    world.add_table(LOAD, **SETTINGS)
    hourly(world)
    state = world.state().with_attributes(LeaseHolder="ghost", **lease)
    world.states = MemoryState([state])
    if due:
        world.put(CHANGES[0])
    decision = world.decision()
    assert decision.kind is (DecisionKind.INCREMENTAL if due else DecisionKind.RESCAN)
    (finding,) = decision.findings
    assert "the lease of run ghost counts as expired" in finding
    health, reason = status(world)
    assert health is Health.INCOMPLETE
    assert due or "ghost did not release its lease, which counts as expired" in reason
    hourly(world)
    assert "the lease of ghost counts as expired: LeaseExpiresUtc is" in caplog.text
    assert "counts as expired" in world.log().record(2).reason
    assert world.applied == ([CHANGES[0]] if due else [])
    assert status(world) == (Health.UP_TO_DATE, "every raw file is accounted for")
    assert world.decision().findings == ()


def test_an_operator_takes_over_a_lease_that_ends_later_than_any_can(world: World) -> None:
    world.add_table(LOAD, **SETTINGS)
    hourly(world)
    broken = world.state().with_attributes(LeaseHolder="ghost", LeaseExpiresUtc="2099-01-01T00:00:00Z")
    world.states = MemoryState([broken])
    assert by_hand(world).rollback(to=0).kind is ChangeKind.ROLLBACK


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (Attribute.LAST_SEEN, seen("2099-01-01T00:00:00Z")),
        (Attribute.LAST_RETIRED_SINCE_UTC, "2099-01-01T00:00:00Z"),
        (Attribute.LAST_REPEATED_SINCE_UTC, "2099-01-01T00:00:00Z"),
    ],
)
def test_a_time_of_the_future_in_the_item_is_corrected_by_the_next_change(world: World, name: str, text: str) -> None:
    world.add_table(LOAD, **SETTINGS)
    hourly(world)
    world.states.record_run(ORDERS, {name: text})
    world.put(CHANGES[1])
    hourly(world)
    world.put(CHANGES[0])  # late
    hourly(world)
    assert sorted(world.applied) == CHANGES[:2]
    assert "2099" not in world.state().item[name]
