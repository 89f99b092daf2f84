"""A table is incomplete until an operator has dealt with what it lacks, and with what changed at its source."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdclake.commit.report import change_summaries
from cdclake.control.status import Health
from cdclake.errors import CommitConflictError
from cdclake.lake.operations.erase.erase import Erasure, erase
from cdclake.lake.operations.erase.progress import Progress
from cdclake.lake.operations.release import release
from cdclake.lake.read.as_of import TableLocation
from cdclake.lake.read.key_filter import RowKeys
from cdclake.model.layout import LakeLayout
from cdclake.model.metrics import Measure
from cdclake.model.table.attributes import Attribute
from tests.builders import LAKE, RAW, table_run
from tests.e2e.orders import PATH, PREFIX, Orders, after, change_name

if TYPE_CHECKING:
    from pathlib import Path

BAD = "I,3,three\nI,four,four\n"
NARROW, WIDE = "id tinyint, name string", "id int, name string"


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    orders = Orders(tmp_path, MaxQuarantinedRows="5")
    assert orders.run().health is Health.UP_TO_DATE
    return orders


def release_rows(orders: Orders, *names: str) -> dict[str, Any]:
    """Apply quarantined rows, as `cdclake quarantine release` does."""
    root, item = orders.installation.root, orders.installation.state(PATH).item
    layout = LakeLayout(LAKE, "", orders.installation.state(PATH).name)

    def commit(token: int) -> dict[str, Any]:
        run = table_run(root / RAW, root / LAKE, PREFIX, layout, item, fencing_token=token, clock=orders.clock)
        return release(run, names)

    return orders.by_hand().change(commit)


def test_rows_of_an_erased_key_that_arrive_late_are_a_finding_until_it_is_acknowledged(orders: Orders):
    orders.put(change_name(after(minutes=70)), "D,1,one\n")
    orders.run()
    one, root = orders.installation, orders.installation.root
    log = one.log(PATH)
    lake = log.snapshot(log.head())
    erasure = Erasure(
        location=TableLocation.at((root / LAKE).as_uri(), "shop.orders"),
        log=log,
        keys=RowKeys.parse(["1"], lake.primary_key, lake.schema),
        raw=None,
        run_id="erasure",
        reason="request",
        made_by="the officer",
        clock=orders.clock,
        progress=Progress(),
    )
    orders.by_hand().change(lambda token: erase(erasure, token))
    orders.put(change_name(after(minutes=65)), "U,1,one again\nU,2,late\n")
    status = orders.run()
    assert status.health is Health.INCOMPLETE
    assert "rows left out because their keys were erased after them: 1" in status.findings[0]
    assert orders.rows() == {2: "late"}
    assert next(change_summaries(log, log.head() - 1)).suppressed == 1
    orders.by_hand().acknowledge(orders.by_hand().to_acknowledge())
    assert orders.run().health is Health.UP_TO_DATE
    orders.put(change_name(orders.clock()), "I,1,a customer again\n")
    assert orders.run().findings == ()
    assert orders.rows() == {1: "a customer again", 2: "late"}


def put_columns(orders: Orders, minutes: float, **columns: object) -> None:
    """Write a Parquet change file with one insert of these values."""
    name = f"{after(minutes=minutes):%Y%m%d-%H%M%S}000.parquet"
    table = pa.table({"Op": ["I"], **{column: [value] for column, value in columns.items()}})
    pq.write_table(
        table.set_column(1, "id", table["id"].cast(pa.int32())), orders.installation.root / RAW / PREFIX / name
    )
    orders.touch(name)


def test_a_table_with_quarantined_rows_is_incomplete_until_they_are_released(orders: Orders):
    orders.set(Schema=NARROW)
    orders.set(LastFullLoadDate="1900-01-01 00:00:00")
    orders.run(minutes=180)
    file = change_name(after(hours=4))
    orders.put(file, "I,3,three\nI,400,four hundred\n")
    status = orders.run()
    assert (status.health, set(orders.rows())) == (Health.INCOMPLETE, {1, 2, 3})
    assert status.to_do.startswith("quarantined rows that the table lacks: 1. See cdclake quarantine show shop.orders")
    orders.put(change_name(after(hours=6)), "U,1,uno\n")
    assert orders.run().health is Health.INCOMPLETE
    orders.set(Schema=WIDE)
    release_rows(orders, file)
    assert orders.rows()[400] == "four hundred"
    assert orders.status().health is Health.UP_TO_DATE


def test_a_file_that_is_corrected_and_released_is_overwritten_until_acknowledged(orders: Orders):
    file = change_name(after(hours=1))
    orders.put(file, BAD)
    orders.run()
    orders.put(file, BAD.replace("four,", "4,"))
    assert [text.split(" (")[0] for text in orders.run().findings] == [
        "1 change file",
        "quarantined rows that the table lacks: 1. See cdclake quarantine show shop.orders; release them after a"
        " correction, or do without them: cdclake tables acknowledge shop.orders",
    ]
    release_rows(orders, file)
    assert orders.rows()[4] == "four"
    for status in (orders.status(), orders.run()):  # other rows of the file may have changed too
        assert [text.split(" (")[0] for text in status.findings] == ["1 change file"]
    orders.by_hand().acknowledge()
    for status in (orders.status(), orders.run()):
        assert (status.health, status.findings) == (Health.UP_TO_DATE, ())


def test_a_reload_replaces_quarantined_rows(orders: Orders):
    orders.put(change_name(after(hours=1)), BAD)
    orders.run()
    orders.put("LOAD00000001.csv", "1,one\n4,four\n")
    assert orders.run().health is Health.UP_TO_DATE


def test_acknowledged_rows_stay_releasable_and_new_ones_make_the_table_incomplete_again(orders: Orders):
    file = change_name(after(hours=1))
    orders.put(file, BAD)
    orders.run()
    orders.by_hand().acknowledge()
    assert (orders.attribute(Attribute.ACKNOWLEDGED_CHANGE), orders.status().health) == ("2", Health.UP_TO_DATE)
    orders.put(change_name(after(hours=2)), "I,five,five\nI,six,six\n")
    assert "the table lacks: 2." in orders.run().to_do
    assert release_rows(orders, file)["books"]["quarantined"] == 1


def test_an_acknowledgement_of_something_else_changes_nothing(orders: Orders):
    orders.put(change_name(after(hours=1)), BAD)
    orders.run()
    agreed = orders.by_hand().to_acknowledge()
    orders.put(change_name(after(hours=2)), "I,five,five\n")
    orders.run()
    with pytest.raises(CommitConflictError):
        orders.by_hand().acknowledge(agreed)
    assert orders.status().health is Health.INCOMPLETE


def test_files_that_arrive_too_late_make_the_table_incomplete_until_acknowledged(orders: Orders):
    orders.put(change_name(after(hours=1)), "U,1,uno\n")
    orders.run()
    too_late = change_name(after(hours=1) - timedelta(days=9))
    orders.put(too_late, "U,1,old\n")
    orders.put(change_name(after(hours=2)), "U,2,due\n")
    status = orders.run()
    assert status.health is Health.INCOMPLETE
    assert f"1 change file ({too_late}) too late, so not applied. " in status.to_do
    assert orders.run().findings == status.findings
    orders.by_hand().acknowledge()
    assert orders.run().health is Health.UP_TO_DATE


def test_drift_is_applied_and_measured_by_default(orders: Orders):
    put_columns(orders, 60, id=3, name="three", note="new")
    assert orders.run().health is Health.UP_TO_DATE
    assert [one.value for one in orders.installation.metrics.metrics if one.measure is Measure.COLUMN_CHANGES] == [1]


def test_drift_under_warn_is_applied_and_makes_the_table_incomplete_until_acknowledged(orders: Orders):
    orders.set(SchemaPolicy="warn")
    put_columns(orders, 60, id=3, name="three", note="new")
    status = orders.run()
    assert (status.health, set(orders.rows())) == (Health.INCOMPLETE, {1, 2, 3})
    assert status.to_do.startswith("columns changed at the source: note string added (change 2). Check the readers")
    put_columns(orders, 120, id=4, name="four", note="new")
    assert orders.run().findings == status.findings
    orders.by_hand().acknowledge()
    assert orders.status().health is Health.UP_TO_DATE


def test_drift_under_freeze_stops_the_table_until_acknowledged(orders: Orders):
    orders.set(SchemaPolicy="freeze")
    put_columns(orders, 60, id=3, name="three", note="new")
    status = orders.run()
    assert (status.health, set(orders.rows())) == (Health.FAILED, {1, 2})
    assert orders.attribute(Attribute.LAST_ERROR_CODE) == "SchemaDriftError"
    assert "columns note string added" in status.error
    assert orders.by_hand().to_acknowledge().accepts == "note string added"
    orders.by_hand().acknowledge()
    assert (orders.run().health, set(orders.rows())) == (Health.UP_TO_DATE, {1, 2, 3})
    put_columns(orders, 240, id=4, name="four")
    status = orders.run(minutes=300)
    assert "columns note string dropped" in status.error
