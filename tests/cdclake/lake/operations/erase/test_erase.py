"""An erasure removes every copy of the rows and changes nothing else."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import Mock

import pyarrow as pa
import pytest

from cdclake.commit.clean_up import clean_up, plan_clean_up
from cdclake.commit.log import ChangeLog
from cdclake.commit.undo import plan_reapply, plan_rollback
from cdclake.errors import CdclakeError, ConfigurationError, LakeFilesError, RetryableError
from cdclake.lake.limits import EngineLimits
from cdclake.lake.operations.erase import data_files
from cdclake.lake.operations.erase.erase import erase, preview
from cdclake.model.change.record import ChangeKind
from tests.cdclake.lake.operations.erase.erasable_table import (
    COLUMNS,
    SECRET_ID,
    SECRET_NAME,
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
from tests.cdclake.lake.scd2.versions import version_rows
from tests.dying_store import Death, DiedError, PausingStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cdclake.ports import ObjectStore

KEY = str(SECRET_ID)
Filled = tuple[ErasableTable, dict[int, list[dict[str, Any]]]]


@pytest.fixture(params=["folder", pytest.param("versioned bucket", marks=[pytest.mark.aws, pytest.mark.long])])
def table(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ErasableTable]:
    disable_compression(monkeypatch)
    if request.param == "folder":
        yield ErasableTable(tmp_path, COLUMNS)
        return
    with versioned_bucket(monkeypatch, "lake"):
        yield ErasableTable(tmp_path, COLUMNS, bucket="lake")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """A filled table, which tests copy, and its rows as of each change."""
    with pytest.MonkeyPatch.context() as patch:
        disable_compression(patch)
        table = ErasableTable(tmp_path_factory.mktemp("filled"), COLUMNS)
        return table, fill_with_changes(table)


@pytest.fixture
def full(filled: Filled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ErasableTable:
    """A copy of the filled table."""
    disable_compression(monkeypatch)
    return copied(filled[0], tmp_path)


@pytest.mark.slow
def test_an_erasure_removes_every_copy_of_a_row_and_nothing_else(table: ErasableTable) -> None:
    states = fill_with_changes(table)
    before = objects_containing(table, SECRET_ID, SECRET_NAME)
    parts = ("staging", "tombstones", "snapshots", "quarantine", "as-of", "retired", "shop/orders/", "orders_history/")
    for part in parts:
        assert any(part in name for name in before), part
    done = table.erase(KEY)
    assert objects_containing(table, SECRET_ID, SECRET_NAME) == {}
    assert done.change
    for change, rows in states.items():
        assert table.rows_as_of(change) == without(rows, SECRET_ID), change
    assert table.rows_as_of(done.change) == without(states[max(states)], SECRET_ID)
    record = table.log.record(done.change)
    assert (record.kind, record.reason, record.made_by) == (ChangeKind.ERASURE, "request 17", "the officer")
    assert (record.books.erased, record.books.rows_before - record.books.rows_after) == (1, 1)
    check_undo(table, states, done.change)
    check_clean_up(table)


def check_undo(table: ErasableTable, states: dict[int, list[dict[str, Any]]], erased_by: int) -> None:
    """The table can be rolled back to each change, reapplied, and changed further."""
    for change in reversed(states):
        table.roll_back(to=change)
        assert table.rows_as_of(table.log.head()) == without(states[change], SECRET_ID), change
    assert plan_reapply(table.log).as_of == 2
    table.roll_back(to=erased_by)
    table.apply(("U", row(1, "Rom", "after")))
    rows = table.rows_as_of(table.log.head())
    assert without(rows, 1) == without(states[max(states)], SECRET_ID, 1)
    assert objects_containing(table, SECRET_ID, SECRET_NAME) == {}


def check_clean_up(table: ErasableTable) -> None:
    """A clean-up also deletes what the erasure wrote for earlier changes."""
    log = table.log
    clean_up(log, plan_clean_up(log, timedelta(0), table.next_time(), log.head()))
    head = log.snapshot(log.head())
    needed = {table.layout.data_key(file.path) for file in head.all_files} | {file.key for file in head.tombstones}
    left = {entry.key for entry in log.store.list("") if entry.key.endswith(".parquet")}
    assert {key for key in left if "/as-of/" not in key} == needed


@pytest.mark.slow
def test_the_history_loses_only_the_versions_of_erased_rows(full: ErasableTable) -> None:
    before = version_rows(full)
    assert any(version["id"] == SECRET_ID for version in before)
    full.erase(KEY)

    def other_versions(rows: list[dict[str, object]]) -> list[str]:
        return sorted(str(version) for version in rows if version["id"] != SECRET_ID)

    after = version_rows(full)
    assert len(other_versions(after)) == len(after)
    assert other_versions(after) == other_versions(before)


@pytest.mark.slow
def test_the_preview_equals_the_report_which_contains_no_values(full: ErasableTable, filled: Filled) -> None:
    _, states = filled
    result = preview(full.erasure(KEY))
    found, out_of_reach = result.touched, result.out_of_reach
    assert (found.rows, found.files, found.bad_rows, found.bad_rows_files) == (1, 1, 1, 1)
    assert found.versions == 7  # load, update, delete, insert, by hand, delete, insert
    assert found.tombstones >= 1
    assert found.retired_rows >= found.retired_files >= 4
    assert full.rows_as_of(max(states)) == states[max(states)]
    assert any("DMS may send them again" in sentence for sentence in out_of_reach)
    assert any("--raw" in sentence for sentence in out_of_reach)
    done = full.erase(KEY)
    assert done.touched == found
    note = json.loads((full.lake / full.layout.erasure_key(done.change or 0)).read_text())
    assert (note["keys"], note["key_columns"], note["reason"]) == (1, ["id"], "request 17")
    assert note["touched"]["rows"] == 1
    assert preview(full.erasure(KEY)).touched.anything is False
    assert full.erase(KEY).change is None


@pytest.mark.slow
@pytest.mark.sampled(test=1, ci=2)
@pytest.mark.parametrize("first_call", range(1, 6))
def test_the_next_erasure_completes_one_that_crashed_at_any_step(
    filled: Filled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first_call: int
) -> None:
    disable_compression(monkeypatch)
    original, states = filled
    deaths = (Death(call, carried_out=call % 2 == 0) for call in count(first_call, 5))
    for death in deaths:
        table = copied(original, tmp_path / f"{death.call}")
        table.death = death
        crashing = table.erasure(KEY)
        table.death = None
        try:
            erase(crashing, table.runs)
            break
        except DiedError:
            head = table.log.head()
            assert without(table.rows_as_of(head), SECRET_ID) == without(states[max(states)], SECRET_ID)
        again = table.erase(KEY)
        assert objects_containing(table, SECRET_ID, SECRET_NAME) == {}, death
        for change, rows in states.items():
            assert table.rows_as_of(change) == without(rows, SECRET_ID), (death, change)
        if again.change:
            assert table.log.store.get(table.layout.erasure_key(again.change))
        shutil.rmtree(table.root)
    assert death.call > 30


@pytest.mark.slow
@pytest.mark.sampled(test=1, ci=2)
@pytest.mark.parametrize("first_call", [1, 4, 7])
def test_an_erasure_that_pauses_past_its_lease_undoes_no_other(
    filled: Filled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first_call: int
) -> None:
    disable_compression(monkeypatch)
    original, states = filled
    for call in count(first_call, 9):
        table = copied(original, tmp_path / f"{call}")
        paused = table.erasure(KEY)
        store = PausingStore(paused.log.store, call, lambda: table.erase(KEY, "1"))  # noqa: B023 - used at once
        with suppress(CdclakeError):
            erase(replace(paused, log=ChangeLog(cast("ObjectStore", store), table.layout)), table.runs)
        if store.calls < call:
            break
        table.erase(KEY, "1")
        assert objects_containing(table, SECRET_ID, SECRET_NAME) == {}, call
        for change, rows in states.items():
            assert table.rows_as_of(change) == without(rows, SECRET_ID, 1), (call, change)
        shutil.rmtree(table.root)
    assert call > 30


@pytest.mark.slow
def test_an_erasure_cannot_be_undone(full: ErasableTable) -> None:
    full.erase(KEY)
    with pytest.raises(ConfigurationError, match=r"erased rows permanently.*--to"):
        plan_rollback(full.log)


def test_a_deleted_row_is_erased_only_from_earlier_changes(in_folder: ErasableTable) -> None:
    in_folder.load([row(1), secret(), row(3)])
    in_folder.apply(("D", secret()))
    files = in_folder.files()
    done = in_folder.erase(KEY)
    assert (done.touched.rows, done.touched.retired_rows) == (0, 2)  # one in the table, one in its history
    assert in_folder.files() == files
    assert objects_containing(in_folder, SECRET_ID, SECRET_NAME) == {}


def test_what_a_failed_erasure_wrote_is_not_taken_for_a_file_of_the_next_change(
    in_folder: ErasableTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> float:
        raise RetryableError("S3 does not answer")

    in_folder.item = {"PrimaryKey": "id"}
    in_folder.load([row(1), secret(), row(3)])
    in_folder.apply(("D", row(1)))
    in_folder.apply(("D", secret()))
    with monkeypatch.context() as failing, pytest.raises(RetryableError):
        failing.setattr(ChangeLog, "commit", fail)
        in_folder.erase("1")  # has written a retired file again, with the secret row
    in_folder.apply(("U", row(3, name="new")))
    in_folder.erase(KEY)
    assert objects_containing(in_folder, SECRET_ID, SECRET_NAME) == {}


@pytest.mark.slow
def test_missing_retired_files_do_not_stop_an_erasure(full: ErasableTable) -> None:
    retired = sorted((full.lake / full.layout.retired_folder).rglob("*.parquet"))
    for path in retired[::2]:
        path.unlink()
    for path in (full.lake / full.layout.as_of_folder).rglob("*.parquet"):
        path.unlink()
    assert full.erase(KEY).change
    assert objects_containing(full, SECRET_ID, SECRET_NAME) == {}


def test_a_soft_deleted_row_is_erased_and_others_stay_soft_deleted(in_folder: ErasableTable) -> None:
    in_folder.item["DeleteMode"] = "soft"
    in_folder.load([row(1), secret(), row(3)])
    in_folder.apply(("D", secret()), ("D", row(3)))
    assert objects_containing(in_folder, SECRET_NAME)
    done = in_folder.erase(KEY)
    assert objects_containing(in_folder, SECRET_ID, SECRET_NAME) == {}
    after = in_folder.log.snapshot(done.change or 0)
    assert (after.rows, after.deleted_rows) == (1, 1)
    assert in_folder.log.record(done.change or 0).books.erased == 0  # soft-deleted rows do not count
    assert [(values["id"], values["Op"]) for values in in_folder.rows_as_of(done.change or 0)] == [(1, "I"), (3, "D")]


@pytest.mark.slow
def test_one_erasure_removes_the_rows_of_several_keys(full: ErasableTable, filled: Filled) -> None:
    full.erase(KEY, "1", '{"ID": 2}')
    for change, rows in filled[1].items():
        assert full.rows_as_of(change) == without(rows, SECRET_ID, 1, 2)


def test_a_key_may_include_a_partition_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disable_compression(monkeypatch)
    table = ErasableTable(tmp_path, COLUMNS, {"PrimaryKey": "amount,city", "PartitionKey": "city"})
    table.load([row(1, "Ulm", amount="1.50"), row(2, "Bonn", amount="1.50"), row(3, "Ulm", amount="2.50")])
    table.apply(("U", row(4, "Ulm", "changed", amount="1.50")), ("D", row(2, "Bonn", amount="1.50")))
    done = table.erase('{"city": "Ulm", "amount": 1.5}')
    assert (done.touched.rows, done.touched.retired_rows) == (1, 1)
    assert [values["id"] for values in table.rows_as_of(done.change or 0)] == [3]
    assert [values["id"] for values in table.rows_as_of(1)] == [2, 3]


def test_without_a_primary_key_any_columns_identify_rows(tmp_path: Path) -> None:
    table = ErasableTable(tmp_path, COLUMNS, {})
    table.load([row(1, name="Ann"), row(1, name="Ann"), row(1, name="Ben")])
    done = table.erase('{"id": 1, "name": "Ann"}')
    assert done.touched.rows == 2
    assert [values["name"] for values in table.rows_as_of(done.change or 0)] == ["Ben"]
    with pytest.raises(ConfigurationError, match="JSON object"):
        table.erase("1")


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("many", "does not fit column id, whose type is bigint"),
        ('{"id": 1, "city": "Ulm"}', "names the columns id, city instead of id"),
        ('{"id": null}', "lacks a column's value"),
        ("", "does not fit column id, whose type is bigint"),
        ("\udcff", "not valid UTF-8"),
        ("{id: 1}", "starts like a JSON object"),
    ],
)
def test_an_invalid_key_is_refused_without_showing_it(in_folder: ErasableTable, key: str, message: str) -> None:
    in_folder.load([row(1)])
    with pytest.raises(ConfigurationError, match=message) as refused:
        in_folder.erase(key)
    assert "many" not in str(refused.value)


def test_a_binary_key_is_written_in_hexadecimal_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disable_compression(monkeypatch)
    columns = COLUMNS.set(0, pa.field("id", pa.binary()))
    table = ErasableTable(tmp_path, columns, {"PrimaryKey": "id", "MaxQuarantinedRows": "5"})
    person, other = {**secret(), "id": b"\xff\x00|"}, {**row(1), "id": b"FF007C"}
    table.load([person, other])
    table.apply(("U", {**person, "city": "Bonn"}), ("X", person), ("X", other))
    with pytest.raises(ConfigurationError, match="hexadecimal"):
        table.erase("text")
    done = table.erase("FF007c", raw=True)
    assert (done.touched.rows, done.touched.retired_rows, done.touched.bad_rows) == (1, 1, 1)
    assert objects_containing(table, SECRET_NAME) == {}
    assert [values["id"] for values in table.rows_as_of(done.change or 0)] == [b"FF007C"]


def test_a_reason_that_names_the_key_is_refused(in_folder: ErasableTable) -> None:
    in_folder.load([row(1), row(17)])
    with pytest.raises(ConfigurationError, match="contains a key to erase"):
        in_folder.erase("17")
    assert in_folder.log.head() == 1


def test_a_foreign_file_stops_an_erasure(in_folder: ErasableTable) -> None:
    """It compares all files, also of a table of which a run compares a part."""
    in_folder.load([row(1), secret()])
    in_folder.limits = EngineLimits(checked_files=1)
    shutil.copy(in_folder.folder / in_folder.files()[0], in_folder.folder / "part-0.parquet")
    with pytest.raises(LakeFilesError, match=r"part-0\.parquet"):
        in_folder.erase(KEY)
    assert in_folder.log.head() == 1


def test_an_unknown_key_changes_nothing(in_folder: ErasableTable) -> None:
    in_folder.load([row(1), row(2)])
    assert in_folder.erase("9").change is None
    assert in_folder.log.head() == 1


def fail(table: ErasableTable, key: str, before: str = "delete_unreferenced") -> None:
    """Begin an erasure that ends with an error before one of its last steps."""
    failing = table.erasure(key)
    with pytest.MonkeyPatch.context() as patched, pytest.raises(RetryableError):
        error = RetryableError("S3 is slow", remedy="Try again")
        patched.setattr(f"cdclake.lake.operations.erase.erase.{before}", Mock(side_effect=error))
        erase(failing, table.runs)


def reported(table: ErasableTable) -> list[int]:
    """Numbers of the changes whose erasures are marked as done."""
    changes = range(1, table.log.head() + 1)
    return [change for change in changes if table.log.store.get(table.layout.erasure_key(change))]


def test_an_erasure_that_failed_is_marked_as_done_only_by_one_of_its_keys(in_folder: ErasableTable) -> None:
    in_folder.load([row(1), secret(), row(7)])
    in_folder.apply(("U", row(1, "Rom")))
    fail(in_folder, KEY)
    assert in_folder.erase("9").change is None
    assert reported(in_folder) == []
    assert in_folder.erase(KEY).change == 3
    note = json.loads(in_folder.log.store.get(in_folder.layout.erasure_key(3)) or b"")
    assert (note["change"], note["keys"]) == (3, 1)


@pytest.mark.parametrize("before", ["rewrite_snapshots", "delete_unreferenced"])
@pytest.mark.parametrize("again", [(KEY,), (KEY, "7")], ids=["its keys", "its keys and another"])
def test_when_an_erasure_that_failed_is_completed_nothing_is_left_to_do(
    in_folder: ErasableTable, before: str, again: tuple[str, ...]
) -> None:
    in_folder.load([row(1), secret(), row(7)])
    in_folder.apply(("U", row(1, "Rom")))
    fail(in_folder, KEY, before)
    in_folder.erase(*again)
    head = in_folder.log.head()
    assert 3 in reported(in_folder)
    assert in_folder.erase(*again).change is None
    assert in_folder.log.head() == head


def test_two_erasures_that_failed_are_completed_in_any_order(in_folder: ErasableTable) -> None:
    in_folder.load([row(1), secret(), row(7)])
    fail(in_folder, KEY)
    fail(in_folder, "7")
    assert [in_folder.erase(KEY).change, in_folder.erase("7").change] == [2, 4]
    assert reported(in_folder) == [2, 4]
    assert in_folder.log.head() == 5  # one takeover each


def test_what_an_erasure_is_about_to_write_is_refused_once_another_one_searches(in_folder: ErasableTable) -> None:
    """Its call is under way while the other one begins, and takes effect right after the other's search."""
    in_folder.load([secret(), row(7, name="Rapunzel")])
    in_folder.apply(("U", row(7, name="Rapunzel")))
    under_way: list[tuple[str, bytes, bytes]] = []

    class Dying(PausingStore):
        def put_if_unchanged(self, *arguments: Any) -> bool:
            under_way.append(arguments)
            raise DiedError

    dying = in_folder.erasure(KEY)
    store = cast("ObjectStore", Dying(dying.log.store, 0, lambda: None))
    with suppress(DiedError):
        erase(replace(dying, log=ChangeLog(store, in_folder.layout)), in_folder.runs)
    search, effects = data_files.search, list[bool]()

    def search_then_carry_out(*arguments: Any) -> data_files.Matches:
        found = search(*arguments)
        effects.extend(in_folder.log.store.put_if_unchanged(*one) for one in under_way)
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(data_files, "search", search_then_carry_out)
        in_folder.erase("7")
    assert effects == [False]
    assert objects_containing(in_folder, "Rapunzel") == {}


def test_a_delete_that_only_earlier_changes_remember_is_erased_too(in_folder: ErasableTable) -> None:
    in_folder.load([row(1), secret()])
    in_folder.apply(("D", secret()))
    in_folder.apply(("D", row(1)))  # its file of tombstones replaces that of the change before
    was, now = (in_folder.log.snapshot(change).tombstones for change in (2, 3))
    assert not {file.key for file in was} & {file.key for file in now}
    in_folder.erase(KEY)
    assert objects_containing(in_folder, SECRET_ID) == {}


def test_snapshots_lose_the_key_bounds_of_retired_files_that_are_missing(in_folder: ErasableTable) -> None:
    in_folder.load([secret()])
    in_folder.apply(("U", secret("Bonn")))
    for path in (in_folder.lake / in_folder.layout.retired_folder).rglob("*.parquet"):
        path.unlink()
    assert in_folder.erase(KEY).touched.gone_files
    assert objects_containing(in_folder, SECRET_ID, SECRET_NAME) == {}


def test_what_a_dead_run_left_is_erased_if_the_row_is_nowhere_else(in_folder: ErasableTable) -> None:
    in_folder.load([row(1)])
    left = in_folder.lake / in_folder.layout.staging_prefix(2, "dead") / "1.parquet"
    left.parent.mkdir(parents=True)
    left.write_bytes(SECRET_NAME.encode())
    assert in_folder.erase(KEY).change is None
    assert objects_containing(in_folder, SECRET_NAME) == {}
    assert in_folder.log.record(2).kind is ChangeKind.TAKEOVER  # the run may only be paused


def test_the_place_where_the_comparison_of_files_ended_is_forgotten(in_folder: ErasableTable) -> None:
    in_folder.load([row(1), secret()])
    in_folder.log.mark_files_checked_to(f"{in_folder.layout.table_prefix}id={SECRET_ID}/000000000001-00001.parquet")
    in_folder.erase(KEY)
    assert objects_containing(in_folder, SECRET_ID) == {}


def test_deletes_before_the_key_widened_are_erased_too(tmp_path: Path) -> None:
    table = ErasableTable(tmp_path, COLUMNS)
    table.apply(("I", row(1)), ("I", secret()))
    table.apply(("D", secret()))
    widened = COLUMNS.set(0, pa.field("id", pa.decimal128(22, 2)))
    table.apply(("U", row(1)), schema=widened)
    table.erase(str(SECRET_ID))
    assert table.log.snapshot(table.log.head()).tombstones == ()
    assert table.erase(str(SECRET_ID)).change is None
