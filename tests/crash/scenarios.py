"""The runs under test: every job and every operator command, on a table that covers all features."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from cdclake.errors import DeadlyFileError
from cdclake.model.change.record import ChangeKind
from cdclake.model.iceberg.table import Readers
from cdclake.model.table.attributes import Attribute
from cdclake_devkit.oracle import LakeRow, merge
from tests.crash.faults import Injector
from tests.crash.runner import LAYOUT, Runner

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.crash.sandbox import Sandbox

KEY = ("id",)
LATE, FIRST, SECOND = (f"20240305-{hour}0000000.parquet" for hour in ("09", "10", "11"))
DEAD_RUN = "run-dead"
RETENTION = timedelta(days=30)
DELETED = (1, 5, 10, 77)
"""Ids in two partitions; one does not exist."""
ERASED = (1, 5, 6, 77)
"""Ids in three partitions; one does not exist, one was deleted and inserted again."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Scenario:
    """A run under test, with what happens before and after it.

    Attributes:
        prepare: Prepares the sandbox; returns the rows that the table must have after the run.
        run: The run into which a fault is injected.
        next_run: The run after the crash.
        idle_run: A run that has nothing to do.
        deactivates: Whether the run turns the table off.
        may_overlap: Whether the next run may start before the first has ended.
        rollback_to: Change to roll back to afterwards; None: undo the last change.
    """

    name: str
    prepare: Callable[[Sandbox], list[LakeRow]]
    run: Callable[[Runner], object]
    next_run: Callable[[Runner, Sandbox], object]
    idle_run: Callable[[Runner], object]
    deactivates: bool = False
    may_overlap: bool = True
    rollback_to: int | None = None


def _repeated(name: str, prepare: Callable[[Sandbox], list[LakeRow]], run: Callable[[Runner], object]) -> Scenario:
    """A scenario whose next run and idle run repeat the run."""
    return Scenario(name, prepare, run, lambda runner, _: run(runner), run)


def _row(number: int, city: str | None, amount: int, note: str = "") -> Row:
    return {"id": number, "city": city, "amount": amount, "note": note}


def _write_full_load(sandbox: Sandbox) -> None:
    """Two files, three partitions; one key occurs twice."""
    first = [_row(i, "Ulm", i) for i in (1, 2, 3)] + [_row(i, "Bonn", i) for i in (4, 5)] + [_row(6, "Kiel", 6)]
    sandbox.table.write_load(first, 1)
    sandbox.table.write_load([_row(7, "Bonn", 7), _row(8, "Ulm", 8, "early"), _row(8, "Ulm", 8, "again")], 2)
    sandbox.deliver()


def _write_first(sandbox: Sandbox) -> None:
    """Updates, one of them to another partition; an insert; deletes, one of an absent row; a new key; a bad row."""
    rows: list[tuple[str, Row, Row | None]] = [
        ("U", _row(1, "Ulm", 11), None),
        ("U", _row(2, "Kiel", 12, "moved"), None),
        ("D", _row(6, "Kiel", 6), None),
        ("I", _row(9, "Bonn", 9), None),
        ("U", _row(40, "Bonn", 40, "was 4"), {"id": 4}),
        ("D", _row(99, None, 0), None),
        ("X", _row(1, "Ulm", 0, "bad"), None),
    ]
    sandbox.table.write_changes(FIRST, rows)
    sandbox.table.changes = [change for change in sandbox.table.changes if change.op in "IUD"]
    sandbox.deliver()


def _write_second(sandbox: Sandbox) -> None:
    """Changes in three partitions, a new one, and one that loses its last row."""
    rows = [
        ("D", _row(3, "Ulm", 3)),
        ("U", _row(5, "Bonn", 15)),
        ("I", _row(10, "Rom", 10)),
        ("I", _row(11, None, 11)),
        ("D", _row(2, "Kiel", 12)),
        ("U", _row(40, "Bonn", 41)),
        ("I", _row(6, "Rom", 16, "back")),
    ]
    sandbox.table.write_changes(SECOND, rows)
    sandbox.deliver()


def _write_late(sandbox: Sandbox) -> None:
    """A file that sorts before applied ones: two of its rows are superseded, one is not."""
    rows = [("U", _row(1, "Ulm", 1000)), ("U", _row(6, "Kiel", 1000)), ("U", _row(8, "Ulm", 18, "late"))]
    sandbox.table.write_changes(LATE, rows)
    sandbox.deliver()


def _expected(sandbox: Sandbox, *, soft_delete: bool = False) -> list[LakeRow]:
    return merge(KEY, sandbox.table.loads, sandbox.table.changes, soft_delete=soft_delete)


def _with_full_load(sandbox: Sandbox) -> list[LakeRow]:
    _write_full_load(sandbox)
    return _expected(sandbox)


def _loaded(sandbox: Sandbox) -> None:
    """The table after change 1, the full load."""
    _write_full_load(sandbox)
    sandbox.runner().bring_up_to_date()


def _with_first(sandbox: Sandbox) -> None:
    """The table after changes 1 and 2, with tombstones."""
    _loaded(sandbox)
    _write_first(sandbox)
    sandbox.runner().bring_up_to_date()


def _with_second(sandbox: Sandbox) -> None:
    """The table after changes 1, 2 and 3."""
    _with_first(sandbox)
    _write_second(sandbox)
    sandbox.runner().bring_up_to_date()


def _with_new_full_load(sandbox: Sandbox) -> list[LakeRow]:
    """The table after changes 1 and 2, with a new full load due."""
    _with_first(sandbox)
    sandbox.table.loads.clear()
    sandbox.table.write_load([_row(1, "Ulm", 21), _row(2, "Kiel", 22), _row(20, "Rom", 20)], 1)
    sandbox.table.write_load([_row(21, "Ulm", 21)], 2)
    sandbox.deliver()
    return merge(KEY, sandbox.table.loads, ())


def _with_second_and_late_due(sandbox: Sandbox) -> list[LakeRow]:
    _with_first(sandbox)
    _write_second(sandbox)
    _write_late(sandbox)
    return _expected(sandbox)


def _with_soft_deletes_due(sandbox: Sandbox) -> list[LakeRow]:
    """The table has soft-deleted rows. Changes revive one of them and delete others, and some changes are late."""
    sandbox.set(Attribute.DELETE_MODE, "soft")
    _with_second_and_late_due(sandbox)
    return _expected(sandbox, soft_delete=True)


def _with_soft_deletes_to_purge(sandbox: Sandbox) -> list[LakeRow]:
    """The table has soft-deleted rows, but deletes are hard now."""
    sandbox.set(Attribute.DELETE_MODE, "soft")
    _with_first(sandbox)
    sandbox.set(Attribute.DELETE_MODE, "hard")
    _write_second(sandbox)
    return _expected(sandbox)


def _with_other_readers_due(sandbox: Sandbox) -> list[LakeRow]:
    """Readers change from the folder to an Iceberg table or back, with changes that are due."""
    readers = sandbox.state().settings.readers
    return _with_readers_due(sandbox, Readers.FOLDER if readers is Readers.ICEBERG else Readers.ICEBERG)


def _with_both_readers_due(sandbox: Sandbox) -> list[LakeRow]:
    """Readers of the folder and of an Iceberg table join the others or, if there are both, the latter leave."""
    readers = sandbox.state().settings.readers
    return _with_readers_due(sandbox, Readers.FOLDER if readers is Readers.BOTH else Readers.BOTH)


def _with_readers_due(sandbox: Sandbox, readers: Readers) -> list[LakeRow]:
    _with_first(sandbox)
    sandbox.set(Attribute.READERS, readers.value)
    _write_second(sandbox)
    _write_late(sandbox)
    return _expected(sandbox)


def _with_all_due(sandbox: Sandbox) -> list[LakeRow]:
    _write_full_load(sandbox)
    _write_first(sandbox)
    _write_second(sandbox)
    return _expected(sandbox)


def _with_dead(run: Callable[[Runner], object], sandbox: Sandbox) -> list[LakeRow]:
    """A run crashed right after it committed change 2. Its lease has expired, and more changes are due."""
    _loaded(sandbox)
    _write_first(sandbox)
    sandbox.run_crashing_at_commit(run, committed=True)
    sandbox.expire_lease()
    _write_second(sandbox)
    _write_late(sandbox)
    return _expected(sandbox)


def _to_roll_back(sandbox: Sandbox) -> list[LakeRow]:
    _with_second(sandbox)
    sandbox.view()
    return merge(KEY, sandbox.table.loads, [change for change in sandbox.table.changes if FIRST in change.position])


def _to_roll_back_all_changes(sandbox: Sandbox) -> list[LakeRow]:
    _with_second(sandbox)
    sandbox.view()
    return merge(KEY, sandbox.table.loads, ())


def _with_second_without(ids: Sequence[int], sandbox: Sandbox) -> list[LakeRow]:
    """The table after changes 1, 2 and 3, from which rows will be removed."""
    _with_second(sandbox)
    return [row for row in _expected(sandbox) if row.row["id"] not in ids]


def _rolled_back(sandbox: Sandbox) -> list[LakeRow]:
    _with_second(sandbox)
    sandbox.view()
    sandbox.runner().rollback()
    return _expected(sandbox)


def _with_old_files(sandbox: Sandbox) -> list[LakeRow]:
    """Change 1 is past its retention, and a crashed run left objects behind."""
    _loaded(sandbox)
    sandbox.environment.clock.advance(RETENTION.total_seconds())
    _write_first(sandbox)
    sandbox.runner().bring_up_to_date()
    sandbox.environment.clock.advance(RETENTION.total_seconds())
    _write_second(sandbox)
    sandbox.runner().bring_up_to_date()
    leftovers = (
        LAYOUT.staging_prefix(4, DEAD_RUN) + "00000-0-0.parquet",
        LAYOUT.staging_prefix(4, DEAD_RUN) + "00001-0-0.parquet",
        LAYOUT.snapshot_key(4, DEAD_RUN),
        LAYOUT.tombstones_key(4, DEAD_RUN) + "-0.parquet",
        LAYOUT.quarantine_prefix(4, DEAD_RUN) + "read-00000.jsonl",
    )
    of_iceberg = (
        LAYOUT.iceberg_data_prefix(4, DEAD_RUN) + "00000-0-0.parquet",
        LAYOUT.manifest_prefix(4, DEAD_RUN) + "-m0.avro",
    )
    lake = sandbox.environment.connector.ports(Injector()).lake
    for key in (*leftovers, *(of_iceberg if sandbox.state().settings.readers.open_iceberg else ())):
        lake.put(key, b"leftover")
    return _expected(sandbox)


def _with_expired_files(sandbox: Sandbox) -> list[LakeRow]:
    """A clean-up took expired snapshots out of an Iceberg table, more than an hour ago. Their files are left."""
    expected = _with_old_files(sandbox)
    sandbox.runner().clean_up(RETENTION)
    sandbox.environment.age_files()
    sandbox.view()
    return expected


def _to_repair(sandbox: Sandbox) -> list[LakeRow]:
    """Two data files vanished, and two foreign files appeared."""
    _with_second(sandbox)
    view = sandbox.view()
    lake = sandbox.environment.connector.ports(Injector()).lake
    vanished = [min(view.visible), max(view.visible)]  # one of the history, one of the table
    for path in vanished:
        lake.retire(LAYOUT.data_key(path), LAYOUT.retired_key(path))
    for name in ("copy-of-something.parquet", "city=Ulm/another.parquet"):
        lake.put(LAYOUT.data_key(name), view.visible[vanished[0]])
    return _expected(sandbox)


def _retry_unless_committed(
    kind: ChangeKind, command: Callable[[Runner], object]
) -> Callable[[Runner, Sandbox], object]:
    """After a crashed command, an operator lists the changes, and repeats the command if it did not commit."""

    def proceed(runner: Runner, sandbox: Sandbox) -> object:
        log = sandbox.view().log
        newest = next(record for record in log.newest_first(log.head()) if record.kind is not ChangeKind.TAKEOVER)
        return (Runner.repair if newest.kind is kind else command)(runner)

    return proceed


def _process_unless_deadly(runner: Runner, sandbox: Sandbox) -> None:
    """A table at which two Spark runs died fails. The hourly run after that tries again."""
    try:
        runner.process_table()
    except DeadlyFileError:
        sandbox.runner().process_table()


_load_incremental = methodcaller("load_incremental", FIRST, SECOND)
_rollback_to_the_full_load = methodcaller("rollback", to=1)
_delete_directly = methodcaller("delete_directly", *DELETED)
_erase = methodcaller("erase", *ERASED)
_clean_up = methodcaller("clean_up", RETENTION)

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        _repeated("LoadInitial", _with_full_load, Runner.load_initial),
        _repeated("LoadInitial-reload", _with_new_full_load, Runner.load_initial),
        _repeated("LoadIncremental", _with_second_and_late_due, _load_incremental),
        _repeated("LoadIncremental-soft-deletes", _with_soft_deletes_due, _load_incremental),
        _repeated("LoadIncremental-purge", _with_soft_deletes_to_purge, _load_incremental),
        _repeated("LoadIncremental-readers", _with_other_readers_due, _load_incremental),
        _repeated("LoadIncremental-both", _with_both_readers_due, _load_incremental),
        _repeated("run", _with_all_due, Runner.bring_up_to_date),
        _repeated("run-takeover", partial(_with_dead, Runner.bring_up_to_date), Runner.bring_up_to_date),
        _repeated("ProcessTable", _with_all_due, Runner.process_table),
        Scenario(
            "ProcessTable-takeover",
            partial(_with_dead, Runner.process_table),
            Runner.process_table,
            _process_unless_deadly,
            Runner.process_table,
        ),
        Scenario(
            "rollback",
            _to_roll_back,
            Runner.rollback,
            _retry_unless_committed(ChangeKind.ROLLBACK, Runner.rollback),
            Runner.bring_up_to_date,
            deactivates=True,
            may_overlap=False,  # two rollbacks of the last change undo two changes
        ),
        Scenario(
            "rollback-to",
            _to_roll_back_all_changes,
            _rollback_to_the_full_load,
            _retry_unless_committed(ChangeKind.ROLLBACK, _rollback_to_the_full_load),
            Runner.bring_up_to_date,
            deactivates=True,
        ),
        Scenario(
            "reapply",
            _rolled_back,
            Runner.reapply,
            _retry_unless_committed(ChangeKind.REAPPLY, Runner.reapply),
            Runner.repair,
        ),
        _repeated("direct-delete", partial(_with_second_without, DELETED), _delete_directly),
        Scenario(
            "erase",
            partial(_with_second_without, ERASED),
            _erase,
            lambda runner, _: _erase(runner),
            _erase,
            rollback_to=2,
        ),
        _repeated("clean-up", _with_old_files, _clean_up),
        _repeated("clean-up-expired", _with_expired_files, _clean_up),
        _repeated("repair", _to_repair, Runner.repair),
    )
}
