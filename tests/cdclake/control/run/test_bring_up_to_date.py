from __future__ import annotations

import json
import logging
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

from cdclake.control.jobs.arguments import parse_paths
from cdclake.control.run.bring_up_to_date import Host
from cdclake.control.run.lease import LEASE_SECONDS
from cdclake.errors import (
    ConfigurationError,
    IntegrityError,
    JobRunError,
    LeaseLostError,
    UnknownTableError,
    UnreadableFileError,
)
from cdclake.model.change.record import ChangeKind
from cdclake.model.names import JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL, JOB_PROCESS_TABLE, Argument
from cdclake.model.table.attributes import Attribute
from cdclake_devkit.memory import MemoryState
from tests.cdclake.control.world import ORDERS, RAW, World

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cdclake.model.table.state import TableState

LOAD = "LOAD00000001.parquet"
CHANGE_1, CHANGE_2, CHANGE_3 = (f"20240305-10000{n}000.parquet" for n in (1, 2, 3))


def outcome(world: World) -> dict[str, str]:
    return {name: value for name, value in world.state().item.items() if name.startswith("Last")}


def test_a_new_table_is_loaded_and_its_changes_applied_in_one_run(world: World):
    world.add_table(LOAD, CHANGE_1)
    report = world.process()
    assert world.loads == [JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL]
    item = world.state().item
    assert item[Attribute.LAST_FULL_LOAD_DATE] == "2024-03-05 10:00:00"
    assert item[Attribute.LAST_INCREMENTAL_FILE] == ORDERS + CHANGE_1
    assert item[Attribute.LAST_CHANGE_ID] == "2"
    assert (item[Attribute.LAST_RUN_STATE], item[Attribute.LAST_RUN_ID]) == ("SUCCEEDED", "run-1")
    assert (item[Attribute.LAST_RUN_UTC], item[Attribute.LAST_ERROR]) == ("2024-03-05T10:00:00Z", "")
    assert world.is_free()
    assert [one.changes for one in report.rounds] == [[1, 2]]


def test_the_error_of_a_spark_job_keeps_its_kind(world: World):
    world.add_table(LOAD)
    world.broken[ORDERS] = UnreadableFileError("not Parquet", remedy="Replace it", file=LOAD)
    with pytest.raises(UnreadableFileError, match=r"not Parquet .*Replace it"):
        world.process()
    item = world.state().item
    assert item[Attribute.LAST_ERROR_CODE] == "UnreadableFileError"
    assert item[Attribute.LAST_ERROR].startswith("UnreadableFileError: not Parquet")
    assert world.loads == []
    world.broken.clear()
    world.process()
    item = world.state().item
    assert (item[Attribute.LAST_ERROR], item[Attribute.LAST_ERROR_CODE]) == ("", "")


def test_a_second_run_without_new_files_starts_nothing(world: World):
    world.add_table(LOAD)
    world.process()
    world.loads.clear()
    report = world.process(run_id="run-2")
    assert world.loads == []
    assert report.rounds[0].decision.kind.value == "nothing new"
    assert world.state().item[Attribute.LAST_RUN_ID] == "run-2"


def test_no_incremental_after_a_failed_full_load(world: World):
    world.add_table(LOAD, CHANGE_1)
    world.failures[JOB_LOAD_INITIAL] = "SchemaMismatchError: Column a is gone. Reload the table"
    with pytest.raises(JobRunError, match="Column a is gone"):
        world.process()
    assert world.loads == []
    item = world.state().item
    assert item[Attribute.LAST_RUN_STATE] == "FAILED"
    assert "Column a is gone. Reload the table" in item[Attribute.LAST_ERROR]
    assert item[Attribute.LAST_FULL_LOAD_DATE] == "1900-01-01 00:00:00"
    assert world.is_free()


def test_a_successful_full_load_is_kept_when_the_incremental_fails(world: World):
    world.add_table(LOAD, CHANGE_1)
    world.failures[JOB_LOAD_INCREMENTAL] = "boom"
    with pytest.raises(JobRunError):
        world.process()
    assert world.state().item[Attribute.LAST_CHANGE_ID] == "1"
    world.failures.clear()
    world.process()
    assert world.loads == [JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL]


def test_after_a_reload_the_incremental_takes_only_files_that_the_full_load_does_not_cover(world: World):
    world.add_table(LOAD)
    world.process()
    world.put(CHANGE_1)
    world.clock.advance(60)
    world.put(LOAD)
    world.clock.advance(60)
    world.put(CHANGE_2)
    world.loads.clear()
    world.process()
    assert world.loads == [JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL]
    assert world.applied == [CHANGE_2]


def test_changes_written_since_a_full_load_began_are_applied_again_when_more_load_files_arrive(world: World):
    world.add_table(LOAD)
    world.clock.advance(60)
    world.put(CHANGE_1)
    world.process()
    assert world.state().item[Attribute.LAST_INCREMENTAL_FILE] == ORDERS + CHANGE_1
    world.clock.advance(60)
    world.put("LOAD00000002.parquet")
    world.loads.clear()
    world.process()
    assert world.loads == [JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL]
    assert world.applied == [CHANGE_1] * 2
    assert world.state().item[Attribute.LAST_INCREMENTAL_FILE] == ORDERS + CHANGE_1


@pytest.mark.parametrize("published", [True, False])
def test_the_next_run_finishes_a_run_that_died_between_commit_and_state_before_it_plans(world: World, published: bool):
    world.add_table(LOAD)
    world.process()
    world.put(CHANGE_1)
    world.load(JOB_LOAD_INCREMENTAL, world.log(), world.state(), and_publish=published)
    world.loads.clear()
    report = world.process(run_id="run-2")
    assert world.loads == []
    assert world.state().item[Attribute.LAST_INCREMENTAL_FILE] == ORDERS + CHANGE_1
    assert world.state().item[Attribute.LAST_CHANGE_ID] == "2"
    assert report.rounds[0].changes == [2]
    assert world.log().is_published(2)


def test_a_busy_table_is_skipped_and_the_mark_stays_for_the_holder(world: World):
    world.add_table(LOAD)
    token = world.states.acquire_lease(ORDERS, "other", world.clock(), 300).token
    world.states.request_work(ORDERS, world.clock(), 900)
    before = world.state().item
    assert world.process().outcome.startswith("busy: leased by other until 2024-03-05T10:05:00Z")
    assert world.state().item == before
    assert not world.states.release_lease(ORDERS, "other", token, even_if_requested=False)


def test_an_inactive_table_is_skipped(world: World):
    world.add_table(LOAD, ActiveFlag="false")
    world.states.request_work(ORDERS, world.clock(), 900)
    assert world.process().outcome == "inactive"
    assert world.loads == []
    assert Attribute.WORK_REQUESTED_UTC not in world.state().item


def test_a_table_turned_off_during_a_run_gets_no_further_round(world: World):
    world.add_table(LOAD)

    def turn_off_and_trigger() -> None:
        world.states.set_attributes(ORDERS, {Attribute.ACTIVE_FLAG: "false"})
        world.deliver(CHANGE_1)

    world.during_job = turn_off_and_trigger
    report = world.process()
    assert world.loads == [JOB_LOAD_INITIAL]
    assert [one.decision.kind.value for one in report.rounds] == ["full load", "inactive"]
    assert world.is_free()


def test_settings_are_read_from_the_table_and_not_from_the_argument(world: World):
    world.add_table(LOAD, PrimaryKey="id")
    world.states.set_attributes(ORDERS, {Attribute.PRIMARY_KEY: "id,line"})
    world.process()
    assert world.log().snapshot(1).primary_key == ("id", "line")


def test_an_unknown_table_is_an_error(world: World):
    with pytest.raises(UnknownTableError, match="shop/orders"):
        world.process()


@pytest.mark.parametrize("hook", ["after_job", "after_listing"])
def test_a_trigger_during_a_run_leads_to_a_second_round(world: World, hook: str):
    world.add_table(CHANGE_1)
    arrivals = iter([CHANGE_2])
    setattr(world if hook == "after_job" else world.raw, hook, lambda: world.deliver(*arrivals))
    assert [one.decision.new_watermark for one in world.process().rounds] == [CHANGE_1, CHANGE_2]
    assert world.state().item[Attribute.LAST_INCREMENTAL_FILE] == ORDERS + CHANGE_2
    assert world.is_free()
    assert Attribute.WORK_REQUESTED_UTC not in world.state().item


def test_a_table_that_always_has_more_work_is_handed_over_to_a_new_run(world: World):
    world.register()
    names = iter(f"20240305-1000{n:02d}000.parquet" for n in range(60))
    world.put(next(names))
    world.after_job = lambda: world.deliver(next(names))
    report = world.process(host=Host(max_rounds=2))
    assert (len(report.rounds), report.outcome) == (2, "handed on")
    last = world.jobs.started[-1]
    assert (last.job, last.run_id) == (JOB_PROCESS_TABLE, report.follow_up)
    assert parse_paths(last.arguments[Argument.PATHS]) == [ORDERS]
    assert world.is_free()


def test_a_new_run_that_cannot_be_started_leaves_no_mark(world: World):
    world.add_table(CHANGE_1)
    world.after_job = lambda: world.deliver(CHANGE_2)

    def refuse(job: str, arguments: object) -> None:
        if job == JOB_PROCESS_TABLE:
            raise JobRunError("Glue has no room for another run now")

    world.before_start = refuse
    with pytest.raises(JobRunError, match="no room"):
        world.process(host=Host(max_rounds=1))
    assert Attribute.WORK_REQUESTED_UTC not in world.state().item
    assert world.is_free()


def test_a_lost_lease_ends_the_run_and_leaves_the_item_to_the_new_holder(world: World):
    world.add_table(LOAD)

    def take_too_long() -> None:  # the process was frozen
        world.clock.advance(LEASE_SECONDS + 1)
        world.states.acquire_lease(ORDERS, "other", world.clock(), 300)

    world.during_job = take_too_long
    with pytest.raises(LeaseLostError, match=r"shop\.orders"):
        world.process()
    item = world.state().item
    assert item[Attribute.LEASE_HOLDER] == "other"
    assert Attribute.LAST_RUN_STATE not in item


def expired_lease(world: World) -> int:
    """The token of a run that paused after it took the lease of a loaded table with a new change."""
    world.add_table(LOAD)
    world.process(run_id="first")
    token = world.states.acquire_lease(ORDERS, "paused", world.clock(), LEASE_SECONDS).token
    world.put(CHANGE_1)
    world.clock.advance(LEASE_SECONDS + 1)
    return token


def test_a_takeover_of_an_expired_lease_fences_the_job_of_the_earlier_run(world: World):
    token = expired_lease(world)
    report = world.process(run_id="second")
    kinds = [world.log().record(number).kind for number in (1, 2, 3)]
    assert kinds == [ChangeKind.FULL_LOAD, ChangeKind.TAKEOVER, ChangeKind.INCREMENTAL]
    assert report.rounds[0].changes == [2, 3]
    assert world.log().record(3).fencing_token == token + 1
    assert "paused" in world.log().record(2).reason
    world.put(CHANGE_2)
    with pytest.raises(LeaseLostError, match="expired"):  # the job of the paused run begins only now
        world.load(JOB_LOAD_INCREMENTAL, world.log(), world.state(), token=token)
    assert world.log().head() == 3


def test_a_takeover_whose_first_answer_was_lost_fences_all_the_same(world: World):
    token = expired_lease(world)
    world.states.acquire_lease(ORDERS, "second", world.clock(), LEASE_SECONDS)  # the answer is lost
    world.process(run_id="second")
    assert world.log().record(2).kind == ChangeKind.TAKEOVER
    assert "answer was lost" in world.log().record(2).reason
    world.put(CHANGE_2)
    with pytest.raises(LeaseLostError, match="expired"):
        world.load(JOB_LOAD_INCREMENTAL, world.log(), world.state(), token=token)


def test_a_takeover_before_the_first_change_keeps_the_items_watermark(world: World):
    world.register(LastIncrementalFile=ORDERS + CHANGE_1)
    world.states.acquire_lease(ORDERS, "paused", world.clock(), LEASE_SECONDS)
    world.clock.advance(LEASE_SECONDS + 1)
    world.put(CHANGE_1, CHANGE_2)
    world.process()
    assert world.applied == [CHANGE_2]
    assert world.log().head() == 2


def test_a_mark_set_during_a_failed_run_stays(world: World):
    world.add_table(LOAD)
    world.failures[JOB_LOAD_INITIAL] = "boom"
    requested = []
    world.during_job = lambda: requested.append(world.states.request_work(ORDERS, world.clock(), 900).is_new)
    with pytest.raises(JobRunError):
        world.process()
    assert requested[0]
    assert world.is_free()
    assert Attribute.WORK_REQUESTED_UTC in world.state().item


def test_a_job_that_succeeds_without_doing_its_work_is_an_error(world: World):
    world.add_table(CHANGE_1)
    world.load = lambda *_, **__: None  # type: ignore[method-assign]  # a job that does nothing
    with pytest.raises(JobRunError, match="lake lacks"):
        world.process()
    assert world.state().item[Attribute.LAST_RUN_STATE] == "FAILED"


@pytest.mark.parametrize(
    "attributes", [{"LastChangeId": "7"}, {"LastFullLoadDate": "2024-03-05 10:00:00"}], ids=["change", "full load"]
)
def test_an_item_ahead_of_the_lake_stops_the_table(world: World, attributes: dict[str, str]):
    world.add_table(CHANGE_1, **attributes)
    with pytest.raises(IntegrityError, match="Check the lake bucket"):
        world.process()
    assert world.loads == []
    assert world.is_free()


def test_a_reload_whose_run_died_before_the_item_was_written_is_not_repeated(world: World):
    world.add_table(LOAD)
    world.process()
    world.states.set_attributes(ORDERS, {Attribute.LAST_FULL_LOAD_DATE: "1900-01-01 00:00:00"})
    world.load(JOB_LOAD_INITIAL, world.log(), world.state())
    world.loads.clear()
    world.process()
    assert world.loads == []
    assert world.state().item[Attribute.LAST_FULL_LOAD_DATE] == "2024-03-05 10:00:00"


def test_a_reload_requested_during_an_incremental_is_not_lost(world: World):
    world.add_table(LOAD)
    world.process()
    world.clock.advance(60)
    world.put(CHANGE_1)
    again = {Attribute.LAST_FULL_LOAD_DATE: "1900-01-01 00:00:00"}
    world.during_job = lambda: world.states.set_attributes(ORDERS, again)
    world.process()
    world.during_job = lambda: None
    assert world.state().item[Attribute.LAST_FULL_LOAD_DATE] == "1900-01-01 00:00:00"
    world.process()
    assert world.loads == [JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL] * 2
    assert world.state().item[Attribute.LAST_FULL_LOAD_DATE] == "2024-03-05 10:00:00"


def test_a_watermark_set_right_before_the_item_is_written_stays(world: World):
    world.add_table(CHANGE_1)
    world.put(CHANGE_2)
    record, by_hand = world.states.record_run, {Attribute.LAST_INCREMENTAL_FILE: ORDERS + CHANGE_1}

    def after_the_operator(path: str, attributes: Mapping[str, str], *arguments: Any, **more: Any) -> TableState | None:
        if attributes.get(Attribute.LAST_INCREMENTAL_FILE) == ORDERS + CHANGE_2:
            world.states.set_attributes(ORDERS, by_hand)
        return record(path, attributes, *arguments, **more)

    world.states.record_run = after_the_operator  # type: ignore[method-assign]
    with pytest.raises(ConfigurationError, match="LastIncrementalFile was set to"):
        world.process()
    assert world.state().item.items() >= {**by_hand, Attribute.LAST_CHANGE_ID: "1"}.items()


def test_a_late_file_is_applied_and_the_watermark_stays(world: World):
    world.add_table(CHANGE_1, CHANGE_3)
    world.process()
    world.put(CHANGE_2)
    assert world.process().rounds[0].decision.reason == f"1 change file arrived late: {CHANGE_2}"
    assert world.applied == [CHANGE_1, CHANGE_3, CHANGE_2]
    assert world.state().item[Attribute.LAST_INCREMENTAL_FILE] == ORDERS + CHANGE_3
    assert world.state().item[Attribute.LAST_CHANGE_ID] == "2"


def test_a_job_that_does_not_apply_a_late_file_is_an_error(world: World):
    world.add_table(CHANGE_2)
    world.process()
    world.put(CHANGE_1)
    world.load = lambda *_, **__: None  # type: ignore[method-assign]  # a job that does nothing
    with pytest.raises(JobRunError, match=f"should have loaded: 1 change file arrived late: {CHANGE_1}"):
        world.process()


def test_files_delivered_in_any_order_and_again_are_applied_once_each(world: World):
    world.register()
    for names in ([CHANGE_3], [CHANGE_1, CHANGE_3], [], [CHANGE_2, CHANGE_1], [CHANGE_2]):
        world.put(*names)
        world.process()
        world.clock.advance(60)
    assert world.applied == [CHANGE_3, CHANGE_1, CHANGE_2]


def test_a_successful_run_records_when_it_began_to_list_and_a_failed_one_does_not(world: World):
    world.add_table(LOAD)
    world.after_job = lambda: world.clock.advance(60)
    world.process()
    assert world.clock() > datetime(2024, 3, 5, 10, tzinfo=timezone.utc)
    assert world.state().seen.listed_utc == datetime(2024, 3, 5, 10, tzinfo=timezone.utc)
    world.put(CHANGE_1)
    world.failures[JOB_LOAD_INCREMENTAL] = "boom"
    with pytest.raises(JobRunError):
        world.process()
    assert world.state().seen.listed_utc == datetime(2024, 3, 5, 10, tzinfo=timezone.utc)


def test_a_file_that_arrives_too_late_is_logged_by_every_run_until_it_is_gone(
    world: World, caplog: pytest.LogCaptureFixture
):
    too_late = "20240301-000000000.parquet"
    world.add_table(CHANGE_1)
    world.process()
    world.clock.advance(60)
    world.put(too_late)
    world.clock.advance(60)
    first, second = world.process().rounds[0].decision, world.process().rounds[0].decision
    assert (first.work, first.too_late, second.too_late) == (False, 1, 1)
    world.raw.delete([f"dms/shop/orders/{too_late}"])
    assert world.process().rounds[0].decision.too_late == 0
    assert [record.levelname for record in caplog.records if record.levelno >= logging.WARNING] == ["WARNING"] * 2
    assert world.applied == [CHANGE_1]


@pytest.mark.parametrize("moved", [CHANGE_1, CHANGE_3, "0.parquet"])
def test_a_watermark_that_was_set_by_hand_is_refused_and_kept(world: World, moved: str):
    world.add_table(CHANGE_1, CHANGE_2)
    world.process()
    world.states.set_attributes(ORDERS, {Attribute.LAST_INCREMENTAL_FILE: ORDERS + moved})
    with pytest.raises(ConfigurationError, match=f"was set to {ORDERS}{moved}, but the lake table contains"):
        world.process()
    assert world.state().item[Attribute.LAST_INCREMENTAL_FILE] == ORDERS + moved
    assert moved in world.state().item[Attribute.LAST_ERROR]
    world.states.set_attributes(ORDERS, {Attribute.LAST_INCREMENTAL_FILE: ORDERS + CHANGE_2})
    assert not world.process().rounds[0].decision.work


def test_transaction_files_are_applied_and_recorded_by_their_own_keys(world: World):
    world.add_table(LOAD, CdcPath="cdc/txn")
    names = [f"CDC_TXN-2024030510000{number}000.csv" for number in (1, 2)]
    for name in names:
        world.raw.put(f"dms/cdc/txn/{name}", b"rows")
        world.process()
    assert world.applied == names
    assert world.state().item[Attribute.LAST_INCREMENTAL_FILE] == f"{RAW}/dms/cdc/txn/{names[1]}"
    world.loads.clear()
    world.process()
    assert world.loads == []


def test_a_table_may_have_its_own_change_files_besides_transaction_files(world: World):
    world.register(CdcPath="cdc")
    world.raw.put("dms/cdc/CDC_TXN-20240305100002000.csv", b"rows")
    world.put(CHANGE_1, CHANGE_3)
    world.process()
    assert world.applied == [CHANGE_1, "CDC_TXN-20240305100002000.csv", CHANGE_3]
    assert world.state().item[Attribute.LAST_INCREMENTAL_FILE] == ORDERS + CHANGE_3


def test_the_item_holds_the_whole_error(world: World):
    world.add_table(LOAD)
    error_text = f"BadRowError: Op is X (file {'a' * 9000}.csv, row 7). Correct it"
    world.failures[JOB_LOAD_INITIAL] = error_text
    with pytest.raises(JobRunError):
        world.process()
    assert error_text in world.state().item[Attribute.LAST_ERROR]


def test_the_state_table_can_be_rebuilt_from_the_lake(world: World):
    world.add_table(LOAD, CHANGE_1)
    world.process()
    before = outcome(world)
    world.states = MemoryState()
    world.register()
    world.loads.clear()
    world.process()
    assert world.loads == []
    assert outcome(world) == before


def test_the_report_can_be_written_as_json(world: World):
    world.add_table(LOAD)
    printed = json.loads(json.dumps(world.process().to_json()))
    assert (printed["table"], printed["outcome"], printed["follow_up"]) == ("shop.orders", "done", "")
    (only,) = printed["rounds"]
    assert only["decision"]["kind"] == "full load"
    assert only["loads"] == [JOB_LOAD_INITIAL]
    assert only["changes"] == [1]
