"""Which tables share a run, and how the Controller starts it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from benchmarks.packing import EXPECTED_CASE, REQUEST_SECONDS, cost
from hypothesis import given
from hypothesis import strategies as st

from cdclake.control.plan.packing import FULL_SIZE_TABLES_PER_PACK, MAX_PATH_BYTES, DueWork, PackLimits, pack_tables
from cdclake.control.run.lease import LEASE_SECONDS
from cdclake.control.run.metrics import controller_metrics
from cdclake.control.status import Health, table_statuses
from cdclake.errors import ConfigurationError, NoRoomError
from cdclake.model.metrics import Measure
from cdclake.model.names import Argument
from cdclake.model.table.attributes import Attribute
from tests.cdclake.control.world import RAW, World

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cdclake.control.plan.summary import Summary

LIMITS = PackLimits(tables=4, table_files=10, table_bytes=1000)
CHANGE = "20240305-100001000.parquet"


def tables(*names: str, files: int = 1, size: int = 1) -> list[DueWork]:
    return [DueWork(name, files, size) for name in names]


def test_tables_with_little_work_share_a_run_up_to_the_limit():
    assert pack_tables(tables(*"abcdef"), LIMITS) == [["a", "b", "c", "d"], ["e", "f"]]


@pytest.mark.parametrize(
    "large",
    [
        DueWork("large", 11, 1),
        DueWork("large", 1, 1001),
        DueWork("large", 1, 1, left=1),
        DueWork("large", 1, 1, alone=True),
    ],
)
def test_a_table_with_much_work_or_a_backlog_or_at_which_a_run_died_gets_its_own_run_and_does_not_split_a_pack(
    large: DueWork,
):
    assert pack_tables([*tables("a", "b"), large, *tables("c", "d", "e")], LIMITS) == [
        ["a", "b", "c", "d"],
        ["large"],
        ["e"],
    ]


def test_a_pack_holds_no_more_work_than_ten_full_tables():
    limits = LIMITS._replace(tables=99)
    names = [str(number) for number in range(25)]
    for full in (tables(*names, files=10), tables(*names, size=1000)):
        assert [len(pack) for pack in pack_tables(full, limits)] == [
            FULL_SIZE_TABLES_PER_PACK,
            FULL_SIZE_TABLES_PER_PACK,
            5,
        ]


def test_a_pack_with_long_names_fits_into_a_job_argument():
    work = tables(*(f"{number:03d}-{'ü' * 500}" for number in range(200)))
    made = pack_tables(work, PackLimits(tables=1000))
    assert len(made) > 2
    assert max(len(json.dumps(pack, ensure_ascii=False).encode()) for pack in made) <= MAX_PATH_BYTES


def test_packing_can_be_turned_off():
    assert pack_tables(tables(*"abc"), LIMITS._replace(tables=1)) == [["a"], ["b"], ["c"]]


def test_without_work_there_is_no_run():
    assert pack_tables([], LIMITS) == []


@given(st.lists(st.tuples(st.integers(0, 15), st.integers(0, 1500), st.integers(0, 1)), max_size=60))
def test_every_table_is_in_exactly_one_run_and_no_run_is_over_the_limits(sizes: list[tuple[int, int, int]]):
    work = {str(number): DueWork(str(number), *size) for number, size in enumerate(sizes)}
    made = pack_tables(work.values(), LIMITS)
    assert sorted(path for pack in made for path in pack) == sorted(work)
    for pack in made:
        assert pack == sorted(pack, key=int)
        if len(pack) > 1:
            assert len(pack) <= LIMITS.tables
            assert all(work[path].files <= 10 and work[path].bytes <= 1000 and not work[path].left for path in pack)


def test_the_limits_are_arguments_of_the_controller():
    assert PackLimits.from_arguments(PackLimits.defaults()) == PackLimits()
    arguments = {Argument.PACK_TABLES: "3", Argument.PACK_TABLE_FILES: "4", Argument.PACK_TABLE_BYTES: "5"}
    assert PackLimits.from_arguments(arguments) == PackLimits(3, 4, 5)
    for wrong in ("0", "many", "-1", ""):
        with pytest.raises(ConfigurationError, match="pack_table_files"):
            PackLimits.from_arguments({**arguments, Argument.PACK_TABLE_FILES: wrong})


@pytest.mark.slow
def test_packed_small_tables_cost_at_most_an_eighth_in_a_simulated_hour():
    startup_seconds, table_seconds = EXPECTED_CASE
    single = cost(PackLimits(tables=1), startup_seconds, table_seconds, tables=100)
    packed = cost(PackLimits(), startup_seconds, table_seconds, tables=100)
    assert (single["runs"]["spark"], packed["runs"]["spark"]) == (100, 2)
    assert single["dpu_hours"]["spark"] == pytest.approx(100 * 2 * 60 / 3600, abs=0.001)  # at least a minute
    requests_seconds = 40 * REQUEST_SECONDS  # of a table, before and after its load
    assert packed["dpu_hours"]["spark"] == pytest.approx(2 * 2 * (30 + 50 * (4 + requests_seconds)) / 3600, rel=0.02)
    assert single["dollars"] >= 8 * packed["dollars"]


def waiting_tables(world: World, *names: str) -> list[str]:
    paths = [f"{RAW}/dms/shop/{name}/" for name in names]
    for path in paths:
        world.add_table(CHANGE, path=path)
    return paths


def start(world: World, limits: PackLimits = LIMITS) -> Summary:
    return world.run_controller(limits=limits)


def test_the_controller_starts_one_run_for_a_pack_and_reports_its_id_for_each_table(world: World):
    paths = waiting_tables(world, *"abcde")
    summary = start(world)
    packed, single = world.jobs.started
    assert json.loads(packed.arguments[Argument.PATHS]) == paths[:4]
    assert json.loads(single.arguments[Argument.PATHS]) == paths[4:]
    assert [(one.outcome, one.run_id) for one in summary.tables] == [
        *[("started", packed.run_id)] * 4,
        ("started", single.run_id),
    ]


def test_a_table_that_became_busy_after_the_plan_is_left_out_of_its_pack(world: World):
    paths = waiting_tables(world, *"abc")
    todo = world.plan()
    world.states.acquire_lease(paths[1], "other", world.clock(), LEASE_SECONDS)
    assert [one.outcome for one in world.execute(todo, LIMITS).tables] == ["started", "busy", "started"]
    assert json.loads(world.jobs.started[0].arguments[Argument.PATHS]) == [paths[0], paths[2]]


def test_a_pack_without_room_is_reported_for_each_table_and_the_others_start(world: World):
    paths = waiting_tables(world, *"abcdefgh")

    def no_room_for_the_first(_job: str, arguments: Mapping[str, str]) -> None:
        if paths[0] in arguments.get(Argument.PATHS, ""):
            raise NoRoomError("Glue has no room for another run now", remedy="Run again")

    world.before_start = no_room_for_the_first
    summary = start(world)
    assert [one.outcome for one in summary.tables] == ["not started"] * 4 + ["started"] * 4
    assert (summary.failed, summary.to_json()["error"]) == ([], "")
    line = str(summary.to_json()["not_started"])
    assert "4 of 8 tables; the next run starts them: shop.a, shop.b, shop.c, shop.d" in line
    assert line.endswith("Glue has no room for another run now. Run again")
    assert all(Attribute.WORK_REQUESTED_UTC not in world.state(path).item for path in paths[:4])
    measured = controller_metrics(summary.tables, world.clock())
    assert [metric.value for metric in measured if metric.measure is Measure.NOT_STARTED] == [4]
    assert not [metric for metric in measured if metric.measure is Measure.FAILURES]
    statuses = table_statuses(world.plan().tables[:4], world.log_of, world.clock(), late_after_minutes=180)
    assert [status.health for status in statuses] == [Health.BEHIND] * 4
    world.before_start = lambda _job, _arguments: None
    assert [one.outcome for one in start(world).tables[:4]] == ["started"] * 4  # the next run starts them
