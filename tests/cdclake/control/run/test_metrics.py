"""The metrics of the jobs."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from cdclake.control.plan.decision import Decision, DecisionKind
from cdclake.control.run import metrics
from cdclake.errors import JobRunError
from cdclake.model.change.books import Books
from cdclake.model.change.delay import Delay
from cdclake.model.metrics import Measure, Metric
from cdclake.model.names import JOB_LOAD_INCREMENTAL
from cdclake.model.table.state import TableState
from tests.builders import change_record
from tests.cdclake.control.world import RAW, World

if TYPE_CHECKING:
    from cdclake.model.change.record import ChangeRecord

NOW = datetime(2024, 3, 5, 10, tzinfo=timezone.utc)
CHANGE = "20240305-100000000.parquet"
TABLE = "shop.orders"
STATE = TableState.new(RAW, "dms/shop/", "orders/")
BOUND = STATE.with_attributes(MaxDelayMinutes="10")


def values(taken: list[Metric]) -> dict[str, list[float]]:
    """Values by name of the measure, with the operation behind it."""
    by_name: dict[str, list[float]] = {}
    for metric in taken:
        by_name.setdefault(metric.measure.title + metric.op, []).append(metric.value)
    return by_name


def record(number: int, books: Books, retired: int) -> ChangeRecord:
    files = tuple(f"{number}-{one}.parquet" for one in range(retired))
    return change_record(number, books=books, retired=files)


def test_lag_is_the_age_of_the_oldest_due_file_and_the_number_of_due_files():
    decision = Decision(DecisionKind.INCREMENTAL, "", files=3, oldest_utc=NOW - timedelta(minutes=2))
    assert metrics.lag_metrics(STATE, decision, NOW) == [
        Metric(Measure.LAG_SECONDS, 120, TABLE),
        Metric(Measure.LAG_FILES, 3, TABLE),
    ]


def test_a_table_without_due_files_has_no_lag_and_no_metric_of_its_own():
    assert metrics.lag_metrics(STATE, Decision(DecisionKind.NOTHING_NEW, ""), NOW) == [
        Metric(Measure.LAG_SECONDS, 0),
        Metric(Measure.LAG_FILES, 0),
    ]


def test_a_full_load_that_is_still_arriving_does_not_count_as_lag():
    decision = Decision(DecisionKind.WAITING, "", left=3, oldest_utc=NOW - timedelta(hours=5))
    assert [metric.value for metric in metrics.lag_metrics(BOUND, decision, NOW)] == [0, 0]


def test_a_clock_behind_s3_makes_no_negative_lag():
    decision = Decision(DecisionKind.INCREMENTAL, "", files=1, oldest_utc=NOW + timedelta(seconds=1))
    assert metrics.lag_seconds(decision, NOW) == 0


def test_rows_of_changes_are_summed_by_operation():
    made = [
        record(1, Books(read_insert=5, read_update=2, read_delete=1, quarantined=1), retired=2),
        record(2, Books(read_insert=1, quarantined=3), retired=1),
    ]
    assert values(metrics.change_metrics(STATE, made, [])) == {
        "RowsI": [6],
        "RowsU": [2],
        "RowsD": [1],
        "FilesRewritten": [3],
        "QuarantinedRows": [4],
    }
    assert metrics.change_metrics(STATE, [], []) == []


def test_a_raw_file_that_waits_longer_than_the_bound_of_its_table_is_a_failure():
    for minutes, failures in ((10, []), (11, [1])):
        decision = Decision(DecisionKind.BUSY, "", files=1, oldest_utc=NOW - timedelta(minutes=minutes))
        assert values(metrics.lag_metrics(BOUND, decision, NOW)).get("Failures", []) == failures
        delay = Delay(NOW, 60 * minutes, 0)
        measured = values(metrics.change_metrics(BOUND, [change_record()], [delay]))
        assert (measured["DelaySeconds"], measured.get("Failures", [])) == ([60 * minutes], failures)
        for taken in (
            metrics.lag_metrics(STATE, decision, NOW),
            metrics.change_metrics(STATE, [change_record()], [delay]),
        ):
            assert "Failures" not in values(taken)


def test_a_successful_run_measures_lag_changes_duration_and_no_failure(world: World):
    world.add_table("LOAD00000001.parquet", CHANGE)
    world.clock.advance(60)
    world.during_job = lambda: world.clock.advance(30)
    world.process()
    measured = values(world.metrics.metrics)
    assert (measured["LagSeconds"], measured["LagFiles"]) == ([60], [2])
    assert len(measured["RowsI"]) == 2  # a full load and an incremental
    assert measured["Failures"] == [0]
    assert measured["DurationSeconds"] == [60]
    assert {metric.table for metric in world.metrics.metrics} == {TABLE}


def test_a_failed_run_measures_the_failure_and_the_changes_before_it(world: World):
    world.add_table("LOAD00000001.parquet", CHANGE)
    world.failures[JOB_LOAD_INCREMENTAL] = "BadRowError: no such Op"
    with pytest.raises(JobRunError):
        world.process()
    measured = values(world.metrics.metrics)
    assert measured["Failures"] == [1]
    assert measured["RowsI"] == [0]
    world.failures.clear()
    world.process()
    assert values(world.metrics.metrics)["Failures"] == [1, 0]
    assert len(values(world.metrics.metrics)["RowsI"]) == 2  # the full load is not measured of again


def test_the_controller_measures_the_lag_of_active_tables_and_failures(world: World):
    world.register()
    world.register(f"{RAW}/dms/shop/idle/")
    world.register(f"{RAW}/dms/shop/off/", ActiveFlag="false")
    world.register(f"{RAW}/dms/shop/broken/", LateWindowHours="many")
    world.put(CHANGE)
    world.put(CHANGE, path=f"{RAW}/dms/shop/off/")
    world.clock.advance(3600)
    measured = metrics.controller_metrics(world.run_controller().tables, world.clock())
    assert {(metric.measure.title, metric.value, metric.table) for metric in measured} == {
        ("Tables", 3, ""),
        ("FrozenTables", 0, ""),
        ("LagSeconds", 3600, TABLE),
        ("LagFiles", 1, TABLE),
        ("LagSeconds", 0, ""),
        ("LagFiles", 0, ""),
        ("Failures", 1, "shop.broken"),
    }
    more = metrics.controller_metrics([], world.clock(), 2)
    assert [(metric.value, metric.table) for metric in more if metric.measure.title == "Failures"] == [(2, "")]
