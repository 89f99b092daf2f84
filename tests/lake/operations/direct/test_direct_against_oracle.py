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
from cdclake.model.change import ChangeKind
from cdclake.model.position import position
from cdclake.oracle import ChangeRow, merge
from tests.examples import examples
from tests.lake.dying_store import Death, DiedError
from tests.lake.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.lake.operations.direct.input_tables import InputRows
    from cdclake.oracle import LakeRow

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

    def of(self, row: Row) -> Key:
        return tuple(row[name] for name in self.key)

    def table(self) -> dict[Key, LakeRow]:
        return {self.of(dict(found.row)): found for found in self.stored(soft_delete=False)}

    def stored(self, *, soft_delete: bool) -> list[LakeRow]:
        return merge(self.key, [], self.applied, soft_delete=soft_delete)

    def direct(self, op: str, asked: Sequence[Any]) -> list[tuple[Row, str | None]] | None:
        """Rows of a direct change with their ordering values; None if the change must be refused."""
        now = self.table()
        keys = [self.of(one[0] if op == "U" else one) for one in asked]
        if op == "D":
            return [(dict(now[key].row), self._ordering(now[key])) for key in dict.fromkeys(keys) if key in now]
        if len(set(keys)) < len(keys) or any((key in now) == (op == "I") for key in keys):
            return None
        if op == "I":
            return [(row, self._encoded(row)) for row in asked]
        return [
            (
                row := {**now[key].row, **changes},
                self._encoded(row) if self.order in changes else self._ordering(now[key]),
            )
            for key, (_, changes) in zip(keys, asked, strict=True)
        ]

    def _encoded(self, row: Row) -> str | None:
        return order_values(pa.array([row[self.order]], pa.int32()))[0].as_py() if self.order else None

    def _ordering(self, found: LakeRow) -> str | None:
        return found.position.rsplit("|", 2)[0] if self.order else None

    def loses(self, change: ChangeRow) -> bool:
        """Whether a later change of the same key is applied."""
        key = self.of(dict(change.row))
        return any(self.of(dict(one.row)) == key and one.position >= change.position for one in self.applied)


@examples(every_day=15, thorough=1_500)
@given(
    steps=st.lists(files | inserts | updates | deletes, min_size=2, max_size=7),
    hours=st.permutations(range(7)),
    clock=st.lists(st.integers(0, 400), min_size=7, max_size=7),
    runs=st.lists(st.booleans(), min_size=7, max_size=7),
    dying=st.lists(deaths, min_size=7, max_size=7),
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
    dying: list[Death | None],
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
        for number, (what, asked) in enumerate(steps):
            table.now += timedelta(minutes=clock[number])
            if what != "file":
                change_directly(table, model, what, asked, dying[number])
                continue
            table.write_changes(f"20240305-1{hours[number]}1500000.parquet", asked)
            if runs[number]:
                catch_up(table, model)
        catch_up(table, model)
        assert {model.of(one.row): place_left_out(one) for one in table.rows()} == {  # type: ignore[arg-type]
            model.of(one.row): place_left_out(one)  # type: ignore[arg-type]
            for one in model.stored(soft_delete=delete_mode == "soft")
        }
        snapshot = table.log.snapshot(table.log.head())
        assert snapshot.rows == len(model.table())
        # Of a call that died right before the end something may lie there until the next change is published.
        last = table.layout.staging_prefix(snapshot.change, "~")
        assert [one.key for one in table.log.store.list(table.layout.staging_folder) if one.key < last] == []


def change_directly(table: Table, model: Model, op: str, asked: list[Any], death: Death | None) -> None:
    """Apply a direct change to the table and, if it succeeds, to the model."""
    expected = model.direct(op, asked)
    before, table.death = table.log.head(), death
    refused = False
    with suppress(DiedError):
        try:
            table.direct(op, as_given(model, op, asked))
        except RefusedChangeError:
            refused = True
    table.death = None
    head = table.log.head()
    if head == before:
        assert death or refused or not expected
        if refused and expected:
            assert order_is_to_blame(model, op, expected)
        return
    record = table.log.record(head)
    assert (head, record.kind) == (before + 1, ChangeKind.DIRECT)
    assert expected
    made = as_changes(op, expected, record.raw_files[0])
    assert not any(model.loses(one) for one in made)
    model.applied += made
    if death:
        table.run().current()  # as the next run begins


def order_is_to_blame(model: Model, op: str, expected: list[tuple[Row, str | None]]) -> bool:
    """Whether the row's ordering value makes it lose even though the call is the latest."""
    return any(model.loses(one) for one in as_changes(op, expected, "direct/99991231-235959999.parquet"))


def as_changes(op: str, expected: list[tuple[Row, str | None]], relative: str) -> list[ChangeRow]:
    return [ChangeRow(position(relative, i, ordering), op, row) for i, (row, ordering) in enumerate(expected)]


def as_given(model: Model, op: str, asked: list[Any]) -> InputRows:
    if op == "I":
        return input_rows(asked)
    if op == "U":
        given: list[pa.Table] = []
        for row, changes in asked:  # one at a time, as a dict cannot hold a key twice
            identity = model.of(row)
            given.extend(input_updates({identity if len(identity) > 1 else identity[0]: changes}, model.key))  # type: ignore[arg-type]  # of a dict these are tables
        return given
    ids = [model.of(row) for row in asked]
    return input_keys([one[0] for one in ids] if len(model.key) == 1 else ids, model.key)


def catch_up(table: Table, model: Model) -> None:
    table.load_incremental()
    known = {change.position for change in model.applied}
    model.applied += [change for change in table.changes if change.position not in known]


def place_left_out(found: LakeRow) -> tuple[object, ...]:
    """A row without its number in the change file, which is irrelevant here."""
    return found.row, found.op, found.position.rpartition("|")[0]
