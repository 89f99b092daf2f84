"""Operations by hand on a table, concurrently with runs."""

from __future__ import annotations

import itertools
import re
import threading
import time
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, cast

import pytest

from cdclake.commit.erasure import Replacement, commit_erasure
from cdclake.commit.log import ChangeLog
from cdclake.commit.takeover import take_over
from cdclake.control.admin.table_admin import RegisteredTable
from cdclake.control.plan.decision import DecisionKind
from cdclake.control.run.lease import LEASE_SECONDS, RENEW_AFTER_SECONDS, Lease, renewed_in_background
from cdclake.control.status import Health, table_statuses
from cdclake.errors import (
    CommitConflictError,
    ConfigurationError,
    IntegrityError,
    LakeFilesError,
    LeaseHeldError,
    LeaseLostError,
    RefusedChangeError,
    RetryableError,
)
from cdclake.model.change.record import ChangeKind
from cdclake.model.layout import LakeLayout
from cdclake.model.names import JOB_LOAD_INCREMENTAL
from cdclake.model.snapshot import ErasedKeys
from cdclake.model.table.attributes import Attribute
from tests.builders import LakeBuilder, eventually
from tests.cdclake.control.world import LAKE, LAKE_PREFIX, ORDERS, World, raising
from tests.dying_store import CALLS, PausingStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from threading import Thread

    from cdclake.model.table.state import TableState
    from cdclake.ports import ObjectStore


LOAD = "LOAD00000001.parquet"
CHANGE_1, CHANGE_2, CHANGE_3 = (f"20240305-10000{n}000.parquet" for n in (1, 2, 3))


def table(world: World, run_id: str = "by-hand") -> RegisteredTable:
    return RegisteredTable(world.states, world.state(), world.log(), run_id, world.clock)


@pytest.fixture
def orders(world: World) -> World:
    """A table with a full load and two changes, each applied by a separate run."""
    world.register()
    for file in (LOAD, CHANGE_1, CHANGE_2):
        world.put(file)
        world.process()
        world.clock.advance(3600)
    assert world.applied == [CHANGE_1, CHANGE_2]
    return world


def item(world: World) -> dict[str, str]:
    return dict(world.state().item)


def test_a_rollback_turns_the_table_off_and_moves_the_watermark_back(orders: World) -> None:
    record = table(orders).rollback(reason="wrong file")
    assert (record.change, record.kind, record.as_of, record.reason) == (4, ChangeKind.ROLLBACK, 2, "wrong file")
    now = item(orders)
    assert now[Attribute.ACTIVE_FLAG] == "false"
    assert now[Attribute.LAST_INCREMENTAL_FILE] == ORDERS + CHANGE_1
    assert now[Attribute.LAST_CHANGE_ID] == "4"
    assert Attribute.LEASE_HOLDER not in now
    assert orders.process().rounds == []
    assert orders.applied == [CHANGE_1, CHANGE_2]


def test_a_rollback_that_dies_after_turning_the_table_off_leaves_it_in_need_of_action(orders: World) -> None:
    log = table(orders).log
    log.commit = raising(RuntimeError("died"))  # type: ignore[method-assign]  # as a crash would
    with pytest.raises(RuntimeError):
        replace(table(orders), log=log).rollback()
    assert orders.state().off_by_rollback


def test_a_rollback_says_whether_the_table_is_meant_to_stay_off(orders: World) -> None:
    table(orders).rollback()
    assert orders.state().off_by_rollback
    table(orders).rollback(leave_off=True)
    assert (orders.state().active, orders.state().off_by_rollback) == (False, False)


def lose(orders: World, *prefixes: str) -> None:
    """Delete objects of the lake."""
    gone = [entry.key for entry in orders.lake.list("") if entry.key.startswith(prefixes)]
    assert gone
    orders.lake.delete(gone)


CONTROL = f"{LAKE_PREFIX}_cdclake/shop/orders/"


def status_text(orders: World) -> str:
    (status,) = table_statuses(orders.plan().tables, lambda _: orders.log(), orders.clock(), 180)
    assert status.health is Health.BROKEN
    return status.to_do


def commands(remedy: str) -> list[str]:
    """The commands of a remedy that end it, in order."""
    return re.findall(r"cdclake [a-z]+(?: [a-z]+ shop\.orders)?", remedy)


def test_a_lost_change_log_has_one_remedy_which_works(orders: World) -> None:
    lose(orders, CONTROL)
    shown = status_text(orders)
    with pytest.raises(IntegrityError) as refused:
        orders.process()
    assert shown == str(refused.value)
    assert f"Restore what is missing in {LAKE}/{CONTROL} from the bucket's versions" in shown
    assert commands(shown) == ["cdclake tables reset shop.orders", "cdclake run"]
    orders.applied.clear()
    table(orders).reset()
    assert orders.decision().kind is DecisionKind.BOTH
    orders.process()
    assert orders.applied == [CHANGE_1, CHANGE_2]
    now = item(orders)
    assert (now[Attribute.LAST_CHANGE_ID], now[Attribute.LAST_INCREMENTAL_FILE]) == ("2", ORDERS + CHANGE_2)
    assert now[Attribute.LAST_RUN_STATE] == "SUCCEEDED"
    assert orders.decision().kind is DecisionKind.NOTHING_NEW


def test_a_lost_change_log_of_a_table_without_a_full_load_has_the_same_remedy(world: World) -> None:
    world.register()
    for file in (CHANGE_1, CHANGE_2):
        world.put(file)
        world.process()
        world.clock.advance(3600)
    lose(world, CONTROL)
    assert "cdclake tables reset shop.orders" in status_text(world)
    world.applied.clear()
    table(world).reset()
    world.process()
    assert world.applied == [CHANGE_1, CHANGE_2]
    assert world.decision().kind is DecisionKind.NOTHING_NEW


def test_the_newest_record_that_is_lost_alone_has_the_remedy_that_ends_with_a_reset(orders: World) -> None:
    lose(orders, f"{CONTROL}changes/000000000003.json")
    shown = status_text(orders)
    with pytest.raises(IntegrityError) as refused:
        orders.process()
    assert shown == str(refused.value)
    assert "delete that folder" in shown
    with pytest.raises(RefusedChangeError, match=r"The lake has files of shop\.orders") as refused_reset:
        table(orders).reset()
    assert refused_reset.value.details["folder"] == f"{LAKE}/{CONTROL}"
    lose(orders, CONTROL)
    table(orders).reset()
    orders.process()
    assert item(orders)[Attribute.LAST_RUN_STATE] == "SUCCEEDED"


@pytest.mark.parametrize("folder", [CONTROL, f"{LAKE_PREFIX}shop/orders/", f"{LAKE_PREFIX}_iceberg/shop/orders/"])
def test_a_table_with_files_in_the_lake_is_not_reset(orders: World, folder: str) -> None:
    lose(orders, CONTROL)
    orders.lake.put(f"{folder}x", b"x")
    before = item(orders)
    with pytest.raises(RefusedChangeError, match=f"folder {LAKE}/{folder}"):
        table(orders).reset()
    assert {**item(orders), Attribute.FENCING_TOKEN: ""} == {**before, Attribute.FENCING_TOKEN: ""}


def test_a_reset_forgets_what_was_acknowledged(orders: World) -> None:
    orders.states.set_attributes(ORDERS, {Attribute.ACKNOWLEDGED_CHANGE: "3"})
    lose(orders, CONTROL)
    table(orders).reset()
    assert orders.state().acknowledged_change == 0


def test_a_reset_after_a_dead_run_leaves_it_to_the_next_run_to_fence_that_one(orders: World) -> None:
    orders.states.acquire_lease(ORDERS, "dead", orders.clock(), LEASE_SECONDS)
    lose(orders, CONTROL)
    orders.clock.advance(LEASE_SECONDS + 1)
    table(orders).reset()
    orders.clock.advance(LEASE_SECONDS + 1)
    orders.process()
    kinds = [record.kind for record in orders.log().records(1, orders.log().head())]
    assert kinds[0] is ChangeKind.TAKEOVER
    assert item(orders)[Attribute.LAST_RUN_STATE] == "SUCCEEDED"


def test_once_the_table_is_on_again_the_next_run_applies_the_undone_changes(orders: World) -> None:
    table(orders).rollback()
    orders.states.set_attributes(ORDERS, {Attribute.ACTIVE_FLAG: "true"})
    orders.process()
    assert orders.applied == [CHANGE_1, CHANGE_2, CHANGE_2]
    assert item(orders)[Attribute.LAST_INCREMENTAL_FILE] == ORDERS + CHANGE_2


def test_a_reapply_moves_the_watermark_forward_and_does_not_turn_the_table_on(orders: World) -> None:
    table(orders).rollback(to=1)
    table(orders).reapply()
    assert item(orders)[Attribute.LAST_INCREMENTAL_FILE] == ORDERS + CHANGE_1
    table(orders).reapply()
    now = item(orders)
    assert now[Attribute.LAST_INCREMENTAL_FILE] == ORDERS + CHANGE_2
    assert now[Attribute.ACTIVE_FLAG] == "false"
    orders.states.set_attributes(ORDERS, {Attribute.ACTIVE_FLAG: "true"})
    orders.process()
    assert orders.applied == [CHANGE_1, CHANGE_2]


def test_a_file_that_was_overwritten_while_its_change_was_undone_is_shown_after_a_reapply(orders: World) -> None:
    table(orders).rollback()
    orders.raw.put(ORDERS.partition("/")[2] + CHANGE_2, b"ROWS")
    table(orders).reapply()
    orders.states.set_attributes(ORDERS, {Attribute.ACTIVE_FLAG: "true"})
    assert orders.decision().kind is DecisionKind.RESCAN
    orders.process()
    (status,) = table_statuses(orders.plan().tables, lambda _: orders.log(), orders.clock(), 15)
    assert status.health is Health.INCOMPLETE
    assert any(CHANGE_2 in finding for finding in status.findings)


def test_a_table_rolled_back_to_nothing_is_loaded_from_the_beginning(orders: World) -> None:
    table(orders).rollback(to=0)
    now = item(orders)
    assert now[Attribute.LAST_FULL_LOAD_DATE] == "1900-01-01 00:00:00"
    assert now[Attribute.LAST_INCREMENTAL_FILE] == ORDERS + "0.parquet"
    orders.states.set_attributes(ORDERS, {Attribute.ACTIVE_FLAG: "true"})
    (done,) = orders.process().rounds
    assert done.decision.kind is DecisionKind.BOTH
    assert orders.applied == [CHANGE_1, CHANGE_2, CHANGE_1, CHANGE_2]


def test_where_the_changes_begin_can_be_set_after_a_rollback_to_nothing(orders: World) -> None:
    table(orders).rollback(to=0)
    contained = {Attribute.LAST_INCREMENTAL_FILE: ORDERS + CHANGE_1, Attribute.ACTIVE_FLAG: "true"}
    orders.put("LOAD00000001.parquet")
    orders.states.set_attributes(ORDERS, contained)
    (done,) = orders.process().rounds
    assert (done.decision.kind, done.decision.load_begin) == (DecisionKind.BOTH, CHANGE_1)


def test_a_date_that_was_set_before_a_rollback_to_nothing_skips_no_load(orders: World) -> None:
    orders.states.set_attributes(ORDERS, {Attribute.LAST_FULL_LOAD_DATE: "2024-04-01 00:00:00"})
    orders.process()
    table(orders).rollback(to=0)
    assert item(orders)[Attribute.LAST_FULL_LOAD_DATE] == "1900-01-01 00:00:00"
    orders.states.set_attributes(ORDERS, {Attribute.ACTIVE_FLAG: "true"})
    (done,) = orders.process().rounds
    assert done.decision.kind is DecisionKind.BOTH


def test_the_next_run_finishes_a_rollback_that_died_after_its_commit(orders: World) -> None:
    class DiedError(Exception):
        pass

    def die(*_: object, **__: object) -> TableState:
        raise DiedError

    record_run = orders.states.record_run
    calls: Iterator[Callable[..., TableState | None]] = iter([record_run, die])
    orders.states.record_run = lambda *arguments, **named: next(calls)(*arguments, **named)  # type: ignore[method-assign]
    with pytest.raises(DiedError):
        table(orders).rollback(to=0)
    orders.states.record_run = record_run  # type: ignore[method-assign]
    now = item(orders)
    assert (now[Attribute.ACTIVE_FLAG], now[Attribute.LAST_CHANGE_ID]) == ("false", "3")
    orders.states.set_attributes(ORDERS, {Attribute.ACTIVE_FLAG: "true"})
    orders.process()
    assert orders.applied == [CHANGE_1, CHANGE_2, CHANGE_1, CHANGE_2]


@pytest.mark.parametrize("step", ["rollback", "change"])
def test_the_controller_starts_a_run_for_what_failed_after_its_commit(
    orders: World, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = orders.lake.put

    def fail_after_publishing(key: str, data: bytes) -> None:
        put(key, data)
        if key == orders.log().layout.published_key(4):
            raise RetryableError("No answer", remedy="Run again")

    with monkeypatch.context() as failing, pytest.raises(RetryableError):
        failing.setattr(orders.lake, "put", fail_after_publishing)
        if step == "rollback":
            table(orders).rollback(to=0)
        else:
            table(orders).change(lambda token: take_over(orders.log(), "by-hand", token, "a test", orders.clock))
    assert orders.log().head() == 4
    orders.states.set_attributes(ORDERS, {Attribute.ACTIVE_FLAG: "true"})
    assert orders.decision().kind is DecisionKind.RESCAN
    orders.process()
    assert int(item(orders)[Attribute.LAST_CHANGE_ID]) == orders.log().head() > 4
    assert orders.applied == [CHANGE_1, CHANGE_2] * (2 if step == "rollback" else 1)
    assert orders.decision().kind is DecisionKind.NOTHING_NEW


def test_the_table_is_off_if_a_rollback_dies_right_after_its_commit(
    orders: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_if_absent = orders.lake.put_if_absent

    def put_and_die(key: str, data: bytes) -> bool:
        put_if_absent(key, data)
        raise ZeroDivisionError(key)

    with monkeypatch.context() as dying, pytest.raises(ZeroDivisionError, match="4"):
        dying.setattr(orders.lake, "put_if_absent", put_and_die)
        table(orders).rollback()
    assert orders.log().head() == 4
    assert orders.process().rounds == []
    assert orders.applied == [CHANGE_1, CHANGE_2]


def test_while_a_run_works_on_the_table_nothing_can_be_undone(orders: World) -> None:
    orders.states.acquire_lease(ORDERS, "run-9", orders.clock(), LEASE_SECONDS)
    with pytest.raises(LeaseHeldError, match="run-9"):
        table(orders).rollback()
    assert item(orders)[Attribute.ACTIVE_FLAG] == "true"
    assert orders.log().head() == 3


def test_an_operation_waits_for_a_run_that_ends_soon(orders: World) -> None:
    lease = orders.states.acquire_lease(ORDERS, "run-9", orders.clock(), LEASE_SECONDS)
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            orders.states.release_lease(ORDERS, "run-9", lease.token, even_if_requested=True)

    assert replace(table(orders), lease_wait_seconds=60, sleep=sleep).rollback().change == 4
    assert slept == [1, 1, 1]


def test_an_operation_does_not_wait_for_ever(orders: World) -> None:
    orders.states.acquire_lease(ORDERS, "run-9", orders.clock(), LEASE_SECONDS)
    slept: list[float] = []
    with pytest.raises(LeaseHeldError, match="run-9"):
        replace(table(orders), lease_wait_seconds=60, sleep=slept.append).rollback()
    assert sum(slept) == 60


def test_a_refused_rollback_leaves_the_table_on_and_the_lease_free(orders: World) -> None:
    with pytest.raises(ConfigurationError, match="no change 9"):
        table(orders).rollback(to=9)
    now = item(orders)
    assert now[Attribute.ACTIVE_FLAG] == "true"
    assert Attribute.LEASE_HOLDER not in now


def test_a_rollback_that_takes_over_an_expired_lease_fences_the_paused_run(orders: World) -> None:
    token = orders.states.acquire_lease(ORDERS, "paused", orders.clock(), LEASE_SECONDS).token
    orders.clock.advance(LEASE_SECONDS + 1)
    table(orders).rollback()
    assert [orders.log().record(number).kind for number in (4, 5)] == [ChangeKind.TAKEOVER, ChangeKind.ROLLBACK]
    orders.put(CHANGE_3)
    with pytest.raises(Exception, match="expired"):
        orders.load(JOB_LOAD_INCREMENTAL, orders.log(), orders.state(), token=token)


def test_a_change_is_made_under_the_lease_and_updates_the_item(orders: World) -> None:
    def make(token: int) -> str:
        held = item(orders)
        assert (held[Attribute.LEASE_HOLDER], held[Attribute.FENCING_TOKEN]) == ("by-hand", str(token))
        orders.put(CHANGE_3)
        orders.load(JOB_LOAD_INCREMENTAL, orders.log(), orders.state(), token=token)
        return "made"

    assert table(orders).change(make) == "made"
    now = item(orders)
    assert (now[Attribute.LAST_CHANGE_ID], now[Attribute.ACTIVE_FLAG]) == ("4", "true")
    assert Attribute.LEASE_HOLDER not in now


def test_a_lease_is_renewed_in_the_background(orders: World) -> None:
    lease = Lease.acquire(orders.states, ORDERS, orders.state().name, "by-hand", orders.clock)
    until = item(orders)[Attribute.LEASE_EXPIRES_UTC]
    with renewed_in_background(lambda: (lease,), interval_seconds=0.001):
        orders.clock.advance(RENEW_AFTER_SECONDS)
        assert renewing_threads()
        assert eventually(lambda: item(orders)[Attribute.LEASE_EXPIRES_UTC] > until)
    assert not renewing_threads()
    after = item(orders)[Attribute.LEASE_EXPIRES_UTC]
    orders.clock.advance(RENEW_AFTER_SECONDS)
    time.sleep(0.02)  # twenty intervals
    assert item(orders)[Attribute.LEASE_EXPIRES_UTC] == after


def test_the_renewing_thread_ends_with_work_that_fails(orders: World) -> None:
    lease = Lease.acquire(orders.states, ORDERS, orders.state().name, "by-hand", orders.clock)
    with pytest.raises(ZeroDivisionError), renewed_in_background(lambda: (lease,), interval_seconds=60):
        assert renewing_threads()
        raise ZeroDivisionError
    assert not renewing_threads()


def renewing_threads() -> list[Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "cdclake-lease"]


def test_work_continues_when_its_lease_is_lost(orders: World, caplog: pytest.LogCaptureFixture) -> None:
    lease = Lease.acquire(orders.states, ORDERS, orders.state().name, "by-hand", orders.clock)
    orders.clock.advance(LEASE_SECONDS + 1)
    orders.states.acquire_lease(ORDERS, "run-9", orders.clock(), LEASE_SECONDS)
    with renewed_in_background(lambda: (lease,), interval_seconds=0.001):
        assert eventually(lambda: "lease was lost" in caplog.text)
        time.sleep(0.02)  # twenty intervals
    assert caplog.text.count("lease was lost") == 1
    assert item(orders)[Attribute.LEASE_HOLDER] == "run-9"
    with pytest.raises(LeaseLostError):
        lease.renew_if_due()


def test_an_operation_that_pauses_before_it_writes_the_item_leaves_it_to_who_took_over(
    orders: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = orders.states.record_run

    def pause(path: str, attributes: dict[str, str], lease: tuple[str, int] | None = None) -> TableState | None:
        monkeypatch.undo()
        orders.clock.advance(LEASE_SECONDS + 1)
        table(orders, "another").rollback()
        return write(path, attributes, lease)

    monkeypatch.setattr(
        orders.states, "record_run", lambda path, attributes, lease=None, **_: pause(path, attributes, lease)
    )
    with pytest.raises(LeaseLostError):
        table(orders).change(lambda _: None)
    assert item(orders)[Attribute.LAST_CHANGE_ID] == str(orders.log().head())


@pytest.mark.parametrize("command", ["rollback", "repair"])
def test_a_command_that_pauses_moves_no_files_of_a_change_that_was_committed_meanwhile(
    orders: World, command: str
) -> None:
    """Another one takes over, commits, and dies before it publishes."""
    for number in itertools.count(1):
        world = orders.copy()
        store = PausingStore(world.lake, number, partial(_rewrite_and_die, world), CALLS)
        paused = replace(table(world), log=ChangeLog(cast("ObjectStore", store), world.log().layout))
        with suppress(LeaseLostError, CommitConflictError):
            getattr(paused, command)()
        if store.calls < number:
            break
        log = world.log()
        prefix = log.layout.table_prefix
        visible = {entry.key[len(prefix) :] for entry in world.lake.list(prefix)}
        before, after = ({file.path for file in log.snapshot(one).files} for one in (3, log.head()))
        assert visible >= before or visible >= after, f"{command} paused before call {number}"
    assert number > 10


def _rewrite_and_die(world: World) -> None:
    world.clock.advance(LEASE_SECONDS + 1)
    lake = LakeBuilder(world.log(), world.clock, schema=world.log().snapshot(3).schema)
    lake.token = world.states.acquire_lease(ORDERS, "another", world.clock(), LEASE_SECONDS).token
    take_over(world.log(), "another", lake.token, "the lease expired", world.clock)
    world.log().commit(lake.stage(retired=[file.path for file in world.log().snapshot(3).files]))


def test_foreign_files_stop_a_rollback_until_a_repair(orders: World) -> None:
    layout = LakeLayout(LAKE, LAKE_PREFIX, orders.state().name)
    orders.lake.put(layout.data_key("part-0.parquet"), b"")
    with pytest.raises(LakeFilesError, match=r"cdclake repair shop\.orders"):
        table(orders).rollback()
    assert table(orders).differences().foreign == ("part-0.parquet",)
    assert table(orders).repair().foreign == ("part-0.parquet",)
    assert not table(orders).differences()
    table(orders).rollback()


def test_a_clean_up_takes_the_number_of_an_unfinished_change_before_it_deletes_it(orders: World) -> None:
    log = orders.log()
    orders.lake.put(log.layout.staging_prefix(4, "paused") + "0.parquet", b"")
    table(orders).clean_up(timedelta(days=30))
    assert log.record(4).kind is ChangeKind.TAKEOVER
    assert list(log.store.list(log.layout.staging_folder)) == []
    assert item(orders)[Attribute.LAST_CHANGE_ID] == "4"
    assert item(orders)[Attribute.ACTIVE_FLAG] == "true"
    orders.put(CHANGE_3)
    orders.process()
    assert orders.applied[-1] == CHANGE_3


def test_a_clean_up_keeps_a_full_load_date_that_was_set_back(orders: World) -> None:
    orders.states.set_attributes(ORDERS, {Attribute.LAST_FULL_LOAD_DATE: "1900-01-01 00:00:00"})
    table(orders).clean_up(timedelta(days=30))
    assert item(orders)[Attribute.LAST_FULL_LOAD_DATE] == "1900-01-01 00:00:00"


def test_a_wrong_lake_bucket_is_noticed_before_anything_is_undone(orders: World) -> None:
    orders.states.record_run(ORDERS, {Attribute.LAST_CHANGE_ID: "7"})
    with pytest.raises(IntegrityError, match="has change 7"):
        table(orders).rollback()


def test_an_erasure_that_dies_is_shown_until_one_of_the_same_keys_is_complete(orders: World) -> None:
    log = orders.log()

    def erase(token: int, *, dies: bool) -> None:
        before = log.snapshot(log.head())
        change = before.change + 1
        erased = ErasedKeys(change, "2024-03-05T12:00:00", ("id",), "secret", (), "", "", "")
        commit_erasure(log, before, Replacement(), "eraser", token, orders.clock, erased=[*before.erased, erased])
        if dies:
            raise RetryableError("No answer", remedy="Run again")
        for one in (*before.erased, erased):
            log.store.put(log.layout.erasure_key(one.change), b"{}")

    with pytest.raises(RetryableError):
        table(orders).change(partial(erase, dies=True))
    orders.clock.advance(LEASE_SECONDS + 1)
    orders.process()
    (finding,) = orders.decision().findings
    assert "in the changes 4." in finding
    table(orders).acknowledge()
    assert orders.decision().findings == (finding,)
    orders.process()
    assert orders.decision().findings == (finding,)

    table(orders).change(partial(erase, dies=False))
    assert orders.decision().findings == ()
