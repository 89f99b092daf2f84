"""Lineage: which events a change has, judged by the client of OpenLineage, and when runs tell them."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from openlineage.client import event_v2, facet_v2
from openlineage.client.serde import Serde

from cdclake.control.run.lineage import MAX_LOCATIONS, lineage_events
from cdclake.control.run.table_item import MAX_CHANGES_MEASURED
from cdclake.model.change.books import Books
from cdclake.model.change.record import ChangeKind, RawFileRows, StagedFile
from cdclake.model.names import JOB_LOAD_INCREMENTAL
from cdclake.model.schema import Column, Schema
from cdclake.model.snapshot import Snapshot
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState
from tests.builders import LAYOUT, change_record
from tests.cdclake.control.world import ORDERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cdclake.control.run.lineage import Event
    from cdclake.model.change.record import ChangeRecord
    from tests.cdclake.control.world import World

STATE = TableState({Attribute.PATH: "raw/dms/shop/orders/", Attribute.CDC_PATH: "cdc"})
SNAPSHOT = Snapshot(3, Schema((Column("id", "bigint"), Column("price", "decimal(10,2)"))))
BOOKS = Books(read_insert=2, read_update=1, applied=3, inserted=2, updated=1, rows_after=2)
FILES = (RawFileRows("20240305-101500000.csv", 2), RawFileRows("CDC_TXN-20240305101600000.csv", 1))


def record(**fields: Any) -> ChangeRecord:
    made = {"books": BOOKS, "raw_files": FILES, "added": (StagedFile("key", "a.parquet"),), "bytes_added": 900}
    return change_record(3, **{**made, "seconds": {"read": 2.0, "write": 1.5}, **fields})


def events(**fields: Any) -> list[Event]:
    return lineage_events(record(**fields), SNAPSHOT, LAYOUT, STATE)


def test_the_events_are_those_that_the_client_of_openlineage_writes() -> None:
    start, end = events()
    event_v2.set_producer(start["producer"])
    run = event_v2.Run(end["run"]["runId"], end["run"]["facets"])
    job = event_v2.Job("s3://lake", "cdclake.shop.orders")
    locations = [
        "s3://raw/dms/shop/orders/20240305-101500000.csv",
        "s3://raw/dms/cdc/CDC_TXN-20240305101600000.csv",
    ]
    condition = facet_v2.base_subset_dataset.LocationSubsetCondition(locations)
    read = event_v2.InputDataset(
        "s3://raw",
        "dms/shop/orders",
        inputFacets={
            "inputStatistics": facet_v2.input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
                rowCount=3, fileCount=2
            ),
            "subset": facet_v2.base_subset_dataset.InputSubsetInputDatasetFacet(condition),
        },
    )
    field = facet_v2.schema_dataset.SchemaDatasetFacetFields
    columns = [field("id", "bigint", fields=None), field("price", "decimal(10,2)", fields=None)]
    written = event_v2.OutputDataset(
        "s3://lake",
        "shop/orders",
        facets={
            "schema": facet_v2.schema_dataset.SchemaDatasetFacet(columns),
            "version": facet_v2.dataset_version_dataset.DatasetVersionDatasetFacet("3"),
        },
        outputFacets={
            "outputStatistics": facet_v2.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(3, 900, 1)
        },
    )
    made: dict[str, Any] = {"run": run, "job": job}
    expected = [
        event_v2.RunEvent(eventTime="2024-03-05T09:59:56.500000+00:00", eventType=event_v2.RunState.START, **made),
        event_v2.RunEvent(
            eventTime="2024-03-05T10:00:00+00:00",
            eventType=event_v2.RunState.COMPLETE,
            inputs=[read],
            outputs=[written],
            **made,
        ),
    ]
    assert [without_empty(event) for event in (start, end)] == [without_empty(Serde.to_dict(one)) for one in expected]


def without_empty(value: Any) -> Any:
    """The same without empty lists and objects, which mean nothing in an event; the client writes some."""
    if isinstance(value, dict):
        return {name: left for name, one in value.items() if (left := without_empty(one)) not in ({}, [])}
    return [without_empty(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("kind", "raw_files", "inputs"),
    [
        (ChangeKind.FULL_LOAD, (RawFileRows("LOAD00000001.csv", 3),), 1),
        (ChangeKind.RELEASE, FILES, 1),
        (ChangeKind.DIRECT, FILES, 0),
        (ChangeKind.ERASURE, (RawFileRows("LOAD00000001.csv"),), 0),
        (ChangeKind.ROLLBACK, (), 0),
    ],
)
def test_only_raw_files_that_were_applied_are_inputs(kind: ChangeKind, raw_files: Any, inputs: int) -> None:
    _, end = events(kind=kind, raw_files=raw_files)
    assert len(end["inputs"]) == inputs
    assert end["run"]["facets"]["cdclake_change"]["kind"] == kind.value


def test_a_takeover_is_no_change_of_the_table() -> None:
    assert events(kind=ChangeKind.TAKEOVER) == []


def test_each_change_is_a_run_of_its_own_also_after_a_reset_of_the_table() -> None:
    ids = [events(**fields)[0]["run"]["runId"] for fields in ({}, {"created_utc": "2025-01-01T00:00:00+00:00"})]
    assert len({*ids, lineage_events(change_record(4), SNAPSHOT, LAYOUT, STATE)[0]["run"]["runId"]}) == 3
    assert events() == events()


def test_the_names_of_very_many_files_are_left_to_the_change_record() -> None:
    most = tuple(RawFileRows(f"20240305-{i:09d}.parquet", 1) for i in range(MAX_LOCATIONS))
    for files, facets in ((most, {"inputStatistics", "subset"}), ((*most, FILES[0]), {"inputStatistics"})):
        _, end = events(raw_files=files)
        (read,) = end["inputs"]
        assert read["inputFacets"].keys() == facets
        assert read["inputFacets"]["inputStatistics"]["fileCount"] == len(files)
        assert len(json.dumps(end)) < 256_000


class Endpoint:
    """A sink that takes events while it is up."""

    def __init__(self) -> None:
        self.up = True
        self.taken: list[tuple[str, int]] = []

    def send(self, events: Sequence[Mapping[str, Any]]) -> bool:
        if self.up:
            self.taken += [(one["eventType"], one["run"]["facets"]["cdclake_change"]["change"]) for one in events]
        return self.up

    @property
    def changes(self) -> list[int]:
        """The changes told, each of which must have a start before its end."""
        starts, ends = self.taken[::2], self.taken[1::2]
        assert [("START", number) for _, number in ends] == starts
        assert {kind for kind, _ in ends} <= {"COMPLETE"}
        return [number for _, number in ends]


@pytest.fixture
def endpoint(world: World) -> Endpoint:
    world.lineage = found = Endpoint()
    return found


def deliver(world: World, *minutes: int) -> None:
    """Process one change file a minute, each in a run of its own."""
    for minute in minutes:
        world.put(f"20240305-10{minute:02d}00000.parquet")
        world.process()


def test_a_run_logs_and_sends_the_lineage_of_each_change_once(
    world: World, endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    world.add_table("LOAD00000001.parquet", "20240305-100100000.parquet")
    world.process()
    deliver(world, 2)
    world.process()
    assert endpoint.changes == [1, 2, 3]
    logged = [vars(line)["openlineage"] for line in caplog.records if line.message == "lineage"]
    told = [(one["eventType"], one["run"]["facets"]["cdclake_change"]["change"]) for one in logged]
    assert told == endpoint.taken[1::2]


def test_the_next_run_tells_what_an_operator_changed(world: World, endpoint: Endpoint) -> None:
    world.add_table("LOAD00000001.parquet")
    world.process()
    world.put("20240305-100100000.parquet")
    world.load(JOB_LOAD_INCREMENTAL, world.log(), world.state())
    world.states.record_run(ORDERS, {Attribute.LAST_CHANGE_ID: "2"})  # as the command does after a rollback
    world.process()
    assert endpoint.changes == [1, 2]


def test_a_run_succeeds_without_the_endpoint_and_later_ones_send_what_it_missed(
    world: World, endpoint: Endpoint
) -> None:
    world.add_table("LOAD00000001.parquet")
    world.process()
    endpoint.up = False
    deliver(world, 1, 2)
    assert world.state().item[Attribute.LAST_RUN_STATE] == "SUCCEEDED"
    endpoint.up = True
    deliver(world, 3)
    assert endpoint.changes == [1, 2, 3, 4]


def test_an_item_that_was_lost_tells_only_the_last_changes(world: World, endpoint: Endpoint) -> None:
    endpoint.up = False
    world.add_table("LOAD00000001.parquet")
    world.process()
    deliver(world, *range(1, MAX_CHANGES_MEASURED + 5))
    endpoint.up = True
    world.process()
    assert endpoint.changes == list(range(6, MAX_CHANGES_MEASURED + 6))
