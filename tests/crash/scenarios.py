"""What is struck by faults: each job and each command of an operator, on a table with something of everything."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from cdclake.model.change import ChangeKind
from cdclake.model.names import Attribute
from cdclake.oracle import merge
from tests.crash.actor import LAYOUT, Actor
from tests.crash.faults import Injector

if TYPE_CHECKING:
    from collections.abc import Callable

    from cdclake.oracle import LakeRow
    from tests.crash.stage import Stage

KEY = ("id",)
LATE, FIRST, SECOND = (f"20240305-{hour}0000000.parquet" for hour in ("09", "10", "11"))
DEAD_RUN = "run-dead"
RETENTION = timedelta(days=30)
DELETED = (1, 5, 10, 77)
ERASED = (1, 5, 6, 77)

Row = dict[str, Any]


@dataclass(frozen=True)
class Scenario:
    """A run to be struck, and what comes before and after.

    Attributes:
        prepare: Sets the stage; returns the rows that the table must hold once the run is through.
        run: The run that is struck.
        next_run: The run that comes when the struck one is dead.
        after_that: A run that finds nothing left to do.
        pauses: Whether the run turns the table off.
        may_come_twice: Whether the next run may come before the first is through.
        goes_back_to: Change to go back to from what came of it; None: its last change is undone.
    """

    name: str
    prepare: Callable[[Stage], list[LakeRow]]
    run: Callable[[Actor], object]
    next_run: Callable[[Actor, Stage], object]
    after_that: Callable[[Actor], object]
    pauses: bool = False
    may_come_twice: bool = True
    goes_back_to: int | None = None


def _repeated(name: str, prepare: Callable[[Stage], list[LakeRow]], run: Callable[[Actor], object]) -> Scenario:
    """A run that is simply made again."""
    return Scenario(name, prepare, run, lambda actor, _: run(actor), run)


def _row(number: int, city: str | None, amount: int, note: str = "") -> Row:
    return {"id": number, "city": city, "amount": amount, "note": note}


def _write_full_load(stage: Stage) -> None:
    """Two files, three partitions; one key comes twice."""
    first = [_row(i, "Ulm", i) for i in (1, 2, 3)] + [_row(i, "Bonn", i) for i in (4, 5)] + [_row(6, "Kiel", 6)]
    stage.table.write_load(first, 1)
    stage.table.write_load([_row(7, "Bonn", 7), _row(8, "Ulm", 8, "early"), _row(8, "Ulm", 8, "again")], 2)
    stage.deliver()


def _write_first(stage: Stage) -> None:
    """Updates, one of them to another partition; an insert; deletes, one of no row; a new key; a row that is bad."""
    rows: list[tuple[str, Row, Row | None]] = [
        ("U", _row(1, "Ulm", 11), None),
        ("U", _row(2, "Kiel", 12, "moved"), None),
        ("D", _row(6, "Kiel", 6), None),
        ("I", _row(9, "Bonn", 9), None),
        ("U", _row(40, "Bonn", 40, "was 4"), {"id": 4}),
        ("D", _row(99, None, 0), None),
        ("X", _row(1, "Ulm", 0, "bad"), None),
    ]
    stage.table.write_key_changes(FIRST, rows)
    stage.table.changes = [change for change in stage.table.changes if change.op in "IUD"]
    stage.deliver()


def _write_second(stage: Stage) -> None:
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
    stage.table.write_changes(SECOND, rows)
    stage.deliver()


def _write_late(stage: Stage) -> None:
    """A file that sorts before those applied: two rows come too late to count, one does not."""
    rows = [("U", _row(1, "Ulm", 1000)), ("U", _row(6, "Kiel", 1000)), ("U", _row(8, "Ulm", 18, "late"))]
    stage.table.write_changes(LATE, rows)
    stage.deliver()


def _expected(stage: Stage, *, soft_delete: bool = False) -> list[LakeRow]:
    return merge(KEY, stage.table.loads, stage.table.changes, soft_delete=soft_delete)


def _with_full_load(stage: Stage) -> list[LakeRow]:
    _write_full_load(stage)
    return _expected(stage)


def _loaded(stage: Stage) -> None:
    """The table after change 1, the full load."""
    _write_full_load(stage)
    stage.actor().process_table()


def _with_first(stage: Stage) -> None:
    """The table after changes 1 and 2, with remembered deletes."""
    _loaded(stage)
    _write_first(stage)
    stage.actor().process_table()


def _with_second(stage: Stage) -> None:
    """The table after changes 1, 2 and 3."""
    _with_first(stage)
    _write_second(stage)
    stage.actor().process_table()


def _with_new_full_load(stage: Stage) -> list[LakeRow]:
    """After changes 1 and 2, the table has been loaded anew at the source."""
    _with_first(stage)
    stage.table.loads.clear()
    stage.table.write_load([_row(1, "Ulm", 21), _row(2, "Kiel", 22), _row(20, "Rom", 20)], 1)
    stage.table.write_load([_row(21, "Ulm", 21)], 2)
    stage.deliver()
    return merge(KEY, stage.table.loads, ())


def _with_second_and_late_due(stage: Stage) -> list[LakeRow]:
    _with_first(stage)
    _write_second(stage)
    _write_late(stage)
    return _expected(stage)


def _with_soft_deletes_due(stage: Stage) -> list[LakeRow]:
    """Rows were deleted softly; one of them is revived now, others are deleted, and late changes tell of some."""
    stage.set(Attribute.DELETE_MODE, "soft")
    _with_second_and_late_due(stage)
    return _expected(stage, soft_delete=True)


def _with_soft_deletes_to_purge(stage: Stage) -> list[LakeRow]:
    """Rows were deleted softly, and are to be so no longer."""
    stage.set(Attribute.DELETE_MODE, "soft")
    _with_first(stage)
    stage.set(Attribute.DELETE_MODE, "hard")
    _write_second(stage)
    return _expected(stage)


def _with_all_due(stage: Stage) -> list[LakeRow]:
    _write_full_load(stage)
    _write_first(stage)
    _write_second(stage)
    return _expected(stage)


def _with_dead_run(stage: Stage) -> list[LakeRow]:
    """Change 2 was committed by a run that died then and there; its lease has run out, and more is due."""
    _loaded(stage)
    _write_first(stage)
    stage.run_that_dies(Actor.process_table, committed=True)
    stage.outlive_lease()
    _write_second(stage)
    _write_late(stage)
    return _expected(stage)


def _to_roll_back(stage: Stage) -> list[LakeRow]:
    _with_second(stage)
    stage.look()
    return merge(KEY, stage.table.loads, [change for change in stage.table.changes if FIRST in change.position])


def _to_roll_back_all_changes(stage: Stage) -> list[LakeRow]:
    _with_second(stage)
    stage.look()
    return merge(KEY, stage.table.loads, ())


def _to_delete_from(stage: Stage) -> list[LakeRow]:
    """Rows of two partitions are to go, and one that is not there."""
    _with_second(stage)
    return [found for found in _expected(stage) if found.row["id"] not in DELETED]


def _to_erase_from(stage: Stage) -> list[LakeRow]:
    """Rows of three partitions are to go, and one that is nowhere; one was deleted, and is there again."""
    _with_second(stage)
    return [found for found in _expected(stage) if found.row["id"] not in ERASED]


def _rolled_back(stage: Stage) -> list[LakeRow]:
    _with_second(stage)
    stage.look()
    stage.actor().rollback()
    return _expected(stage)


def _with_old_files(stage: Stage) -> list[LakeRow]:
    """Change 1 is no longer to be kept, and a run that died left things behind."""
    _loaded(stage)
    stage.world.clock.advance(RETENTION.total_seconds())
    _write_first(stage)
    stage.actor().process_table()
    stage.world.clock.advance(RETENTION.total_seconds())
    _write_second(stage)
    stage.actor().process_table()
    left = (
        LAYOUT.staging_prefix(4, DEAD_RUN) + "00000-0-0.parquet",
        LAYOUT.staging_prefix(4, DEAD_RUN) + "00001-0-0.parquet",
        LAYOUT.snapshot_key(4, DEAD_RUN),
        LAYOUT.tombstones_key(4, DEAD_RUN) + "-0.parquet",
        LAYOUT.quarantine_prefix(4, DEAD_RUN) + "read-00000.jsonl",
    )
    lake = stage.world.place.ports(Injector()).lake
    for key in left:
        lake.put(key, b"left behind")
    return _expected(stage)


def _meddled_with(stage: Stage) -> list[LakeRow]:
    """Somebody took two data files away and put two others there."""
    _with_second(stage)
    view = stage.look()
    lake = stage.world.place.ports(Injector()).lake
    gone = [min(view.visible), max(view.visible)]  # one of the history, one of the table
    for path in gone:
        lake.retire(LAYOUT.data_key(path), LAYOUT.retired_key(path))
    for name in ("copy-of-something.parquet", "city=Ulm/another.parquet"):
        lake.put(LAYOUT.data_key(name), view.visible[gone[0]])
    return _expected(stage)


def _until_rolled_back(kind: ChangeKind, command: Callable[[Actor], object]) -> Callable[[Actor, Stage], object]:
    """What an operator does whose command died: look at the list of changes, and give it again if it is not there."""

    def proceed(actor: Actor, stage: Stage) -> object:
        log = stage.look().log
        newest = next(record for record in log.newest_first(log.head()) if record.kind is not ChangeKind.TAKEOVER)
        return (Actor.repair if newest.kind is kind else command)(actor)

    return proceed


def _load_initial(actor: Actor) -> object:
    return actor.load_initial(base_change=0)


def _reload(actor: Actor) -> object:
    return actor.load_initial(base_change=2)


def _load_incremental(actor: Actor) -> object:
    return actor.load_incremental(FIRST, SECOND)


def _rollback_to_the_full_load(actor: Actor) -> object:
    return actor.rollback(to=1)


def _delete_directly(actor: Actor) -> object:
    return actor.delete_directly(*DELETED)


def _erase(actor: Actor) -> object:
    return actor.erase(*ERASED)


def _clean_up(actor: Actor) -> object:
    return actor.clean_up(RETENTION)


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        _repeated("LoadInitial", _with_full_load, _load_initial),
        _repeated("LoadInitial-reload", _with_new_full_load, _reload),
        _repeated("LoadIncremental", _with_second_and_late_due, _load_incremental),
        _repeated("LoadIncremental-soft-deletes", _with_soft_deletes_due, _load_incremental),
        _repeated("LoadIncremental-purge", _with_soft_deletes_to_purge, _load_incremental),
        _repeated("ProcessTable", _with_all_due, Actor.process_table),
        _repeated("ProcessTable-takeover", _with_dead_run, Actor.process_table),
        Scenario(
            "rollback",
            _to_roll_back,
            Actor.rollback,
            _until_rolled_back(ChangeKind.ROLLBACK, Actor.rollback),
            Actor.process_table,
            pauses=True,
            may_come_twice=False,  # two rollbacks of the last change undo two changes
        ),
        Scenario(
            "rollback-to",
            _to_roll_back_all_changes,
            _rollback_to_the_full_load,
            _until_rolled_back(ChangeKind.ROLLBACK, _rollback_to_the_full_load),
            Actor.process_table,
            pauses=True,
        ),
        Scenario(
            "reapply",
            _rolled_back,
            Actor.reapply,
            _until_rolled_back(ChangeKind.REAPPLY, Actor.reapply),
            Actor.repair,
        ),
        _repeated("direct-delete", _to_delete_from, _delete_directly),
        Scenario("erase", _to_erase_from, _erase, lambda actor, _: _erase(actor), _erase, goes_back_to=2),
        _repeated("clean-up", _with_old_files, _clean_up),
        _repeated("repair", _meddled_with, Actor.repair),
    )
}
