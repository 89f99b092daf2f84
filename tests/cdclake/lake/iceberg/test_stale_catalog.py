"""While the catalog shows an earlier change, clean-ups and erasures keep what its entries need."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Callable

import pyarrow as pa
import pytest

from cdclake.adapters import aws as aws_clients
from cdclake.adapters.catalog import GlueCatalog
from cdclake.adapters.stores import open_store
from cdclake.control.admin.table_admin import RegisteredTable
from cdclake.control.run.bring_up_to_date import bring_up_to_date
from cdclake.errors import RetryableError
from cdclake.lake.operations.erase.erase import erase
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState
from cdclake.ports import Ports
from cdclake_devkit.memory import MemoryJobs, MemoryMetrics, MemoryState
from tests.cdclake.lake.iceberg.readers import glue_reader
from tests.cdclake.lake.operations.erase.erasable_table import ErasableTable, objects_containing
from tests.cdclake.lake.over_time import START, versioned_bucket

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

pytestmark = pytest.mark.aws
COLUMNS = pa.schema([("id", pa.int64()), ("city", pa.string()), ("name", pa.string())])
DATABASE, PATH = "lake_tables", "raw/shop/orders/"
FAR_AHEAD = timedelta(days=10_000)
"""The bucket's clock is the real one, and tables are loaded at `START`. So then everything is past retention."""
SECRET = "Wilhelmina"


def row(number: int, city: str, name: str = "a name") -> dict[str, Any]:
    return {"id": number, "city": city, "name": name}


@pytest.fixture(params=["iceberg", "both"])
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[ErasableTable]:
    with versioned_bucket(monkeypatch, "lake"):
        item = {"PrimaryKey": "id", "PartitionKey": "city", "Readers": request.param, "History": "true"}
        table = ErasableTable(tmp_path, COLUMNS, item, bucket="lake")
        aws_clients.client("glue").create_database(DatabaseInput={"Name": DATABASE})
        table.load([row(1, "Kiel"), row(2, "Ulm", SECRET)])
        yield table


@pytest.fixture
def states(table: ErasableTable) -> MemoryState:
    """The state table, after a run has shown the table in the catalog."""
    item = {**table.item, Attribute.ACTIVE_FLAG: "true", Attribute.FULL_LOAD_QUIET_MINUTES: "0"}
    states = MemoryState([TableState.new("raw", "shop/", "orders/").with_attributes(**item)])
    process(table, states, START)
    return states


def catalog(database: str = DATABASE) -> GlueCatalog:
    return GlueCatalog(aws_clients.client("glue"), database)


def shown() -> dict[str, list[int]]:
    """Ids of the rows in each Iceberg table of the catalog."""
    names = metadata_locations()
    reader = glue_reader()
    found = {name: reader.load_table(f"{DATABASE}.{name}").scan().to_arrow() for name in names}
    return {name: sorted(rows["id"].to_pylist()) for name, rows in found.items()}


def metadata_locations() -> dict[str, str]:
    """What the entry of each Iceberg table names."""
    tables = aws_clients.client("glue").get_tables(DatabaseName=DATABASE)["TableList"]
    parameters = {one["Name"]: one["Parameters"] for one in tables}
    return {name: one["metadata_location"] for name, one in parameters.items() if "metadata_location" in one}


def by_hand(table: ErasableTable, states: MemoryState, now: datetime) -> RegisteredTable:
    state = states.get(PATH)
    assert state
    return RegisteredTable(states, state, table.log, "by-hand", lambda: now, catalog)


def clean_up_by_hand(table: ErasableTable, states: MemoryState, now: datetime) -> None:
    by_hand(table, states, now).clean_up(timedelta(0))


def process(table: ErasableTable, states: MemoryState, now: datetime) -> None:
    buckets = {"raw": open_store(table.raw.as_uri()), "lake": open_store("lake")}
    ports = Ports(states, MemoryJobs(), buckets.__getitem__, lambda: now, MemoryMetrics(), catalog=catalog())
    run = bring_up_to_date([PATH], "lake", "", "run", ports, lambda due: pytest.fail(f"{due.job} has nothing to do"))
    assert run.only.outcome == "done"


def refuse(*_: object) -> None:
    raise RetryableError("Glue is busy", remedy="Run again")


@pytest.mark.long
@pytest.mark.sampled(ci=2)
@pytest.mark.parametrize(
    ("table", "clean_up"),
    [("iceberg", clean_up_by_hand), ("iceberg", process), ("both", process), ("both", clean_up_by_hand)],
    indirect=["table"],
)
def test_a_clean_up_keeps_what_stale_entries_need(
    table: ErasableTable,
    states: MemoryState,
    clean_up: Callable[[ErasableTable, MemoryState, datetime], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, old = shown(), metadata_locations()
    assert len(before) == 2
    assert all(ids == [1, 2] for ids in before.values())
    table.apply(("I", row(3, "Bonn")))
    with monkeypatch.context() as patch:
        patch.setattr(GlueCatalog, "update_table", refuse)
        for times in (1, 2, 3):
            clean_up(table, states, START + times * FAR_AHEAD)
            assert "Glue is busy" in item(states)[Attribute.LAST_CATALOG_ERROR]
            assert (metadata_locations(), shown()) == (old, before)
    assert table.log.retained().first == 2
    for times in (4, 5):
        clean_up(table, states, START + times * FAR_AHEAD)
    assert shown() == {name: [1, 2, 3] for name in before}
    assert not [location for location in old.values() if exists(location)], "nothing needs them any more"


@pytest.mark.long
def test_entries_follow_an_erasure_and_it_keeps_what_they_need_until_then(
    table: ErasableTable, states: MemoryState, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.apply(("I", row(3, "Ulm")))
    process(table, states, START)
    before, old = shown(), metadata_locations()
    assert all(ids == [1, 2, 3] for ids in before.values())

    def erase_by_hand() -> None:
        command = by_hand(table, states, START)
        command.change(lambda token: erase(table.erasure("2"), token, command.update_catalog))

    with monkeypatch.context() as patch:
        patch.setattr(GlueCatalog, "update_table", refuse)
        with pytest.raises(RetryableError, match="Glue is busy"):
            erase_by_hand()
        assert metadata_locations() == old
        assert all(map(exists, old.values()))
        if table.item["Readers"] == "iceberg":
            assert shown() == before
    assert objects_containing(table, SECRET)
    erase_by_hand()
    assert shown() == {name: [1, 3] for name in before}
    assert not [location for location in old.values() if exists(location)]
    assert objects_containing(table, SECRET) == {}
    table.apply(("U", row(1, "Rom")))
    process(table, states, START)
    assert shown() == {name: sorted([1, 3, *([1] if "history" in name else [])]) for name in before}


def item(states: MemoryState) -> dict[str, str]:
    state = states.get(PATH)
    assert state
    return dict(state.item)


def exists(location: str) -> bool:
    return open_store("lake").get(location.removeprefix("s3://lake/")) is not None
