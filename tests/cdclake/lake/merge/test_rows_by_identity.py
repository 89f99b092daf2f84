"""The lake equals a database that knows its rows by identity, not by key, whatever keys its statements change.

The database checks keys at the end of a statement, as Oracle, SQL Server and deferrable constraints of PostgreSQL do.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from cdclake.errors import UnsettledKeyError
from tests.cdclake.lake.scd2.versions import check_newest_are_the_table
from tests.cdclake.lake.table import Table
from tests.examples import examples

COLUMNS = pa.schema([("id", pa.int64()), ("a", pa.string()), ("b", pa.int32())])
KEYS = range(1, 7)
Row = dict[str, Any]
Change = tuple[str, Row, "Row | None"]

values = st.fixed_dictionaries({"a": st.sampled_from(["x", "x", "y", None]), "b": st.integers(0, 1)})


@dataclass
class Database:
    """A table of rows with an identity each, and the change rows that its statements log."""

    rows: dict[int, Row] = field(default_factory=dict)
    log: list[Change] = field(default_factory=list)
    identities: int = 0

    def free_keys(self) -> list[int]:
        return sorted(set(KEYS) - {row["id"] for row in self.rows.values()})

    def insert(self, row: Row) -> None:
        self.identities += 1
        self.rows[self.identities] = row
        self.log.append(("I", dict(row), None))

    def update(self, identity: int, new: Row) -> None:
        old = self.rows[identity]
        self.rows[identity] = {**old, **new}
        self.log.append(("U", dict(self.rows[identity]), {"id": old["id"]}))

    def delete(self, identity: int, *, key_only: bool) -> None:
        row = self.rows.pop(identity)
        self.log.append(("D", {"id": row["id"]} if key_only else row, None))


def run_statement(draw: st.DrawFn, database: Database) -> None:
    kind = draw(st.sampled_from(["insert", "update", "delete", "keys", "keys", "keys"]))
    some = draw(st.lists(st.sampled_from(sorted(database.rows)), unique=True)) if database.rows else []
    if kind == "insert" and database.free_keys():
        database.insert({"id": draw(st.sampled_from(database.free_keys())), **draw(values)})
    elif kind == "update":
        for identity in some:
            database.update(identity, draw(values))
    elif kind == "delete":
        for identity in some[:2]:
            database.delete(identity, key_only=draw(st.booleans()))
    elif kind == "keys" and some:
        available = [*database.free_keys(), *(database.rows[identity]["id"] for identity in some)]
        keys = draw(st.permutations(available))
        changes = draw(st.none() | values) or {}
        for identity, key in zip(some, keys, strict=False):
            database.update(identity, {"id": key, **changes})


@st.composite
def histories(draw: st.DrawFn, most_overlapping: int = 0) -> dict[str, Any]:
    """Rows of a full load, the change rows of statements in files, and the rows after them.

    Args:
        most_overlapping: At most this many statements are both in the full load and in the files.
    """
    database = Database()
    for key in draw(st.lists(st.sampled_from(KEYS), unique=True)):
        database.insert({"id": key, **draw(values)})
    database.log = []
    overlapping = draw(st.integers(0, most_overlapping))
    for _ in range(overlapping):
        run_statement(draw, database)
    loaded = [dict(row) for row in database.rows.values()]
    for _ in range(draw(st.integers(1, 6))):
        run_statement(draw, database)
    cuts = sorted(draw(st.lists(st.integers(0, len(database.log)), max_size=5)))
    bounds = zip([0, *cuts], [*cuts, len(database.log)], strict=True)
    return {
        "loaded": loaded,
        "overlaps": overlapping > 0,
        "files": [range(start, end) for start, end in bounds if start < end],
        "log": database.log,
        "rows": sorted(database.rows.values(), key=lambda row: row["id"]),
        "item": {
            "DeleteMode": draw(st.sampled_from(["hard", "soft"])),
            "History": draw(st.sampled_from(["true", "false"])),
            "PartitionKey": draw(st.sampled_from(["null", "a"])),
        },
        "runs": draw(st.lists(st.booleans(), min_size=20, max_size=20)),
    }


def deliver(table: Table, history: dict[str, Any], number: int, rows: range, *, sequence: bool) -> None:
    """Write change rows as a file that sorts by its number.

    Their sequences are later than the full load, unless it overlaps.
    """
    log: list[Change] = [history["log"][i] for i in rows]
    if sequence:
        first = 0 if history["overlaps"] else 9
        log = [
            (op, {**row, "AR_H_CHANGE_SEQ": f"{first}{i:034}"}, old)
            for i, (op, row, old) in zip(rows, log, strict=True)
        ]
    sent = COLUMNS.append(pa.field("AR_H_CHANGE_SEQ", pa.string())) if sequence else COLUMNS
    table.columns = sent
    table.write_changes(f"20240305-{number:04}00000.parquet", log)
    table.columns = COLUMNS


def run(table: Table) -> bool:
    """Apply what has arrived; false if it cannot be decided yet."""
    try:
        table.load_incremental()
    except UnsettledKeyError:
        return False
    return True


def loaded_table(folder: str, history: dict[str, Any]) -> Table:
    table = Table(Path(folder), COLUMNS, {"PrimaryKey": "id", **history["item"]})
    if history["loaded"]:
        table.load(history["loaded"])
    return table


def check(table: Table, history: dict[str, Any]) -> None:
    found = sorted((one.row for one in table.rows() if one.op != "D"), key=lambda row: row["id"])
    assert found == history["rows"]
    if history["item"]["History"] == "true" and table.log.head():
        check_newest_are_the_table(table, ("id",))


@examples(thorough=1_500, ci=60, test=20)
@given(history=histories(), sequence=st.booleans())
def test_files_in_order_are_always_decided(history: dict[str, Any], sequence: bool) -> None:
    """Unless the full load might contain the changes, which only sequences can rule out."""
    with tempfile.TemporaryDirectory() as folder:
        table = loaded_table(folder, history)
        for number, (rows, runs) in enumerate(zip(history["files"], history["runs"], strict=False)):
            deliver(table, history, number, rows, sequence=sequence)
            if runs:
                run(table)
        is_decided = run(table)
        assert is_decided or (history["loaded"] and not sequence)
        if is_decided and (history["loaded"] or history["log"]):
            check(table, history)


@examples(thorough=1_500, ci=60, test=20)
@given(
    history=histories(most_overlapping=3),
    order=st.permutations(range(6)),
    again=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=3),
    sequence=st.booleans(),
)
def test_late_and_repeated_rows_are_decided_correctly_or_refused(
    history: dict[str, Any], order: list[int], again: list[tuple[int, int]], sequence: bool
) -> None:
    """Rows without a sequence are not delivered under another file name, which would make them new changes."""
    with tempfile.TemporaryDirectory() as folder:
        table = loaded_table(folder, history)
        arrivals = [(number, history["files"][number]) for number in order if number < len(history["files"])]
        if sequence:
            length = len(history["log"])
            arrivals += [
                (10 + i, range(min(start, length), min(start + n, length))) for i, (start, n) in enumerate(again)
            ]
        for (number, rows), runs in zip(arrivals, history["runs"], strict=False):
            if rows:
                deliver(table, history, number, rows, sequence=sequence)
            if runs:
                run(table)
        if run(table) and (history["loaded"] or history["log"]):
            check(table, history)


def test_the_late_half_of_an_update_that_the_full_load_contains_is_refused(tmp_path: Path) -> None:
    """Rows with the same values but their keys: row 2 moved to key 1, and row 1 to key 5."""
    row = {"a": "x", "b": 0}
    loaded = [{"id": key, **row} for key in (1, 5)]
    log = [("U", {"id": 1, **row}, {"id": 2}), ("U", {"id": 5, **row}, {"id": 1}), ("U", {"id": 5, **row}, {"id": 5})]
    history = {"loaded": loaded, "overlaps": True, "log": log, "item": {}}
    table = loaded_table(str(tmp_path), history)
    for number in (0, 2):
        deliver(table, history, number, range(number, number + 1), sequence=False)
    assert run(table)
    deliver(table, history, 1, range(1, 2), sequence=False)
    assert not run(table)
    assert sorted(one.row["id"] for one in table.rows()) == [1, 5]
