"""Changes are checked and written for many tables, and the error of one does not stop the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cdclake.control.admin.installation import Installation
from cdclake.errors import ConfigurationError
from cdclake.model.snapshot import Snapshot
from cdclake.model.table.name import TableName
from cdclake_cli.config.carry_out import carry_out, checked
from cdclake_cli.config.column_checks import Checks
from cdclake_cli.config.compare import TableChange, compare
from cdclake_cli.config.model import Config
from cdclake_devkit.memory import MemoryState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cdclake.model.table.state import TableState

HERE = Installation()
NAMES = [TableName(f"s{number % 10}", f"t{number}") for number in range(1000)]


class Counting(MemoryState):
    """Counts writes."""

    writes = 0

    def register(self, state: TableState) -> bool:
        self.writes += 1
        return super().register(state)

    def set_attributes(self, path: str, attributes: Mapping[str, str]) -> None:
        self.writes += 1
        super().set_attributes(path, attributes)


def test_each_table_that_changes_is_written_once_and_the_others_never():
    states = Counting(map(HERE.new_state, NAMES))
    config = Config({"Readers": "both", "CleanUp": "automatic"}, {"s[0-4].*": {"ActiveFlag": "true"}, "s9.new": {}})
    found = compare(config, states.all(), HERE.new_state)
    done: list[TableChange] = []
    carry_out(states, found.changes, done)
    assert (len(done), states.writes) == (501, 501)
    again = compare(config, states.all(), HERE.new_state)
    assert (again.changes, again.equal, len(again.unmatched)) == ((), 501, 500)


def test_the_lake_is_read_only_of_tables_whose_columns_are_set():
    read: list[TableName] = []

    def lake(state: TableState) -> Snapshot:
        read.append(state.name)
        return Snapshot()

    compared: list[TableName] = []
    loaded, new, other = (HERE.new_state(name) for name in NAMES[:3])
    loaded = loaded.with_attributes(LastChangeId="3")
    changes = [
        TableChange(loaded, {"PrimaryKey": "id"}),
        TableChange(new, {"PrimaryKey": "id"}),
        TableChange(other, {"Readers": "both"}),
        TableChange(loaded, {"Readers": "both"}),
    ]
    done = checked(changes, Checks(lake, lambda state, *_: compared.append(state.name)))
    assert len(done) == 4
    assert sorted(read) == sorted(compared) == sorted([loaded.name, new.name])


def test_errors_are_those_of_their_tables(capsys: pytest.CaptureFixture[str]):
    def columns(state: TableState, *_: object) -> None:
        if state.name == NAMES[0]:
            raise ConfigurationError("PrimaryKey names 'id', which is not a column")

    changes = [
        TableChange(HERE.new_state(NAMES[0]), {"PrimaryKey": "id"}),
        TableChange(HERE.new_state(NAMES[1]), {"PrimaryKey": "id"}),
        TableChange(HERE.new_state(NAMES[2]), {"Readers": "wrong"}),
        TableChange(HERE.new_state(TableName("_cdclake", "x")), {}, is_new=True),
    ]
    with pytest.raises(ConfigurationError, match="3 of 4 tables failed"):
        checked(changes, Checks(lambda _: Snapshot(), columns))
    names = {line.partition(":")[0] for line in capsys.readouterr().err.splitlines()}
    assert names == {str(NAMES[0]), str(NAMES[2]), "_cdclake.x"}


def test_a_table_that_vanished_or_was_registered_meanwhile_fails_alone(capsys: pytest.CaptureFixture[str]):
    states = MemoryState([HERE.new_state(NAMES[0]), HERE.new_state(NAMES[1])])
    changes = [
        TableChange(HERE.new_state(NAMES[0]), {"Readers": "both"}),
        TableChange(HERE.new_state(NAMES[1]), {"Readers": "both"}, is_new=True),
        TableChange(HERE.new_state(NAMES[2]), {"Readers": "both"}),
    ]
    done: list[TableChange] = []
    with pytest.raises(ConfigurationError, match="2 of 3 tables failed"):
        carry_out(states, changes, done)
    assert [change.name for change in done] == [NAMES[0]]
    errors = dict(line.split(": ")[:2] for line in capsys.readouterr().err.splitlines())
    assert errors == {str(NAMES[1]): "CommitConflictError", str(NAMES[2]): "UnknownTableError"}
    assert [state.item.get("Readers") for state in states.all()] == ["both", None]
