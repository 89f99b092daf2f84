"""Changes that did not send all columns, before and after older changes that arrive late."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.errors import UnsentValueError
from tests.cdclake.lake.table import Table
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("city", pa.string())])
UNSENT = "?"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return new_table(tmp_path)


def new_table(root: Path, **item: str) -> Table:
    schema = "id bigint, name string, city string"
    table = Table(root, COLUMNS, {"PrimaryKey": "id", "CsvNoSupValue": UNSENT, "Schema": schema, **item})
    table.load_file("LOAD00000001.csv", b"id,name,city\n1,a,x\n2,b,y\n")
    return table


def change(table: Table, hour: int, *rows: str, header: str = "Op,id,name,city") -> dict[str, Any]:
    return table.apply_file(f"20240305-{hour:02d}0000000.csv", "\n".join([header, *rows, ""]).encode())


def rows(table: Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(one.row.values()) for one in table.rows())


def test_a_late_value_that_a_later_update_did_not_send_is_refused(table: Table) -> None:
    change(table, 12, "U,1,a2,?")
    with pytest.raises(UnsentValueError, match=r"did not send column city.*file 20240305-090000000\.csv, row 1"):
        change(table, 9, "U,1,?,late")
    assert rows(table) == [(1, "a2", "x"), (2, "b", "y")]
    assert table.log.head() == 2


def test_a_late_value_that_a_later_update_sent_is_superseded(table: Table) -> None:
    change(table, 12, "U,1,a2,?")
    assert change(table, 9, "U,1,late,?")["books"]["superseded"] == 1
    assert rows(table) == [(1, "a2", "x"), (2, "b", "y")]


def test_the_late_insert_of_a_row_that_an_update_made_is_refused(table: Table) -> None:
    change(table, 12, "U,3,c,?")
    with pytest.raises(UnsentValueError, match="did not send column city"):
        change(table, 9, "I,3,c,z")


def test_the_late_insert_of_a_row_with_other_values_is_refused(table: Table) -> None:
    """The row may have been deleted before it was inserted."""
    change(table, 12, "U,1,a2,?")
    with pytest.raises(UnsentValueError, match="did not send column city"):
        change(table, 9, "I,1,again,x2")


def test_a_late_row_before_a_late_delete_does_not_count(table: Table) -> None:
    change(table, 12, "I,1,a2,x2")
    change(table, 13, "U,1,a3,?")
    change(table, 9, "U,1,?,late", "D,1,?,?")
    assert rows(table)[0] == (1, "a3", "x2")


def test_a_late_row_counts_no_more_after_a_change_that_sends_all_columns(table: Table) -> None:
    change(table, 12, "U,1,a2,?")
    with pytest.raises(UnsentValueError, match="did not send column city"):
        change(table, 9, "U,1,?,late")
    change(table, 13, "U,1,a3,x3")
    assert rows(table)[0] == (1, "a3", "x3")


def test_changes_that_arrive_again_in_another_file_are_applied(table: Table) -> None:
    for hour in (10, 14):
        change(table, hour, "U,1,?,x2", "U,1,?,x3", "U,1,a2,?")
    assert rows(table)[0] == (1, "a2", "x3")


def test_a_late_file_with_all_columns_is_compared_with_rows_of_files_that_lacked_some(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    del table.item["CsvNoSupValue"]
    change(table, 12, "U,1,a2", header="Op,id,name")
    change(table, 9, "U,1,late,x", "U,2,b2,y2")
    assert rows(table) == [(1, "a2", "x"), (2, "b2", "y2")]
    with pytest.raises(UnsentValueError, match="did not send column city"):
        change(table, 10, "U,1,late,x2")


def test_a_null_that_means_unsent_is_known_when_a_value_arrives_late(tmp_path: Path) -> None:
    table = new_table(tmp_path, NullMeansUnsent="city")
    change(table, 12, "U,1,a2,NULL")
    with pytest.raises(UnsentValueError, match="did not send column city"):
        change(table, 9, "U,1,late,x2")


@dataclass(frozen=True)
class Change:
    """A change of one of two rows: its operation, and the columns that it sends."""

    op: str
    key: int
    sent: tuple[bool, bool]


def truth(changes: Sequence[Change]) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The lines of change files, one for each change that is possible, and the rows after them."""
    lines: list[str] = []
    now: dict[int, list[str]] = {1: ["a", "x"], 2: ["b", "y"]}
    for number, one in enumerate(changes):
        old = now.pop(one.key, None)
        if (one.op == "I") != (old is None):
            now.update({one.key: old} if old else {})
            continue
        sent = ["?", "?"]
        if one.op != "D":
            now[one.key] = list(old or ["", ""])
            for i in (0, 1):
                if one.sent[i] or one.op == "I":
                    now[one.key][i] = sent[i] = f"{number % 3}"
        lines.append(f"{one.op},{one.key},{sent[0]},{sent[1]}")
    return lines, sorted((key, *values) for key, values in now.items())


CHANGES = st.lists(
    st.builds(Change, st.sampled_from("IUUUD"), st.sampled_from([1, 1, 2]), st.tuples(st.booleans(), st.booleans())),
    min_size=2,
    max_size=8,
)


@examples(thorough=1_500, ci=60, test=20)
@given(changes=CHANGES, data=st.data())
def test_changes_in_any_order_make_the_same_rows_or_are_refused(changes: list[Change], data: st.DataObject) -> None:
    lines, expected = truth(changes)
    order = data.draw(st.permutations(range(len(lines))))
    runs_after = data.draw(st.lists(st.booleans(), min_size=len(lines), max_size=len(lines)))
    with TemporaryDirectory() as folder:
        table = new_table(Path(folder))
        try:
            for hour, runs in zip(order, runs_after, strict=True):
                table.put(f"20240305-{hour:02d}0000000.csv", f"Op,id,name,city\n{lines[hour]}\n".encode())
                if runs:
                    table.load_incremental()
            table.load_incremental()
        except UnsentValueError as error:
            assert list(order) != sorted(order), error
            assert "did not send column" in str(error)
        else:
            assert rows(table) == expected
