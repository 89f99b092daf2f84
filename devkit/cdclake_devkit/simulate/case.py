"""A case: what happens in a simulation from outside, and when. It is drawn from a seed, and can be made smaller."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from cdclake.model.table.attributes import Attribute
from cdclake_devkit.simulate.faults import Fault, FaultPlan
from cdclake_devkit.simulate.source import TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SEQUENCED = "Sequenced"
"""A setting that the product ignores: DMS writes change sequences, and names late files by when they are written."""
KEY_UPDATES = "KeyUpdates"
"""A setting that the product ignores: the source updates keys, and DMS sends the keys before."""
BAD_ROWS = "BadRows"
"""Another one: many change files have a row that is quarantined."""
CSV_FILES = "CsvFiles"
"""Another one: raw files are CSV files, too."""
ADOPTED, ADOPT = "Adopted", "adopt"
"""Another one, and the step in place of the first load: the files of another program become the table."""
HOUR = 3600.0
_MORE = 0.1
"""Share of the tables that have each of these features."""
QUIET_HOURS = 10
"""How long a run goes on after the last step and the last fault: until then every table must be well."""
DEFAULT_HOURS = 4.0
OPERATIONS = ("rollback", "reapply", "clean up", "repair", "foreign file", "erase", "pause", "settings", "run", "read")
_LEASED = frozenset({"rollback", "reapply", "clean up", "repair", "erase"})
ADD_COLUMN = "add column"
EXPIRE_RAW_FILES = "expire raw files"
"""A lifecycle rule removes applied change files. After a rollback they would be missed."""
CHANGE_ROW, RELEASE = "change row", "release"
"""Operators change a row by hand, or correct quarantined rows in their raw files and release them."""
LOSE, OVERWRITE = "lose raw file", "overwrite raw file"
"""Someone removes a change file, or puts other rows into it, before it is applied or after."""


class Step(NamedTuple):
    """Something that happens from outside.

    Attributes:
        at: Simulated seconds since the start.
        kind: What happens: `change`, `load`, `controller`, `ADD_COLUMN`, `EXPIRE_RAW_FILES`, `LOSE`, `OVERWRITE`,
            `CHANGE_ROW`, `RELEASE`, `ADOPT` or one of `OPERATIONS`.
        table: Number of the table.
        seed: Decides the rest.
        number: Tells steps apart, whichever others there are.
    """

    at: float
    kind: str
    table: int
    seed: int
    number: int = 0

    @property
    def name(self) -> str:
        """Name of the process that does it."""
        return f"{self.kind.replace(' ', '-')}{self.number}"


@dataclass(frozen=True)
class Case:
    """A run to simulate.

    Attributes:
        hours: How long steps and faults go on.
        tables: Settings of each table.
        steps: In the order of their times.
        faults: How calls go wrong.
        only: If given, the only faults that happen.
        skew_seconds: By how much the clock of a process is off at most.
        versions: Whether the lake bucket keeps versions.
        small_changes: Whether the function for small changes does the work of ProcessTable.
    """

    seed: int
    hours: float
    tables: tuple[dict[str, str], ...]
    steps: tuple[Step, ...]
    faults: FaultPlan
    only: tuple[Fault, ...] | None = None
    skew_seconds: float = 0.0
    versions: bool = False
    small_changes: bool = False


def drawn(seed: int, hours: float = DEFAULT_HOURS) -> Case:
    """The case of a seed."""
    chance = Random(seed)
    tables = tuple(_settings(chance) for _ in range(chance.choice((1, 1, 2))))
    steps = [Step(0.0, "load", number, chance.getrandbits(32)) for number in range(len(tables))]
    steps += [Step(hour * HOUR + chance.uniform(1, 60), "controller", 0, 0) for hour in range(int(hours))]
    only_undoes = chance.random() < 0.2
    if only_undoes:
        faults = FaultPlan.of_undoes(seed, chance)
        several = {Attribute.PARTITION_KEY: "region", Attribute.READERS: "folder"}  # files that a change moves
        tables = tuple({**settings, **several} for settings in tables)
        for number in range(len(tables)):
            steps += _undone_changes(chance, hours, number)
    else:
        operations = _operations(chance)
        at_work = (kind.replace(" ", "-") for kind in operations if kind in _LEASED)
        faults = FaultPlan.drawn(seed, chance, ("load", "load", "process", "try", *at_work))
        span = hours * HOUR * chance.choice((0.1, 0.3, 1.0))  # the shorter, the more meet
        for number in range(len(tables)):
            steps += _changes(chance, hours, span, number, may_reload=SEQUENCED not in tables[number])
            steps += _operators(chance, hours, span, number, operations)
    skew = chance.choice((0.0, 0.0, 5.0, 4000.0))
    versions, small_changes = not only_undoes and chance.random() < 0.4, chance.random() < 0.3
    numbered = [step._replace(number=number) for number, step in enumerate(sorted(steps))]
    tables, steps = _with_more(Random(f"{seed}|more"), tables, numbered)
    return Case(seed, hours, tables, tuple(steps), faults, None, skew, versions, small_changes)


def _with_more(
    chance: Random, tables: tuple[dict[str, str], ...], steps: list[Step]
) -> tuple[tuple[dict[str, str], ...], list[Step]]:
    """Tables and steps with what a share of the seeds has besides. It is drawn apart, so the rest stays as it is."""
    more = [_more_settings(chance) for _ in tables]
    changed = tuple({**settings, **added} for settings, added in zip(tables, more))
    # Which rows an erasure concerns if their keys were others before, the oracle does not know. And updates of keys
    # without a column that the table has are refused.
    steps = [step for step in steps if step.kind not in ("erase", ADD_COLUMN) or KEY_UPDATES not in more[step.table]]
    steps = [step._replace(kind=ADOPT) if step.at == 0.0 and ADOPTED in more[step.table] else step for step in steps]
    numbers = itertools.count(max(step.number for step in steps) + 1)
    for number, settings in enumerate(changed):
        if BAD_ROWS in settings:  # a file that an operator corrects is damaged by nobody
            added = _after_changes(chance, steps, number, (RELEASE,), 2000.0)
        elif chance.random() < _MORE * 1.5 and SEQUENCED not in settings:  # the remedy is a reload
            added = _after_changes(chance, steps, number, (LOSE, OVERWRITE), 200.0)
        else:
            added = []
        if added:  # which rows of such files an erasure concerns, the oracle does not know, either
            steps = [step for step in steps if step.kind != "erase" or step.table != number]
        if chance.random() < _MORE:  # late rows with a column that a direct change did not know are refused
            steps = [step for step in steps if step.kind != ADD_COLUMN or step.table != number]
            added += _after_changes(chance, steps, number, (CHANGE_ROW,), 1000.0)
        steps += [step._replace(number=next(numbers)) for step in added]
    return changed, sorted(steps)


def _after_changes(chance: Random, steps: list[Step], table: int, kinds: Sequence[str], seconds: float) -> list[Step]:
    """Steps that come up to some seconds after the source changed."""
    changes = [step for step in steps if step.kind == "change" and step.table == table]
    return [
        Step(step.at + chance.uniform(1, seconds), chance.choice(kinds), table, chance.getrandbits(32))
        for step in chance.sample(changes, min(len(changes), 3))
    ]


def _more_settings(chance: Random) -> dict[str, str]:
    settings: dict[str, str] = {}
    if chance.random() < _MORE:
        settings |= {KEY_UPDATES: "true", Attribute.UNIQUE_CHECKS: "immediate"}
    if chance.random() < _MORE:
        settings |= {BAD_ROWS: "true", Attribute.MAX_QUARANTINED_ROWS: "100"}
    if chance.random() < _MORE:
        settings |= {CSV_FILES: "true", Attribute.ADD_COLUMN_NAME: "true", Attribute.SCHEMA: TYPES}
    if chance.random() < _MORE:
        settings |= {ADOPTED: "true", Attribute.SCHEMA: TYPES}  # folders tell no types
    return settings


def _operations(chance: Random) -> list[str]:
    if chance.random() < 0.3:
        return ["rollback", "rollback", "reapply", chance.choice(OPERATIONS)]
    operations = [kind for kind in OPERATIONS if chance.random() < 0.4]
    if "rollback" not in operations and chance.random() < 0.5:
        operations.append(EXPIRE_RAW_FILES)
    return operations


def _changes(chance: Random, hours: float, span: float, table: int, *, may_reload: bool) -> Iterator[Step]:
    for _ in range(round(hours * chance.choice((0.7, 1.5, 2.5)))):
        at = chance.uniform(60, span)
        for _ in range(chance.choice((1, 1, 1, 3))):
            at += chance.uniform(0, 90)
            yield Step(at, "change", table, chance.getrandbits(32))
    # DMS writes what it has read before it loads a table again; here it may be late.
    if chance.random() < 0.25 and may_reload:
        yield Step(chance.uniform(60, span), "load", table, chance.getrandbits(32))
    if chance.random() < 0.25:
        yield Step(chance.uniform(60, span), ADD_COLUMN, table, 0)


def _operators(chance: Random, hours: float, span: float, table: int, operations: Sequence[str]) -> Iterator[Step]:
    if "rollback" in operations:  # also when no change comes after it
        yield Step((hours - chance.random()) * HOUR, "rollback", table, chance.getrandbits(32))
    for _ in range(round(hours * chance.choice((0.5, 1.0, 2.0))) if operations else 0):
        at = chance.uniform(60, span)
        yield Step(at, chance.choice(operations), table, chance.getrandbits(32))
        # Others come while it works, or sleeps.
        others = ("change", "change", "run", chance.choice(operations))
        for kind in chance.sample(others, chance.choice((0, 1, 3))):
            at += chance.choice((5.0, 60.0, 400.0)) * chance.random()
            yield Step(at, kind, table, chance.getrandbits(32))


def _undone_changes(chance: Random, hours: float, table: int) -> Iterator[Step]:
    """Some changes, each undone soon, when the lease of a run that sleeps has just expired."""
    for _ in range(round(hours)):
        at = chance.uniform(60, hours * HOUR)
        yield from (Step(at, "change", table, chance.getrandbits(32)) for _ in range(chance.choice((1, 3))))
        at += chance.uniform(100, 700)
        yield Step(at, "rollback", table, chance.getrandbits(32))
        if chance.random() < 0.5:
            yield Step(at + chance.uniform(5, 700), "reapply", table, chance.getrandbits(32))


def _settings(chance: Random) -> dict[str, str]:
    settings = {Attribute.PRIMARY_KEY: "id", Attribute.FULL_LOAD_QUIET_MINUTES: chance.choice(("0", "0", "10"))}
    if chance.random() < 0.3:
        settings[Attribute.PARTITION_KEY] = "region"
    if chance.random() < 0.3:
        settings[Attribute.MAX_FILES_PER_RUN] = "2"
    if chance.random() < 0.2:
        settings[Attribute.DELETE_MODE] = "soft"
    settings[Attribute.READERS] = chance.choice(("folder",) * 6 + ("iceberg", "both"))
    if chance.random() < 0.15:
        settings[Attribute.HISTORY] = "true"
    if chance.random() < 0.3:
        settings[SEQUENCED] = "true"
    if chance.random() < 0.2:
        settings[Attribute.MAX_QUARANTINED_ROWS] = "100"
    return settings
