"""Direct changes and source files in any order equal the reference merge, or are refused."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from cdclake.errors import RefusedChangeError
from cdclake.lake.operations.direct.input_tables import input_keys, input_rows, input_updates
from cdclake.lake.raw.ordering import order_values
from cdclake.model.change.record import ChangeKind
from cdclake.model.position import position
from cdclake_devkit.oracle import ChangeRow, merge
from tests.cdclake.lake.table import Table
from tests.dying_store import Death, DiedError
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.lake.operations.direct.input_tables import InputRows
    from cdclake_devkit.oracle import LakeRow

COLUMNS = pa.schema([("id", pa.int64()), ("code", pa.string()), ("city", pa.string()), ("n", pa.int32())])
START = datetime(2024, 3, 5, 10, tzinfo=timezone.utc)

Row = dict[str, Any]
Key = tuple[Any, ...]

values = {"city": st.sampled_from([None, "Ulm", "Bonn"]), "n": st.none() | st.integers(-2, 2)}
rows = st.fixed_dictionaries({"id": st.integers(0, 4), "code": st.sampled_from("ab"), **values})
settings_of_columns = st.dictionaries(st.sampled_from(["city", "n"]), st.none(), min_size=1).flatmap(
    lambda names: st.fixed_dictionaries({name: values[name] for name in names})
)
deaths = st.none() | st.none() | st.builds(Death, st.integers(1, 12), st.booleans())
files = st.tuples(st.just("file"), st.lists(st.tuples(st.sampled_from("IUUD"), rows), min_size=1, max_size=5))
inserts = st.tuples(st.just("I"), st.lists(rows, min_size=1, max_size=3))
updates = st.tuples(st.just("U"), st.lists(st.tuples(rows, settings_of_columns), min_size=1, max_size=3))
deletes = st.tuples(st.just("D"), st.lists(rows, min_size=1, max_size=3))


@dataclass
class Model:
    """The expected table.

    Attributes:
        applied: Every change row that the lake table has seen.
    """

    key: tuple[str, ...]
    order: str | None
    applied: list[ChangeRow] = field(default_factory=list)

    def key_of(self, row: Row) -> Key:
        return tuple(row[name] for name in self.key)

    def table(self) -> dict[Key, LakeRow]:
        return {self.key_of(dict(found.row)): found for found in self.stored(soft_delete=False)}

    def stored(self, *, soft_delete: bool) -> list[LakeRow]:
        return merge(self.key, [], self.applied, soft_delete=soft_delete)

    def direct(self, op: str, rows: Sequence[Any]) -> list[tuple[Row, str | None]] | None:
        """Rows of a direct change with their ordering values; None if the change must be refused."""
        now = self.table()
        keys = [self.key_of(one[0] if op == "U" else one) for one in rows]
        if op == "D":
            return [(dict(now[key].row), self._ordering(now[key])) for key in dict.fromkeys(keys) if key in now]
        if len(set(keys)) < len(keys) or any((key in now) == (op == "I") for key in keys):
            return None
        if op == "I":
            return [(row, self._encoded(row)) for row in rows]
        return [
            (
                row := {**now[key].row, **changes},
                self._encoded(row) if self.order in changes else self._ordering(now[key]),
            )
            for key, (_, changes) in zip(keys, rows, strict=True)
        ]

    def _encoded(self, row: Row) -> str | None:
        return order_values(pa.array([row[self.order]], pa.int32()))[0].as_py() if self.order else None

    def _ordering(self, found: LakeRow) -> str | None:
        return found.position.rsplit("|", 2)[0] if self.order else None

    def loses(self, change: ChangeRow) -> bool:
        """Whether a later change of the same key is applied."""
        key = self.key_of(dict(change.row))
        return any(self.key_of(dict(one.row)) == key and one.position >= change.position for one in self.applied)


@examples(thorough=750, ci=15, test=5)
@given(
    steps=st.lists(files | inserts | updates | deletes, min_size=2, max_size=7),
    hours=st.permutations(range(7)),
    clock=st.lists(st.integers(0, 400), min_size=7, max_size=7),
    runs=st.lists(st.booleans(), min_size=7, max_size=7),
    crashes=st.lists(deaths, min_size=7, max_size=7),
    key=st.sampled_from([("id",), ("id", "code")]),
    partition=st.sampled_from(["null", "city"]),
    order=st.sampled_from([None, "n"]),
    delete_mode=st.sampled_from(["hard", "soft"]),
)
def test_direct_changes_and_change_files_in_any_order_equal_the_oracle(
    steps: list[tuple[str, Any]],
    hours: list[int],
    clock: list[int],
    runs: list[bool],
    crashes: list[Death | None],
    key: tuple[str, ...],
    partition: str,
    order: str | None,
    delete_mode: str,
) -> None:
    item = {"PrimaryKey": ",".join(key), "PartitionKey": partition, "DeleteMode": delete_mode}
    item |= {"OrderColumn": order} if order else {}
    model = Model(key, order)
    with tempfile.TemporaryDirectory() as folder:
        table = Table(Path(folder), COLUMNS, item)
        table.now = START
        insert_first = [{"id": 0, "code": "a", "city": "Ulm", "n": 0}]
        change_directly(table, model, "I", insert_first, None)
        for number, (op, step_rows) in enumerate(steps):
            table.now += timedelta(minutes=clock[number])
            if op != "file":
                change_directly(table, model, op, step_rows, crashes[number])
                continue
            ordered = [(op, {**row, "n": row["n"] or 0} if order else row) for op, row in step_rows]
            table.write_changes(f"20240305-1{hours[number]}1500000.parquet", ordered)
            if runs[number]:
                catch_up(table, model)
        catch_up(table, model)
        assert {model.key_of(one.row): without_row_number(one) for one in table.rows()} == {  # type: ignore[arg-type]
            model.key_of(one.row): without_row_number(one)  # type: ignore[arg-type]
            for one in model.stored(soft_delete=delete_mode == "soft")
        }
        snapshot = table.log.snapshot(table.log.head())
        assert snapshot.rows == len(model.table())
        # A call that crashed right before the end may leave files until the next change is published.
        last = table.layout.staging_prefix(snapshot.change, "~")
        assert [one.key for one in table.log.store.list(table.layout.staging_folder) if one.key < last] == []


def change_directly(table: Table, model: Model, op: str, rows: list[Any], death: Death | None) -> None:
    """Apply a direct change to the table and, if it succeeds, to the model."""
    expected = model.direct(op, rows)
    before, table.death = table.log.head(), death
    refused = False
    with suppress(DiedError):
        try:
            table.direct(op, as_input(model, op, rows))
        except RefusedChangeError:
            refused = True
    table.death = None
    head = table.log.head()
    if head == before:
        assert death or refused or not expected
        if refused and expected:
            assert loses_by_ordering(model, op, expected)
        return
    record = table.log.record(head)
    assert (head, record.kind) == (before + 1, ChangeKind.DIRECT)
    assert expected
    changes = as_changes(op, expected, record.raw_names[0])
    assert not any(model.loses(one) for one in changes)
    model.applied += changes
    if death:
        table.run().current()  # as at the start of the next run


def loses_by_ordering(model: Model, op: str, expected: list[tuple[Row, str | None]]) -> bool:
    """Whether the row's ordering value makes it lose even though the call is the latest."""
    return any(model.loses(one) for one in as_changes(op, expected, "direct/99991231-235959999.parquet"))


def as_changes(op: str, expected: list[tuple[Row, str | None]], relative: str) -> list[ChangeRow]:
    return [ChangeRow(position(relative, i, ordering), op, row) for i, (row, ordering) in enumerate(expected)]


def as_input(model: Model, op: str, rows: list[Any]) -> InputRows:
    if op == "I":
        return input_rows(rows)
    if op == "U":
        tables: list[pa.Table] = []
        for row, changes in rows:  # one at a time, because a dict cannot repeat a key
            key = model.key_of(row)
            tables.extend(input_updates({key if len(key) > 1 else key[0]: changes}, model.key))  # type: ignore[arg-type]  # tables, because the input is a dict
        return tables
    keys = [model.key_of(row) for row in rows]
    return input_keys([key[0] for key in keys] if len(model.key) == 1 else keys, model.key)


def catch_up(table: Table, model: Model) -> None:
    table.load_incremental()
    applied = {change.position for change in model.applied}
    model.applied += [change for change in table.changes if change.position not in applied]


def without_row_number(found: LakeRow) -> tuple[object, ...]:
    """A row without its number in the change file, which is irrelevant here."""
    return found.row, found.op, found.position.rpartition("|")[0]
