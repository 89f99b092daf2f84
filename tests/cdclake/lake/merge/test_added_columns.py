"""Columns that come and go while changes arrive in another order than they were made."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.errors import UnsentValueError
from cdclake.lake.limits import EngineLimits
from cdclake.model.snapshot import Snapshot
from cdclake_devkit.oracle import ChangeRow, merge
from tests.cdclake.lake.merge.test_against_oracle import IN_PLACE, IN_STAGES
from tests.cdclake.lake.table import Table
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COLUMNS = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("d", pa.int64()), ("e", pa.int64())])
FILES = [f"20240305-1{i}0000000.parquet" for i in range(8)]
Value = dict[str, Any]


@pytest.fixture(params=[IN_PLACE, IN_STAGES], ids=["in place", "in stages"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Table:
    return Table(tmp_path, COLUMNS, {"PrimaryKey": "id"}, limits=EngineLimits(in_place_task_bytes=request.param))


def write(table: Table, file: int, *rows: Value) -> None:
    table.put_rows(FILES[file], rows, d=pa.int64(), e=pa.int64())


def apply(table: Table, file: int, *rows: Value) -> None:
    write(table, file, *rows)
    table.load_incremental()


REFUSED = "did not send column d: its value would be lost"


def test_an_older_row_by_the_ordering_column_with_a_new_column_is_refused(table: Table) -> None:
    table.item["OrderColumn"] = "n"
    apply(table, 0, {"Op": "I", "id": 1, "n": 1})
    apply(table, 1, {"Op": "U", "id": 1, "n": 5})
    with pytest.raises(UnsentValueError, match=rf"{REFUSED}.*file {FILES[2]}, row 1"):
        apply(table, 2, {"Op": "U", "id": 1, "n": 3, "d": 7})
    table.item["MissingColumns"] = "null"
    table.load_incremental()
    assert table.live("d") == {1: None}


def test_in_one_run_an_older_row_with_a_new_column_counts(table: Table) -> None:
    table.item["OrderColumn"] = "n"
    write(table, 0, {"Op": "I", "id": 1, "n": 1})
    write(table, 1, {"Op": "U", "id": 1, "n": 5})
    apply(table, 2, {"Op": "U", "id": 1, "n": 3, "d": 7})
    assert table.live("d") == {1: 7}


def test_a_late_value_of_a_column_that_came_again_is_refused(table: Table) -> None:
    apply(table, 0, {"Op": "I", "id": 1}, {"Op": "I", "id": 2})
    apply(table, 2, {"Op": "U", "id": 1})
    apply(table, 3, {"Op": "U", "id": 2, "d": 5})
    with pytest.raises(UnsentValueError, match=rf"{REFUSED}.*file {FILES[1]}, row 1"):
        apply(table, 1, {"Op": "U", "id": 1, "d": 7})
    assert table.live("d") == {1: None, 2: 5}


def test_a_late_value_of_a_new_column_counts_for_a_row_that_did_not_change_since(table: Table) -> None:
    apply(table, 0, {"Op": "I", "id": 1}, {"Op": "I", "id": 2}, {"Op": "I", "id": 3})
    apply(table, 2, {"Op": "U", "id": 1}, {"Op": "I", "id": 4})
    apply(table, 1, {"Op": "U", "id": 2, "d": 7}, {"Op": "U", "id": 3, "d": 8}, {"Op": "U", "id": 4, "d": 1})
    assert table.live("d") == {1: None, 2: 7, 3: 8, 4: None}


def test_a_late_value_is_refused_if_a_column_that_was_sent_follows_the_one_that_was_not(table: Table) -> None:
    columns, table.columns = table.columns, COLUMNS.remove(3).remove(2)
    table.load([{"id": 1, "n": 0}])
    table.columns = columns
    write(table, 0, {"Op": "U", "id": 1, "e": 0})
    apply(table, 2, {"Op": "U", "id": 1, "d": 0})
    with pytest.raises(UnsentValueError, match=rf"did not send column e.*file {FILES[1]}, row 1"):
        apply(table, 1, {"Op": "U", "id": 1, "e": 7})


def test_rows_that_had_a_column_before_it_came_for_others_are_known(table: Table) -> None:
    """The position alone does not show whether a row of an early file was applied before the column was added."""
    apply(table, 0, {"Op": "I", "id": 1}, {"Op": "I", "id": 2})
    apply(table, 4, {"Op": "U", "id": 2})
    apply(table, 3, {"Op": "U", "id": 1, "d": 3})
    apply(table, 2, {"Op": "U", "id": 1, "d": 2})
    assert table.live("d") == {1: 3, 2: None}
    apply(table, 5, {"Op": "U", "id": 1, "e": 5})
    assert table.live("d") == {1: 3, 2: None}
    with pytest.raises(UnsentValueError, match="did not send column e"):
        apply(table, 1, {"Op": "U", "id": 2, "e": 1})


def test_a_direct_update_before_a_column_was_added_did_not_send_it(table: Table) -> None:
    apply(table, 0, {"Op": "I", "id": 1, "n": 1}, {"Op": "I", "id": 2, "n": 1})
    table.now = datetime(2024, 3, 5, 12, tzinfo=timezone.utc)
    table.direct("U", [pa.table({"id": [1], "n": [2]})])
    with pytest.raises(UnsentValueError, match=REFUSED):
        apply(table, 1, {"Op": "U", "id": 1, "n": 1, "d": 7})
    apply(table, 1, {"Op": "U", "id": 2, "n": 1, "d": 7})
    table.direct("U", [pa.table({"id": [1], "n": [3]})])
    apply(table, 2, {"Op": "U", "id": 1, "n": 1, "d": 8})
    assert table.live("d") == {1: None, 2: 7}


def test_a_late_value_of_a_row_that_moved_before_the_column_came_in_the_same_run_is_refused(table: Table) -> None:
    table.item["UniqueChecks"] = "immediate"
    table.columns = COLUMNS.remove(3).remove(2)
    table.load([{"id": 1, "n": 0}, {"id": 2, "n": 0}])
    write(table, 1, {"Op": "U", "BI_id": 1, "id": 10, "n": 1})
    apply(table, 2, {"Op": "U", "id": 2, "n": 2, "d": 5})
    with pytest.raises(UnsentValueError, match="changed keys"):
        apply(table, 0, {"Op": "U", "id": 1, "n": 1, "d": 7})


@pytest.mark.parametrize("checks", ["deferred", "immediate"])
def test_a_late_value_of_a_row_that_moved_to_another_key_is_refused(table: Table, checks: str) -> None:
    table.item["UniqueChecks"] = checks
    apply(table, 0, {"Op": "I", "id": 1}, {"Op": "I", "id": 2})
    apply(table, 2, {"Op": "U", "BI_id": 1, "id": 10})
    with pytest.raises(UnsentValueError, match=f"column d, but the table lacked it when .* changed keys.*{FILES[1]}"):
        apply(table, 1, {"Op": "U", "id": 1, "d": 7})
    table.raw_path(FILES[1]).unlink()
    apply(table, 3, {"Op": "U", "id": 2, "d": 5})
    with pytest.raises(UnsentValueError, match="changed keys"):
        apply(table, 1, {"Op": "U", "id": 1, "d": 7})


def test_a_late_file_counts_if_keys_changed_before_it_or_with_the_column(table: Table) -> None:
    table.item["UniqueChecks"] = "immediate"
    apply(table, 0, {"Op": "I", "id": 1}, {"Op": "I", "id": 2})
    apply(table, 1, {"Op": "U", "BI_id": 1, "id": 10})
    apply(table, 4, {"Op": "U", "id": 2})
    apply(table, 3, {"Op": "I", "id": 3, "d": 5})
    apply(table, 5, {"Op": "U", "BI_id": 10, "id": 11, "d": 9})
    apply(table, 2, {"Op": "U", "id": 10, "d": 7})
    assert table.live("d") == {2: None, 3: 5, 11: 9}


@pytest.mark.parametrize("mode", ["hard", "soft"])
def test_a_late_value_of_a_deleted_row_counts_only_if_the_table_keeps_it(table: Table, mode: str) -> None:
    table.item["DeleteMode"] = mode
    apply(table, 0, {"Op": "I", "id": 1}, {"Op": "I", "id": 2})
    apply(table, 2, {"Op": "U", "id": 1})
    apply(table, 3, {"Op": "D", "id": 1})
    with pytest.raises(UnsentValueError, match=REFUSED) if mode == "soft" else nullcontext():
        apply(table, 1, {"Op": "U", "id": 1, "d": 7})
    assert table.live("d") == {2: None}


def test_a_full_load_sent_every_column(table: Table) -> None:
    table.columns = COLUMNS.remove(2)
    table.load([{"id": 1, "n": 1, "e": 1}])
    table.columns = COLUMNS
    apply(table, 1, {"Op": "U", "id": 1, "n": 1, "d": 7})
    assert table.live("d") == {1: 7}
    table.reload([{"id": 1, "n": 2, "d": 8, "e": 1}])
    assert table.log.snapshot(table.log.head()).added == {}


def test_the_snapshot_names_columns_and_the_files_that_brought_them(table: Table) -> None:
    apply(table, 0, {"Op": "I", "id": 1})
    apply(table, 1, {"Op": "U", "id": 1, "n": 5})
    apply(table, 3, {"Op": "U", "id": 1, "n": 5, "d": 7})
    snapshot = table.log.snapshot(3)
    assert snapshot.added == {"n": FILES[1], "d": FILES[3]}
    assert Snapshot.from_bytes(snapshot.to_bytes(), "key") == snapshot


@dataclass(frozen=True)
class File:
    """A change file: which of the columns that come and go it has, and its rows, which the source can have."""

    columns: frozenset[str]
    rows: list[Value]


@st.composite
def histories(draw: st.DrawFn) -> list[File]:
    files: list[File] = []
    keys = {1}
    for number in range(draw(st.integers(2, 6))):
        columns = draw(st.frozensets(st.sampled_from(["d", "e"])))
        rows: list[Value] = []
        for key in draw(st.lists(st.sampled_from([1, 1, 2]), min_size=1, max_size=2)):
            op = draw(st.sampled_from("UUUD")) if key in keys else "I"
            (keys.discard if op == "D" else keys.add)(key)
            values = {name: draw(st.integers(0, 2)) for name in sorted(columns)}
            rows.append({"Op": op, "id": key, "n": 10 * number + len(rows), **values})
        files.append(File(columns, rows))
    return files


def expected_rows(files: Sequence[File], *, soft_delete: bool) -> list[tuple[Mapping[str, Any], str]]:
    """The table after all changes in their order, which is that of `n`. An insert sends null for what it lacks."""
    changes = []
    for row in (row for file in files for row in file.rows):
        values = {name: value for name, value in row.items() if name != "Op"}
        unsent = dict.fromkeys(COLUMNS.names) if row["Op"] == "I" else {}
        changes.append(ChangeRow(f"{row['n']:03d}", row["Op"], {**unsent, **values}))
    load = [{"id": 1, "n": 0, "d": None, "e": None}]
    return [(one.row, one.op) for one in merge(("id",), load, changes, COLUMNS.names, soft_delete=soft_delete)]


@examples(thorough=1_500, ci=60, test=20)
@given(
    files=histories(),
    order_column=st.booleans(),
    delete_mode=st.sampled_from(["hard", "soft"]),
    partition=st.sampled_from(["null", "null", "n"]),
    in_place=st.sampled_from([IN_PLACE, IN_STAGES]),
    data=st.data(),
)
def test_columns_that_come_and_go_make_the_same_rows_in_any_order_or_are_refused(
    files: list[File], order_column: bool, delete_mode: str, partition: str, in_place: int, data: st.DataObject
) -> None:
    """With an ordering column, the names of the files say nothing about the order of the changes."""
    arrivals = data.draw(st.permutations(range(len(files))))
    names = data.draw(st.permutations(range(len(files)))) if order_column else range(len(files))
    runs = data.draw(st.lists(st.booleans(), min_size=len(files), max_size=len(files)))
    item = {"PrimaryKey": "id", "DeleteMode": delete_mode, "PartitionKey": partition}
    item |= {"OrderColumn": "n"} if order_column else {}
    with TemporaryDirectory() as folder:
        limits = EngineLimits(in_place_task_bytes=in_place)
        table = Table(Path(folder), COLUMNS.remove(3).remove(2), item, limits=limits)
        table.load([{"id": 1, "n": 0}])
        table.columns = COLUMNS
        try:
            for i, run_now in zip(arrivals, runs, strict=True):
                write(table, names[i], *files[i].rows)
                if run_now:
                    table.load_incremental()
            table.load_incremental()
        except UnsentValueError as error:
            assert "did not send column" in str(error)
            assert any(runs[:-1])
            assert order_column or list(arrivals) != sorted(arrivals)
        else:
            found = sorted(((one.row, one.op) for one in table.rows()), key=lambda one: one[0]["id"])
            assert found == expected_rows(files, soft_delete=delete_mode == "soft")
