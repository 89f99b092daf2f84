"""An erasure leaves no value of the rows in the Iceberg table: in no data file, manifest, manifest list or metadata."""

from __future__ import annotations

import shutil
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdclake.adapters.filesystem import lake_filesystem
from cdclake.commit.clean_up import clean_up, plan_clean_up
from cdclake.commit.erasure import retained_snapshots
from cdclake.commit.roll_forward import roll_forward
from cdclake.commit.table_files import check_files
from cdclake.errors import PastRetentionError, RetryableError
from cdclake.lake.limits import EngineLimits
from cdclake.lake.operations.erase.erase import erase, preview
from cdclake.lake.storage import iceberg_manifests
from tests.cdclake.lake.iceberg.readers import IcebergReaders
from tests.cdclake.lake.operations.erase.erasable_table import (
    COLUMNS,
    SECRET_ID,
    ErasableTable,
    copied,
    disable_compression,
    fill_with_changes,
    objects_containing,
    row,
    secret,
    without,
)
from tests.cdclake.lake.over_time import versioned_bucket
from tests.conftest import COUNTS
from tests.dying_store import Death, DiedError
from tests.tiers import TIER, Tier

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cdclake.model.iceberg.table import IcebergFiles
    from cdclake.model.snapshot import Snapshot

pytestmark = pytest.mark.slow
KEY = str(SECRET_ID)
HOME = "Zyrumpelheim"
"""A partition that only rows to erase have, the last one in order."""
STEP = 1 if TIER is Tier.THOROUGH else 5
"""Every so many calls an erasure dies; an odd number, so that calls take effect and do not."""
VALUES = (SECRET_ID, "Wilhelmina", HOME)
"""Values of the rows; bounds have the first 16 characters."""
Rows = list[dict[str, Any]]


@pytest.fixture(params=["iceberg", "both"])
def readers(request: pytest.FixtureRequest) -> str:
    return str(request.param)


FILLED: dict[Path, tuple[ErasableTable, dict[int, Rows]]] = {}
"""By the folder of a table: a copy of it, filled, and its rows as of each change."""


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("tables")
    yield folder
    shutil.rmtree(folder)
    FILLED.clear()


@pytest.fixture(params=["null", "city"])
def table(tables: Path, readers: str, request: pytest.FixtureRequest) -> Iterator[ErasableTable]:
    table = ErasableTable(tables / f"{readers}-{request.param}", COLUMNS)
    table.item |= {"Readers": readers, "PartitionKey": request.param}
    yield table
    shutil.rmtree(table.root)


def seen(table: ErasableTable, where: str = "true") -> Rows:
    """Rows on which both readers of the Iceberg table agree, ordered by key."""
    rows = IcebergReaders(table.lake, table.layout).rows(where)
    return sorted(rows, key=lambda values: (values["id"], str(values)))


def offered(table: ErasableTable) -> list[int]:
    """Numbers of the changes that readers of the Iceberg table can choose."""
    return [one.snapshot_id for one in IcebergReaders(table.lake, table.layout).table.metadata.snapshots]


def left(table: ErasableTable) -> dict[str, list[str | int]]:
    """Objects with values of the erased rows. The names of partitions stay in change records."""
    found = objects_containing(table, *VALUES)
    return {name: values for name, values in found.items() if not (values == [HOME] and "/changes/" in name)}


def fill(table: ErasableTable) -> dict[int, Rows]:
    """Give a table every kind of object, the rows to erase a partition of their own, and leave parts of a dead run."""
    states = fill_with_changes(table, table.item["PartitionKey"])
    table.direct("U", [pa.table({"id": [SECRET_ID], "city": [HOME]})])
    table.apply(("I", row(30, "Ulm")))
    head = table.log.head()
    states |= {change: table.rows_as_of(change) for change in (head - 1, head)}
    fs, layout = lake_filesystem(table.location).open(), table.layout
    for change in (head, head + 1):
        key = layout.iceberg_data_prefix(change, "dead") + "1.parquet"
        if not table.bucket:
            fs.create_dir(key.rpartition("/")[0], recursive=True)
        pq.write_table(pa.table({"name": ["Wilhelmina"]}), key, filesystem=fs)
        for one in (layout, layout.history):
            table.log.store.put(one.manifest_prefix(change, "dead") + "-m00001.avro", b"Wilhelmina")
    return states


def fill_once(table: ErasableTable) -> dict[int, Rows]:
    """As `fill`, but copies what an earlier test filled, to the same place: manifests contain URLs."""
    if table.root not in FILLED:
        states = fill(table)
        FILLED[table.root] = copied(table, table.root.with_name(f"{table.root.name}-filled")), states
        return states
    kept, states = FILLED[table.root]
    shutil.copytree(kept.root, table.root, dirs_exist_ok=True)
    table.item, table.runs = dict(kept.item), kept.runs
    return states


def same(rows: Rows, expected: Rows) -> bool:
    """Whether a reader's rows are these; it may read columns in another order."""
    return [dict(sorted(one.items())) for one in rows] == [dict(sorted(one.items())) for one in expected]


@pytest.mark.sampled(test=2, ci=3)
def test_an_erasure_leaves_no_value_and_changes_nothing_else(
    table: ErasableTable, readers: str, request: pytest.FixtureRequest
) -> None:
    states = fill_once(table)
    last = states[max(states)]
    before = objects_containing(table, *VALUES)
    metadata = [name for name in before if name.startswith(table.layout.iceberg_metadata_folder)]
    assert any("-snapshot" not in name for name in metadata), "manifests have bounds of the rows"
    if table.item["PartitionKey"] == "city":
        assert any("-snapshot" in name for name in metadata), "manifest lists have bounds of the partitions"
    before_uuid = IcebergReaders(table.lake, table.layout).table.metadata.table_uuid
    versions = IcebergReaders(table.lake, table.layout.history)
    versions_before = versions.rows()
    assert any(one["id"] == SECRET_ID for one in versions_before)
    done = table.erase(KEY)
    assert done.change
    after = left(table)
    counts = {"objects with values before the erasure": len(before), "after it": len(after)}
    request.node.user_properties.append((COUNTS, counts))
    assert after == {}
    assert offered(table) == [done.change]
    assert IcebergReaders(table.lake, table.layout).table.metadata.table_uuid == before_uuid
    assert same(seen(table), without(last, SECRET_ID))
    assert seen(table, f"id = {SECRET_ID}") == []
    assert same(versions.rows(), without(versions_before, SECRET_ID))
    assert versions.offered == [done.change]
    assert same(
        seen(table, "city = 'Ulm' and id > 5"),
        [one for one in last if one["city"] == "Ulm" and one["id"] > 5 and one["id"] != SECRET_ID],
    )
    check_files(table.log, table.log.snapshot(done.change))
    assert table.erase(KEY).change is None
    for change in reversed(states):
        table.roll_back(to=change)
        head = table.log.head()
        assert table.rows_as_of(head) == without(states[change], SECRET_ID), change
        assert same(seen(table), without(states[change], SECRET_ID)), change
        in_ulm = [one["id"] for one in states[change] if one["city"] == "Ulm" and one["id"] != SECRET_ID]
        found = IcebergReaders(table.lake, table.layout).rows("city = 'Ulm'", ("id",))
        assert sorted(one["id"] for one in found) == sorted(in_ulm), change
        assert offered(table) == ([head] if readers == "both" else list(range(done.change, head + 1)))
    table.roll_back(to=done.change)
    table.apply(("U", row(1, "Rom", "after")), ("D", row(30)))
    assert same(without(seen(table), 1), without(last, SECRET_ID, 1, 30))
    assert left(table) == {}


@pytest.mark.sampled(test=1, ci=3)
def test_the_newest_change_follows_from_the_rewritten_manifests(table: ErasableTable) -> None:
    """The next change replaces files whose entries an erasure wrote, and files in manifests that it left alone."""
    fill_once(table)
    table.erase(KEY)
    for number in range(3):
        table.apply(("U", row(1, "Ulm", f"again {number}")), ("U", row(15, "Kiel", f"again {number}")))
    newest = {one["id"]: one["name"] for one in seen(table)}
    assert (newest[1], newest[15], SECRET_ID in newest) == ("again 2", "again 2", False)


@pytest.mark.sampled(test=2, ci=5)
@pytest.mark.parametrize("later", [0, 1])
def test_what_a_switch_left_is_erased_too(table: ErasableTable, later: int) -> None:
    fill_once(table)
    table.item["Readers"] = "folder"
    for _ in range(later + 1):
        table.apply(("U", row(2, "Bonn", "in the folder")))
    states = {change: table.rows_as_of(change) for change in range(1, table.log.head() + 1)}
    assert any(".metadata.json" in entry.key for entry in table.log.store.list(table.layout.iceberg_prefix))
    table.erase(KEY)
    assert left(table) == {}
    assert not any(".metadata.json" in entry.key for entry in table.log.store.list(table.layout.iceberg_prefix))
    for change, rows in states.items():
        assert table.rows_as_of(change) == without(rows, SECRET_ID), change
    table.roll_back(max(states) - later - 1)
    assert same(seen(table), without(states[max(states) - later - 1], SECRET_ID))


@pytest.mark.aws
@pytest.mark.thorough
def test_a_versioned_bucket_has_no_version_with_a_value(
    tmp_path: Path, readers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with versioned_bucket(monkeypatch, "lake"):
        table = ErasableTable(tmp_path, COLUMNS, bucket="lake")
        table.item |= {"Readers": readers, "PartitionKey": "city"}
        states = fill(table)
        table.erase(KEY)
        assert left(table) == {}
        for change, rows in states.items():
            assert table.rows_as_of(change) == without(rows, SECRET_ID), change
        table.roll_back(to=1)
        assert table.rows_as_of(table.log.head()) == without(states[1], SECRET_ID)


def test_uncompressed_files_have_no_value_either(tmp_path: Path, readers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search decompresses what it knows. Here it must not."""
    disable_compression(monkeypatch)
    for name in ("CopyingManifestWriter", "write_manifest_list"):
        write = getattr(iceberg_manifests, name)
        monkeypatch.setattr(iceberg_manifests, name, lambda *arguments, write=write: write(*arguments[:-1], "null"))
    table = ErasableTable(tmp_path, COLUMNS)
    table.item |= {"Readers": readers, "PartitionKey": "city"}
    fill(table)
    assert any(name.endswith(".avro") for name in left(table))
    table.erase(KEY)
    assert left(table) == {}


@pytest.mark.thorough
def test_an_erasure_that_dies_anywhere_is_completed_and_readers_see_all_or_nothing(
    tmp_path: Path, readers: str
) -> None:
    original = ErasableTable(tmp_path / "table", COLUMNS)
    original.item |= {"Readers": readers, "PartitionKey": "city"}
    states = fill(original)
    last = states[max(states)]
    kept = copied(original, tmp_path / "kept")
    for death in (Death(call, carried_out=call % 2 == 0) for call in count(1, STEP)):
        shutil.rmtree(original.root)
        table = copied(kept, original.root)  # in the same place, because manifests contain URLs
        table.death = death
        dying = table.erasure(KEY)
        table.death = None
        try:
            erase(dying, table.runs)
            break
        except DiedError:
            pass
        if readers == "iceberg":
            assert same(seen(table), last) or same(seen(table), without(last, SECRET_ID)), death
        roll_forward(table.log)
        committed = table.log.record(table.log.head()).kind.value == "erasure"
        assert same(seen(table), without(last, SECRET_ID) if committed else last), death
        table.erase(KEY)
        assert left(table) == {}, death
        assert offered(table)[0] > max(states)
        assert same(seen(table), without(last, SECRET_ID)), death
        for change, rows in states.items():
            assert table.rows_as_of(change) == without(rows, SECRET_ID), (death, change)
        table.roll_back(to=7)
        assert same(seen(table), without(states[7], SECRET_ID)), death
    assert death.call > 20


@pytest.mark.sampled(test=1, ci=3)
def test_a_clean_up_keeps_what_earlier_changes_need_after_an_erasure(table: ErasableTable) -> None:
    states = fill_once(table)
    table.erase(KEY)
    table.apply(("U", row(1, "Rom", "after")))
    present = {entry.key for entry in table.log.store.list(table.layout.iceberg_prefix)}
    now = table.next_time() + timedelta(days=10_000)  # files are as old as this test
    clean_up(table.log, plan_clean_up(table.log, timedelta(days=20_000), now))
    gone = present - {entry.key for entry in table.log.store.list(table.layout.iceberg_prefix)}
    assert all("metadata/v" in key for key in gone)
    for change in reversed(states):
        table.roll_back(to=change)
        assert same(seen(table), without(states[change], SECRET_ID)), change


def test_a_clean_up_between_two_attempts_leaves_files_that_the_first_one_may_still_need(
    tmp_path: Path, readers: str
) -> None:
    """The first attempt committed, and is paused before earlier changes name what it wrote for them."""
    table = ErasableTable(tmp_path, COLUMNS)
    table.item |= {"Readers": readers}
    table.load([row(1), secret()])
    table.apply(("U", row(1, "Rom")), ("U", secret("Bonn")))
    erasure = table.erasure(KEY)

    def clean_up_meanwhile() -> None:
        now = table.next_time() + timedelta(days=10_000)
        clean_up(table.log, plan_clean_up(table.log, timedelta(days=20_000), now))

    store = erasure.log.store
    put_if_unchanged = store.put_if_unchanged

    def pausing(key: str, data: bytes, old: bytes) -> bool:
        if key.startswith(table.layout.snapshots_folder):
            clean_up_meanwhile()
        return put_if_unchanged(key, data, old)

    store.put_if_unchanged = pausing  # type: ignore[method-assign]
    erase(erasure, table.runs)
    for change in (2, 1):
        table.roll_back(to=change)
        assert [one["id"] for one in seen(table)] == [1]
    assert left(table) == {}


def test_bounds_of_files_that_no_retained_change_has_are_erased(table: ErasableTable) -> None:
    """The oldest retained change removed the rows. Its manifests list the files that it removed, with their bounds."""
    table.item["LateWindowHours"] = "0"
    table.load([row(1), secret(HOME), row(2)])
    table.apply(("D", secret(HOME)), ("U", row(2, "Ulm", "changed")))
    table.apply(("U", row(1, "Rom")))
    for later in (timedelta(), timedelta(days=10_000)):  # files are as old as this test
        retention = later + timedelta(hours=1, minutes=30)
        plan = plan_clean_up(table.log, retention, table.next_time() + later)
        assert plan.retained.first == 2
        clean_up(table.log, plan)
    assert any(name.endswith(".avro") for name in left(table))
    touched = preview(table.erasure(KEY)).touched
    assert touched.manifests == 2, "of the table, and of its history"
    assert preview(table.erasure("-5")).touched.manifests == 0
    table.erase(KEY)
    assert left(table) == {}
    assert not preview(table.erasure(KEY)).touched.anything
    table.roll_back(to=2)
    assert [(one["id"], one["name"]) for one in seen(table)] == [(1, "name 1"), (2, "changed")]


def test_bounds_of_files_that_only_thinned_changes_had_are_erased(table: ErasableTable) -> None:
    """Change 7 is kept, and its manifests list the files of change 6, which is not."""
    table.item["LateWindowHours"] = "0"
    table.load([row(1), row(2)])
    for number in range(2, 12):
        more = {3: [("I", secret(HOME))], 7: [("D", secret(HOME))]}
        table.apply(("U", row(1, "Ulm", f"name {number}")), *more.get(number, []))
    always, day = timedelta(days=20_000), timedelta(days=1)
    for later, keep_every in ((2 * day, day), (10_000 * day, always)):  # files are as old as this test
        plan = plan_clean_up(table.log, always, table.next_time() + later, keep_every=keep_every)
        clean_up(table.log, plan)
        assert plan.retained.up_to(11) == [1, 7, 10, 11]
    assert any(name.endswith(".avro") for name in left(table))
    assert preview(table.erasure(KEY)).touched.manifests
    table.erase(KEY)
    assert left(table) == {}
    assert not preview(table.erasure(KEY)).touched.anything
    for change in (7, 1):
        table.roll_back(to=change)
        assert [one["name"] for one in seen(table)] == ["name 7" if change == 7 else "name 1", "name 2"]


def test_no_snapshot_tells_about_a_file_that_is_gone(table: ErasableTable) -> None:
    table.load([row(1), secret(HOME), row(2)])
    table.apply(("D", secret(HOME)), ("U", row(1, "Ulm", "changed")))
    first = table.log.snapshot(1)
    for file in first.files:
        for key in (table.layout.data_key(file.path), table.layout.retired_key(file.path)):
            if file not in table.log.snapshot(2).files:
                (table.lake / key).unlink(missing_ok=True)
    assert table.erase(KEY).touched.gone_files >= 1
    found = left(table)
    assert not [name for name, values in found.items() if values != [HOME]]
    assert not preview(table.erasure(KEY)).touched.anything


@pytest.mark.sampled(test=2, ci=5)
@pytest.mark.parametrize("lost", ["-snapshot.avro", "-m00001.avro"])
def test_manifests_of_which_another_program_deleted_some_are_given_up(table: ErasableTable, lost: str) -> None:
    states = fill_once(table)
    for change in (2, 3):
        (key,) = [key for key in iceberg_of(table.log.snapshot(change)).keys if key.endswith(f"run-{change}{lost}")]
        (table.lake / key).unlink()
    table.erase(KEY)
    assert left(table) == {}
    assert table.erase(KEY).change is None
    with pytest.raises(PastRetentionError):
        table.roll_back(to=3)
    table.roll_back(to=1)
    assert same(seen(table), without(states[1], SECRET_ID))


@pytest.mark.sampled(test=2, ci=3)
def test_files_stay_while_the_catalog_names_them(table: ErasableTable) -> None:
    table.load([row(1), secret()])
    table.apply(("U", row(1, "Rom")))
    old = IcebergReaders(table.lake, table.layout).table

    def out_of_reach() -> None:
        raise RetryableError("The catalog could not be updated", remedy="Wait")

    erasure = table.erasure(KEY)
    with pytest.raises(RetryableError):
        erase(erasure, table.runs, out_of_reach)
    if table.item["Readers"] == "iceberg":
        assert sorted(old.scan().to_arrow()["id"].to_pylist()) == [1, SECRET_ID]
    assert [one["id"] for one in seen(table)] == [1]
    head = table.log.head()
    assert table.log.store.get(table.layout.erasure_key(head)) is None
    done = table.erase(KEY)
    assert (done.change, table.log.head()) == (head, head + 1)  # it takes over, lest the other one goes on
    assert left(table) == {}
    with pytest.raises(FileNotFoundError):
        old.scan().to_arrow()
    assert table.log.store.get(table.layout.erasure_key(head))


@pytest.mark.sampled(test=2, ci=3)
def test_files_of_other_programs_are_reported(table: ErasableTable) -> None:
    table.load([row(1), secret()])
    foreign = table.layout.iceberg_metadata_folder + "00001-another-engine.metadata.json"
    table.log.store.put(foreign, b"{}")
    erasure = table.erasure(KEY)
    assert any(
        "1 files that other programs put among the Iceberg tables' files" in one
        for one in preview(erasure).out_of_reach
    )
    table.erase(KEY)
    assert table.log.store.get(foreign) == b"{}"


@pytest.mark.sampled(test=2, ci=3)
def test_a_dead_run_that_wrote_only_data_files_leaves_none(table: ErasableTable) -> None:
    table.load([row(1), secret()])
    log = table.log
    key = table.layout.iceberg_data_prefix(2, "dead") + "1.parquet"
    log.store.put(key, b"Wilhelmina")
    table.erase(KEY)
    assert left(table) == {}
    assert [record.kind.value for record in log.records(2, log.head())] == ["takeover", "erasure"]


@pytest.mark.sampled(test=2, ci=3)
def test_all_rows_may_be_erased(table: ErasableTable) -> None:
    table.load([secret(HOME)])
    table.erase(KEY)
    assert (seen(table), left(table)) == ([], {})
    table.apply(("I", row(1)))
    assert [one["id"] for one in seen(table)] == [1]


def test_manifests_without_such_rows_are_not_written_again(tmp_path: Path) -> None:
    table = ErasableTable(tmp_path, COLUMNS, {"PrimaryKey": "id", "Readers": "iceberg", "TargetFileBytes": "1"})
    table.item["PartitionKey"], table.limits = "city", EngineLimits(manifest_files=4)
    table.load([row(number, f"city {number:02}") for number in range(16)] + [secret("city 07")])
    table.apply(("U", row(1, "city 01", "changed")))
    before = [keys_of(snapshot) for _, snapshot in retained_snapshots(table.log, 2)]
    table.erase(KEY)
    after = [keys_of(snapshot) for _, snapshot in retained_snapshots(table.log, 3)]
    assert after[0] == after[1]
    for was, now in zip(before, after[1:], strict=True):
        assert 0 < len(now - was) < len(now & was)
    assert len(seen(table)) == 16


def keys_of(snapshot: Snapshot) -> set[str]:
    return {one.key for one in iceberg_of(snapshot).manifests}


def iceberg_of(snapshot: Snapshot) -> IcebergFiles:
    assert snapshot.iceberg
    return snapshot.iceberg
