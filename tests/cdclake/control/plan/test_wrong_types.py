"""Attributes of wrong types, as the console of DynamoDB lets anyone write them, stop their own table alone."""

from __future__ import annotations

from typing import Any

import pytest

from cdclake.adapters.dynamodb import _to_text
from cdclake.control.status import Health, table_statuses
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState
from cdclake_devkit.memory import ManualClock, MemoryState
from tests.cdclake.control.world import RAW, World

NAMES = sorted(value for name, value in vars(Attribute).items() if name.isupper() and value != Attribute.PATH)
BAD, GOOD = f"{RAW}/dms/shop/bad/", f"{RAW}/dms/shop/good/"
LOAD, CHANGES = "LOAD00000001.parquet", [f"20240305-1000{n:02}000.parquet" for n in range(3)]
REPLACED = {Attribute.LEASE_HOLDER, Attribute.LEASE_EXPIRES_UTC, Attribute.WORK_REQUESTED_UTC}
"""The next run replaces them."""
SCALARS: list[Any] = [{"N": "5"}, {"N": "-1.5"}, {"BOOL": True}, {"BOOL": False}, {"NULL": True}, {"S": ""}, {"S": "²"}]
OTHERS: list[Any] = [{"L": [{"S": "id"}]}, {"M": {"a": {"S": "b"}}}, {"SS": ["id"]}, {"NS": ["1"]}, {"B": b"id"}]


@pytest.fixture(scope="module")
def history() -> World:
    """Two tables with a history."""
    world = World(ManualClock())
    for path in (BAD, GOOD):
        world.add_table(LOAD, path=path, PrimaryKey="id")
    world.process_all(BAD, GOOD)
    for path in (BAD, GOOD):
        world.put(CHANGES[0], path=path)
    world.clock.advance(3600)
    world.process_all(BAD, GOOD)
    world.clock.advance(3600)
    return world


@pytest.fixture
def two(history: World) -> World:
    return history.copy()


def break_item(world: World, name: str, value: Any) -> None:
    items = {state.path: dict(state.item) for state in world.states.all()}
    items[BAD][name] = _to_text(value)
    world.states = MemoryState(map(TableState, items.values()))
    for path in (BAD, GOOD):
        world.put(CHANGES[1], path=path)


@pytest.mark.sampled(quick=60, test=200, ci=400)
@pytest.mark.parametrize("value", [*SCALARS, *OTHERS], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_plan_status_and_run_of_the_other_table_go_on(two: World, name: str, value: Any) -> None:
    break_item(two, name, value)
    planned = two.plan()
    good = next(table for table in planned.tables if table.state.path == GOOD)
    assert good.decision
    assert good.decision.incremental
    statuses = {one.path: one for one in table_statuses(planned.tables, two.log_of, two.clock(), 600)}
    assert statuses[GOOD].health is Health.BEHIND
    two.run_controller()
    report = two.process_all(BAD, GOOD)
    outcomes = {one.table: one.failure for one in report.tables}
    assert outcomes["shop.good"] is None
    assert two.log(GOOD).head() == 3
    broken = next(table for table in planned.tables if table.state.path == BAD)
    for error in (broken.error, outcomes.get("shop.bad")):
        assert error is None or (name in str(error) and "shop.bad" in f"{error} {statuses[BAD].table}")


@pytest.mark.sampled(quick=30, test=100, ci=200)
@pytest.mark.parametrize("value", OTHERS, ids=str)
@pytest.mark.parametrize("name", sorted({*NAMES} - REPLACED))
def test_a_value_that_is_no_text_is_named_with_its_table(two: World, name: str, value: Any) -> None:
    break_item(two, name, value)
    table = next(table for table in two.plan().tables if table.state.path == BAD)
    assert f"{name} is " in table.error_text
    assert "table shop.bad" in table.error_text
    (status,) = table_statuses([table], two.log_of, two.clock(), 600)
    assert (status.health, status.to_do) == (Health.BROKEN, table.error_text)


@pytest.mark.parametrize("value", [*SCALARS, *OTHERS], ids=str)
@pytest.mark.parametrize("name", sorted(REPLACED))
def test_the_attributes_of_a_lease_are_replaced_whatever_they_are(two: World, name: str, value: Any) -> None:
    break_item(two, name, value)
    two.run_controller()
    assert two.process_all(BAD, GOOD).to_json()["error"] == ""
    assert two.log(BAD).head() >= 3
    assert REPLACED.isdisjoint(two.state(BAD).item)


def test_attributes_of_operators_own_may_have_any_type(two: World) -> None:
    break_item(two, "Tags", {"L": [{"S": "ours"}]})
    assert [table.error for table in two.plan().tables] == [None, None]


@pytest.mark.parametrize("bucket", ["other", "raw", f"{RAW}/dms/shop/bad/and/more"])
def test_a_bucket_that_is_not_that_of_the_path_is_named(two: World, bucket: str) -> None:
    break_item(two, Attribute.BUCKET, {"S": bucket})
    table = next(table for table in two.plan().tables if table.state.path == BAD)
    assert f"bucket is '{bucket}', but the table's path begins with {RAW}/" in table.error_text
    assert str(table.state.name) == "shop.bad"
