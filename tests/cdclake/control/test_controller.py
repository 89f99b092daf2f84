from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from cdclake.control.controller import execute, plan
from cdclake.control.jobs.arguments import parse_paths
from cdclake.control.plan.decision import DecisionKind
from cdclake.control.plan.packing import PackLimits
from cdclake.control.plan.planned_table import Action
from cdclake.control.status import Health, table_statuses
from cdclake.errors import ConfigurationError, JobRunError, UnknownTableError, UnreadableFileError
from cdclake.model.names import JOB_PROCESS_TABLE, Argument
from cdclake.model.table.attributes import Attribute
from tests.cdclake.control.world import ORDERS, RAW, World, seen

if TYPE_CHECKING:
    from collections.abc import Mapping


ITEMS = f"{RAW}/dms/shop/items/"
CHANGE, LATER = "20240305-100001000.parquet", "20240305-100002000.parquet"


def test_a_new_table_is_registered_inactive_and_not_started(world: World):
    world.put("LOAD00000001.parquet")
    assert world.run_controller().tables[0].outcome == "registered"
    assert world.state().item[Attribute.ACTIVE_FLAG] == "false"
    assert world.state().item[Attribute.LAST_INCREMENTAL_FILE] == f"{ORDERS}0.parquet"
    assert world.jobs.started == []


def test_planning_changes_nothing(world: World):
    world.put("LOAD00000001.parquet")
    world.put(CHANGE, path=ITEMS)
    before = world.register(ITEMS).item
    world.plan()
    assert world.states.get(ORDERS) is None
    assert world.state(ITEMS).item == before
    assert world.jobs.started == []


def test_settings_are_never_overwritten(world: World):
    world.put(CHANGE)
    item = world.register(PrimaryKey="id", ActiveFlag="false", Schema="id int").item
    world.run_controller()
    world.run_controller()
    assert world.state().item == item


def test_a_table_registered_between_plan_and_execution_keeps_its_item(world: World):
    world.put(CHANGE)
    planned = world.plan()
    item = world.register(PrimaryKey="id").item
    assert world.execute(planned).tables[0].outcome == "registered meanwhile"
    assert world.state().item == item


def test_one_run_is_started_for_an_active_table_with_work_and_names_it(world: World):
    world.put(CHANGE)
    world.register(PrimaryKey="id")
    summary = world.run_controller()
    (start,) = world.jobs.started
    assert start.job == JOB_PROCESS_TABLE
    assert json.loads(start.arguments[Argument.PATHS]) == [ORDERS]
    assert (summary.tables[0].outcome, summary.tables[0].run_id) == ("started", start.run_id)
    assert not summary.failed
    printed = summary.to_json()
    assert (printed["error"], printed["not_started"]) == ("", "")


def test_an_active_table_without_work_starts_no_run(world: World):
    world.put(CHANGE)
    world.register(LastIncrementalFile=ORDERS + CHANGE, LastSeen=seen("2024-03-05T10:00:01Z"))
    world.run_controller()
    assert world.jobs.started == []


def test_a_change_file_that_may_be_late_starts_one_run(world: World):
    world.put(LATER)
    world.register()
    world.process()
    world.clock.advance(60)
    assert not world.decision().work
    world.put(CHANGE)
    assert world.decision().reason == f"1 change file may have arrived late: {CHANGE}"
    assert world.run_controller().tables[0].outcome == "started"
    world.clock.advance(60)
    world.process()
    assert world.applied == [LATER, CHANGE]
    assert not world.decision().work


def test_a_file_delivered_again_starts_one_run_and_is_not_applied_again(world: World):
    world.put(CHANGE, LATER)
    world.register()
    world.process()
    world.clock.advance(60)
    world.put(CHANGE)
    assert world.run_controller().tables[0].outcome == "started"
    world.clock.advance(60)
    assert world.process().rounds[0].decision.kind.value == "nothing new"
    assert world.applied == [CHANGE, LATER]
    assert not world.decision().work


def test_a_folder_of_transaction_files_is_listed_once_for_all_tables_that_share_it(world: World):
    for number in range(20):
        world.register(f"{RAW}/dms/shop/t{number:02d}/", CdcPath="cdc/txn")
    world.register(f"{RAW}/dms/shop/other/", CdcPath="cdc/other")
    world.register(ITEMS)
    world.raw.put("dms/cdc/txn/CDC_TXN-20240305100001000.csv", b"rows")
    tables = world.plan().tables
    kinds = {table.state.name.table: table.decision.kind.value for table in tables if table.decision}
    assert len(kinds) == 22
    assert (kinds["t00"], kinds["t19"]) == ("incremental", "incremental")
    assert (kinds["other"], kinds["items"]) == ("nothing new", "nothing new")
    assert world.raw.listed.count("dms/cdc/txn/CDC_TXN-") == 1


def test_a_cdc_path_without_any_file_is_a_finding_a_day_after_the_full_load(world: World):
    world.add_table("LOAD00000001.csv", CdcPath="cdcc")
    world.add_table("LOAD00000001.csv", path=ITEMS, CdcPath="cdc")
    world.raw.put("dms/cdc/CDC_TXN-20240305100001000.csv", b"rows")
    assert world.process().rounds[0].decision.findings == ()
    assert world.process(ITEMS).rounds[0].decision.findings == ()
    world.clock.advance(86_400)
    findings = {table.state.path: table.decision.findings for table in world.plan().tables if table.decision}
    (finding,) = findings.pop(ORDERS)
    assert f"{RAW}/dms/cdcc/ holds no transaction file" in finding
    assert "cdclake tables set shop.orders --set 'CdcPath=<folder>'" in finding
    assert findings == {ITEMS: ()}


def test_a_cdc_path_without_any_file_is_no_finding_before_the_full_load(world: World):
    world.add_table(CdcPath="cdc")
    world.clock.advance(86_400)
    assert [table.decision.findings for table in world.plan().tables if table.decision] == [()]


def test_a_cdc_path_whose_files_are_all_gone_is_no_finding(world: World):
    world.add_table("LOAD00000001.csv", CdcPath="cdc")
    world.raw.put("dms/cdc/CDC_TXN-20240305100001000.csv", b"rows")
    world.process()
    world.raw.delete(["dms/cdc/CDC_TXN-20240305100001000.csv"])
    world.clock.advance(86_400)
    assert [table.decision.findings for table in world.plan().tables if table.decision] == [()]


def test_raw_files_of_no_table_are_findings_of_plan_and_run_but_not_of_single_tables(world: World):
    world.add_table("LOAD00000001.csv")
    world.raw.put("dms/shop/LOAD00000001.csv", b"rows")
    (finding,) = world.plan().findings
    assert "dms/shop/ not read" in finding
    assert world.plan().to_json()["findings"] == world.run_controller().to_json()["findings"] == [finding]
    assert world.plan(["shop.orders"]).findings == ()


def test_a_folder_of_transaction_files_is_never_a_table(world: World):
    world.put(CHANGE)
    for number in range(9):
        world.raw.put(f"dms/cdc/txn/CDC_TXN-2024030510000{number}000.csv", b"rows")
    assert [table.state.path for table in world.plan().tables] == [ORDERS]
    world.register(ITEMS, CdcPath="/cdc/txn/")
    world.raw.listed.clear()
    assert [table.state.path for table in world.plan().tables] == [ITEMS, ORDERS]
    assert "dms/cdc/txn/" not in world.raw.listed


def test_invalid_settings_of_one_table_do_not_affect_others_with_shared_transaction_files(world: World):
    world.raw.put("dms/cdc/CDC_TXN-20240305100001000.csv", b"rows")
    world.put("LOAD00000001.csv")
    world.register(CdcPath="cdc", LateWindowHours="long")
    world.register(ITEMS, CdcPath="cdc")
    items, orders = world.plan().tables
    assert items.action is Action.START
    assert "LateWindowHours" in orders.error_text


def test_execution_does_exactly_what_the_plan_prints(world: World):
    for number in range(30):
        path = f"{RAW}/dms/shop/t{number:02d}/"
        world.put(CHANGE, path=path)
        if number % 3:
            world.register(path, ActiveFlag="true" if number % 3 == 1 else "false")
    planned = world.plan()
    printed = json.loads(json.dumps(planned.to_json()))["tables"]
    world.execute(planned)
    (pack,) = world.jobs.started
    started = parse_paths(pack.arguments[Argument.PATHS])
    assert started == [table["path"] for table in printed if table["action"] == "start"]
    registered = [table["path"] for table in printed if table["action"] == "register"]
    assert len(started) == len(registered) == 10
    assert all(world.states.get(path) for path in registered)


def test_a_table_that_cannot_be_planned_or_started_does_not_stop_the_others(world: World):
    for name in ("bad", "full", "good", "odd"):
        world.put("LOAD00000001.csv", path=f"{RAW}/dms/shop/{name}/")
    world.put("20240305-096500000.csv", path=f"{RAW}/dms/shop/late/")
    world.register(f"{RAW}/dms/shop/late/")
    world.register(f"{RAW}/dms/shop/bad/", LastFullLoadDate="yesterday")
    for name in ("full", "good", "odd"):
        world.register(f"{RAW}/dms/shop/{name}/")

    def refuse_full(job: str, arguments: Mapping[str, str]) -> None:
        if "shop/full/" in arguments[Argument.PATHS]:
            raise JobRunError("Glue refused the run", remedy="Run again")

    world.before_start = refuse_full
    todo = world.plan()
    summary = world.execute(todo, PackLimits(tables=1))
    outcomes = {table.planned.state.name.table: table.outcome for table in summary.tables}
    assert outcomes == {"bad": "", "full": "", "good": "started", "late": "", "odd": "started"}
    kinds = [type(table.error) for table in summary.failed]
    assert kinds == [ConfigurationError, JobRunError, UnreadableFileError]
    printed = json.loads(json.dumps(summary.to_json()))
    assert "3 of 5 tables failed: shop.bad, shop.full, shop.late" in printed["error"]
    assert Attribute.WORK_REQUESTED_UTC not in world.state(f"{RAW}/dms/shop/full/").item


@pytest.mark.parametrize("schema", ["_cdclake", "_iceberg"])
@pytest.mark.parametrize("attributes", [None, {}, {"ActiveFlag": "false", "LastChangeId": "3"}])
def test_a_schema_with_the_name_of_a_folder_of_the_lake_is_refused(
    world: World, schema: str, attributes: dict[str, str] | None
):
    """Its folder in the lake would contain the files of other tables."""
    path = f"{RAW}/dms/{schema}/shop/"
    world.put("LOAD00000001.parquet", path=path)
    world.add_table("LOAD00000001.parquet")
    if attributes is not None:
        world.register(path, **attributes)
    before = world.states.get(path)
    planned = world.plan()
    (status, other) = table_statuses(planned.tables, world.log_of, world.clock(), 180)
    assert (status.table, status.health) == (f"{schema}.shop", Health.BROKEN)
    assert "Let a DMS mapping rule rename the schema" in status.to_do
    assert other.health is not Health.BROKEN
    summary = world.execute(planned)
    assert summary.failed
    assert world.states.get(path) == before
    assert [start.arguments[Argument.PATHS].count(schema) for start in world.jobs.started] == [0]


def test_a_run_refuses_a_schema_with_the_name_of_a_folder_of_the_lake(world: World):
    path = f"{RAW}/dms/_iceberg/shop/"
    world.put("LOAD00000001.parquet", path=path)
    world.register(path)
    with pytest.raises(ConfigurationError, match="a folder that cdclake keeps for itself"):
        world.process(path)
    assert list(world.lake.list("")) == []
    assert world.is_free(path)


def test_a_run_can_be_limited_to_some_tables(world: World):
    world.put(CHANGE)
    world.put(CHANGE, path=ITEMS)
    world.put("readme.txt", path=f"{RAW}/dms/shop/notes/")
    assert [table.state.path for table in world.plan().tables] == [ITEMS, ORDERS]
    planned = world.plan(["shop.items"])
    assert [table.state.path for table in planned.tables] == [ITEMS]


def test_an_unknown_table_name_is_an_error_and_nothing_is_done(world: World):
    world.put(CHANGE)
    with pytest.raises(UnknownTableError, match=r"shop\.itmes"):
        world.run_controller(["shop.orders", "shop.itmes"])
    assert world.states.get(ORDERS) is None


def test_while_a_run_holds_the_lease_no_second_is_started_and_the_first_gets_the_mark(world: World):
    world.put(CHANGE)
    world.register()
    token = world.states.acquire_lease(ORDERS, "other", world.clock(), 300).token
    (planned,) = world.plan().tables
    assert planned.action is Action.ASK
    assert world.run_controller().tables[0].outcome == "busy"
    assert world.jobs.started == []
    assert not world.states.release_lease(ORDERS, "other", token, even_if_requested=False)


def test_a_table_without_work_whose_run_died_gets_a_run_once_the_lease_expires(world: World):
    world.add_table(CHANGE)
    world.process()
    world.clock.advance(60)
    world.states.record_run(ORDERS, {Attribute.LAST_RUN_STATE: "FAILED", Attribute.LAST_ERROR: "of the run before"})
    world.states.acquire_lease(ORDERS, "dead", world.clock(), 300)
    assert world.decision().kind is DecisionKind.NOTHING_NEW
    world.clock.advance(301)
    decision = world.decision()
    assert (decision.kind, decision.work) == (DecisionKind.RESCAN, True)
    assert "run dead did not release its lease" in decision.reason
    world.process(run_id="run-2")
    item = world.state().item
    assert (item[Attribute.LAST_RUN_STATE], item[Attribute.LAST_ERROR]) == ("SUCCEEDED", "")
    assert world.decision().kind is DecisionKind.NOTHING_NEW


def test_a_new_table_gets_the_common_settings_and_stays_inactive(world: World):
    world.put("LOAD00000001.csv")
    source = replace(world.plan_inputs, new_table={"CsvDelimiter": "|"})
    execute(plan(source, world.clock()), world.states, world.jobs, world.clock)
    assert world.state().item["CsvDelimiter"] == "|"
    assert not world.state().active


def test_a_new_table_reports_the_action_needed(world: World):
    world.put("LOAD00000001.csv")
    (planned,) = world.plan().tables
    table = {name: str(value) for name, value in planned.to_json().items()}
    assert table["reason"] == "the table is new"
    assert "tables set shop.orders" in table["to_do"]
    assert "tables activate shop.orders" in table["to_do"]


def test_a_raw_location_cleared_by_a_restarted_task_is_no_error(world: World):
    world.register(LastFullLoadDate="2024-03-05 09:00:00", LastChangeId="3")
    assert world.decision().reason == "there are no raw files"
