"""A history: SQL to run on a database, how it is replicated, and how its raw files are delivered.

The `repr` of a history can be evaluated, so that a failing one can be replayed: see `tests/databases/replay.py`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A table of a history.

    Attributes:
        key: Columns of the primary key.
        altered: Columns that an ALTER TABLE adds, drops, renames or retypes.
        attributes: What the operator sets, by attribute.
    """

    name: str
    key: tuple[str, ...]
    altered: tuple[str, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Phase:
    """A part of a history, after which the lake must equal the database, unless files are held back.

    Attributes:
        sql: Statements in order, with `begin`, `commit` and `rollback`. One that the database refuses does nothing.
        alter: Then these, which alter a table.
        reload: Whether the full load is repeated at this point. The changes in `alter` are then not sent.
        then: Then these.
        ticks: Seconds that pass each time the replication asks for the time, in turn. They cut the changes into files.
        delays: By how many places each raw file arrives late, in turn.
        runs: Whether the jobs run after each arrival, in turn. They always run at the end.
        repeats: For each arrival, in turn, the index among the files delivered so far of one that is delivered again;
            -1 for none.
        holds: Whether files that arrive late by four places or more arrive only in the next phase.
        dies: Whether the replication dies when it saves its progress for the first time. It begins again, and sends the
            same changes under new names.
    """

    sql: tuple[str, ...]
    alter: tuple[str, ...] = ()
    reload: bool = False
    then: tuple[str, ...] = ()
    ticks: tuple[int, ...] = (0,)
    delays: tuple[int, ...] = (0,)
    runs: tuple[bool, ...] = (False,)
    repeats: tuple[int, ...] = (-1,)
    holds: bool = False
    dies: bool = False


@dataclass(frozen=True)
class History:
    """All of it.

    Attributes:
        settings: DMS settings by name, as text.
        create: Statements that create and fill the tables, before the replication begins.
        overlap: Statements that run after the replication has begun and before the full load, which therefore
            contains their rows as the change files do.
        load_delays: Seconds by which each `LOAD` file's Last-Modified differs, in turn.
        small_changes: Bytes and memory of a change that the jobs handle without Spark's tasks, and bytes of one
            whose rows the driver reads.
        in_place_bytes: Memory of the rows of a file that one task looks up, resolves and rewrites.
    """

    tables: tuple[Table, ...]
    settings: tuple[tuple[str, str], ...]
    create: tuple[str, ...]
    overlap: tuple[str, ...]
    phases: tuple[Phase, ...]
    load_delays: tuple[int, ...] = (0,)
    small_changes: tuple[int, int, int] = (0, 0, 0)
    in_place_bytes: int = 0

    def __str__(self) -> str:
        """One line for each statement, setting and delivery."""
        lines = [f"{name} = {value!r}" for name, value in self.settings]
        lines += [f"table {table.name}: key {table.key}, {dict(table.attributes)}" for table in self.tables]
        lines += ["-- before the replication", *self.create]
        lines += ["-- also in the full load", *self.overlap] if self.overlap else []
        for number, phase in enumerate(self.phases, 1):
            delivery = {name: value for name, value in vars(phase).items() if name not in {"sql", "alter", "then"}}
            lines += [f"-- phase {number}: {delivery}", *phase.sql, *phase.alter, *phase.then]
        return "\n".join(lines)
