"""Vanished raw files never empty a lake table, and lost changes are always reported."""

from __future__ import annotations

import hashlib
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from cdclake.control.admin.table_admin import RegisteredTable
from cdclake.control.plan.decision import DecisionKind
from cdclake.control.plan.fates import Fate
from cdclake.control.plan.lost_files import MAX_NAMED, PendingNote, vanished
from cdclake.control.raw_fates import raw_fates
from cdclake.control.run import metrics
from cdclake.errors import JobRunError, RawFilesLostError
from cdclake.model.metrics import Measure
from cdclake.model.names import Sentinel
from cdclake.model.raw.files import RawFiles, raw_files
from cdclake.model.snapshot import Snapshot
from cdclake.model.table.attributes import Attribute
from cdclake.model.times import iso_utc
from tests.cdclake.control.world import ORDERS, RAW, World, raising

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.commit.log import ChangeLog
    from cdclake.model.raw.files import RawFile

PREFIX = ORDERS[len(RAW) + 1 :]
LOAD = "LOAD00000001.parquet"
CHANGES = [f"20240305-10000{number}000.parquet" for number in range(9)]


def vanish(world: World, *names: str) -> None:
    world.raw.delete([PREFIX + name for name in names])


def with_a_broken_job(world: World) -> None:
    """A loaded table with five pending changes, recorded by a run whose Spark job failed."""
    world.add_table(LOAD)
    world.process()
    world.put(*CHANGES[:5])
    world.failures["DMSCDC_LoadIncremental"] = "boom"
    with pytest.raises(JobRunError):
        world.process()
    world.failures.clear()


@pytest.mark.parametrize("gone", [[LOAD], CHANGES[:2], [LOAD, *CHANGES[:2]]], ids=["loads", "changes", "all"])
def test_applied_raw_files_may_vanish(world: World, gone: list[str]):
    world.add_table(LOAD, *CHANGES[:2])
    world.clock.advance(60)
    world.process()
    before = world.state().item["LastChangeId"]
    vanish(world, *gone)
    assert world.decision().kind is (DecisionKind.NOTHING_NEW if gone == [LOAD] else DecisionKind.RESCAN)
    world.process()
    assert world.decision().kind is DecisionKind.NOTHING_NEW
    assert world.state().item["LastChangeId"] == before
    assert world.log().snapshot(world.log().head()).exists


def test_new_changes_are_applied_after_applied_files_vanished(world: World):
    world.add_table(LOAD, CHANGES[0])
    world.process()
    vanish(world, LOAD, CHANGES[0])
    world.put(CHANGES[1])
    world.process()
    assert world.applied == CHANGES[:2]


def test_vanished_pending_files_freeze_the_table_with_a_clear_error(world: World):
    with_a_broken_job(world)
    vanish(world, CHANGES[1], CHANGES[3])
    decision = world.decision()
    assert decision.kind is DecisionKind.FROZEN
    assert decision.reason.startswith("change files that vanished from the raw bucket")
    assert f"before they were applied: 2 ({CHANGES[1]}, {CHANGES[3]});" in decision.reason
    assert "cdclake tables unfreeze shop.orders" in decision.to_do
    assert not decision.work
    with pytest.raises(RawFilesLostError, match="before they were applied: 2 "):
        world.process()
    assert world.applied == []
    assert "cdclake tables unfreeze shop.orders" in world.state().item[Attribute.LAST_ERROR]


def test_a_frozen_table_leaves_every_pending_file(world: World):
    with_a_broken_job(world)
    world.states.set_attributes(ORDERS, {Attribute.MAX_FILES_PER_RUN: "2"})
    vanish(world, CHANGES[1], CHANGES[3])
    decision = world.decision()
    assert (decision.kind, decision.files, decision.left) == (DecisionKind.FROZEN, 0, 3)
    assert Attribute.LEASE_HOLDER not in world.state().item


def test_a_controller_run_reports_a_frozen_table_as_failed_and_starts_nothing_after_a_run_has_confirmed_it(
    world: World,
):
    """Only a run sees in the lake whether the files were applied: the item may be older."""
    with_a_broken_job(world)
    vanish(world, CHANGES[1])
    started = len(world.jobs.started)
    for starts in (1, 1):
        summary = world.run_controller()
        assert len(world.jobs.started) == started + starts
        assert f"before they were applied: 1 ({CHANGES[1]});" in str(summary.to_json()["error"])
        assert "cdclake tables unfreeze shop.orders" in str(summary.failed[0].error)
        measured = metrics.controller_metrics(summary.tables, world.clock())
        assert [metric.value for metric in measured if metric.measure is Measure.FROZEN_TABLES] == [1]
        with pytest.raises(RawFilesLostError):
            world.process()


def test_a_frozen_table_stays_frozen_when_new_files_arrive(world: World):
    with_a_broken_job(world)
    vanish(world, CHANGES[4])
    world.put(*CHANGES[5:])
    for _ in range(2):
        with pytest.raises(RawFilesLostError):
            world.process()
    assert world.decision().kind is DecisionKind.FROZEN


def test_a_table_is_no_longer_frozen_once_the_files_are_back(world: World):
    with_a_broken_job(world)
    vanish(world, CHANGES[1])
    assert world.decision().kind is DecisionKind.FROZEN
    world.put(CHANGES[1])
    world.process()
    assert world.applied == CHANGES[:5]


def test_an_operator_can_unfreeze_a_table_which_continues_without_the_lost_changes(world: World):
    with_a_broken_job(world)
    vanish(world, CHANGES[1])
    world.states.set_attributes(ORDERS, {Attribute.LAST_PENDING: "null"})
    assert world.decision().kind is DecisionKind.INCREMENTAL
    world.process()
    assert world.applied == [name for name in CHANGES[:5] if name != CHANGES[1]]


def test_a_reload_unfreezes_a_table(world: World):
    with_a_broken_job(world)
    vanish(world, *CHANGES[:5])
    assert world.decision().kind is DecisionKind.FROZEN
    world.clock.advance(60)
    world.put(LOAD)
    assert world.decision().kind is DecisionKind.FULL_LOAD
    world.process()
    assert world.decision().kind is DecisionKind.NOTHING_NEW


def test_a_full_load_that_was_copied_before_does_not_unfreeze_a_table(world: World):
    """It cannot contain the changes of a file that came later."""
    world.add_table(LOAD)
    world.process()
    world.clock.advance(60)
    world.raw.put(PREFIX + LOAD, world.raw.get(PREFIX + LOAD) or b"")
    world.failures["DMSCDC_LoadIncremental"] = "boom"
    world.put(*CHANGES[:2])
    with pytest.raises(JobRunError):
        world.process()
    world.failures.clear()
    vanish(world, CHANGES[0])
    assert world.decision().kind is DecisionKind.FROZEN
    with pytest.raises(RawFilesLostError):
        world.process()
    assert world.applied == []
    world.clock.advance(60)
    world.put(LOAD)
    world.process()
    assert world.decision().kind is DecisionKind.NOTHING_NEW


@pytest.mark.parametrize("dies", [False, True], ids=["", "that dies"])
def test_a_rollback_does_not_unfreeze_a_table(world: World, dies: bool):
    with_a_broken_job(world)
    vanish(world, CHANGES[1])
    log = world.log()
    if dies:
        log.commit = raising(RuntimeError("died"))  # type: ignore[method-assign]  # as a crash would
    with pytest.raises(RuntimeError) if dies else nullcontext():
        roll_back(world, log)
    with pytest.raises(RawFilesLostError, match=f"1 \\({CHANGES[1]}\\)"):
        world.process()
    assert world.applied == []


def test_after_a_rollback_applied_files_are_not_missed(world: World):
    """Whoever rolls a change back may take its files out of the raw folder."""
    world.add_table(LOAD)
    world.process()
    world.clock.advance(60)
    world.put(CHANGES[0])
    world.clock.advance(60)
    loaded = iso_utc(world.clock())
    world.put(LOAD)  # it contains the change before it
    world.process()
    world.put(CHANGES[1])
    world.process()
    note = PendingNote.of([CHANGES[0], CHANGES[1], CHANGES[3]], loaded)
    world.states.record_run(ORDERS, {Attribute.LAST_PENDING: str(note)})  # by a run that died
    roll_back(world, world.log(), to=1)
    vanish(world, *CHANGES[:2])
    with pytest.raises(RawFilesLostError, match=f"1 \\({CHANGES[3]}\\)"):
        world.process()
    world.put(CHANGES[3])
    world.process()
    assert world.applied == [CHANGES[1], CHANGES[3]]


def roll_back(world: World, log: ChangeLog, to: int | None = None) -> None:
    """Roll the table back, and turn it on again."""
    try:
        RegisteredTable(world.states, world.state(), log, "undo", world.clock).rollback(to)
    finally:
        world.states.set_attributes(ORDERS, {Attribute.ACTIVE_FLAG: Sentinel.ACTIVE})


def test_a_restarted_task_that_clears_the_folder_and_reloads_freezes_nothing(world: World):
    with_a_broken_job(world)
    vanish(world, LOAD, *CHANGES[:5])
    world.clock.advance(60)
    world.put(LOAD, CHANGES[6])
    world.process()
    assert world.applied == [CHANGES[6]]


@pytest.mark.parametrize("reload", [False, True], ids=["first load", "reload"])
def test_files_that_vanish_after_a_failed_full_load_freeze_the_table_until_another_one_or_they_are_back(
    world: World, reload: bool
):
    world.add_table(LOAD)
    if reload:
        world.process()
        world.clock.advance(60)
        world.put(LOAD)
    world.clock.advance(60)
    world.put(*CHANGES[:3])
    world.failures["DMSCDC_LoadInitial"] = "boom"
    with pytest.raises(JobRunError):
        world.process()
    world.failures.clear()
    vanish(world, CHANGES[1])
    for _ in range(2):
        with pytest.raises(RawFilesLostError, match=f"1 \\({CHANGES[1]}\\)"):
            world.process()
    later = world.copy()
    later.clock.advance(60)
    later.put(LOAD, CHANGES[4])
    later.process()
    assert later.applied == (CHANGES[4:5] if reload else [CHANGES[0], CHANGES[2], CHANGES[4]])
    world.put(CHANGES[1])
    world.process()
    assert world.applied == CHANGES[:3]


def test_files_that_vanish_after_the_applied_batch_freeze_the_table(world: World):
    world.add_table(*CHANGES[:6], MaxFilesPerRun="2")

    world.after_job = lambda: world.failures.update(DMSCDC_LoadIncremental="boom")
    with pytest.raises(JobRunError):
        world.process()
    world.failures.clear()
    assert world.applied == CHANGES[:2]
    vanish(world, CHANGES[0])  # applied
    assert world.decision().kind is DecisionKind.INCREMENTAL
    vanish(world, CHANGES[5])
    assert world.decision().kind is DecisionKind.FROZEN


def test_a_run_that_died_right_after_its_commit_freezes_nothing(world: World):
    world.add_table(*CHANGES[:3], MaxFilesPerRun="2")
    world.states.record_run(ORDERS, {Attribute.LAST_PENDING: str(PendingNote.of(CHANGES[:3]))})
    world.load("DMSCDC_LoadIncremental", world.log(), world.state())  # commits, but does not write the item
    vanish(world, *CHANGES[:2])
    assert world.process().rounds[0].decision.kind is DecisionKind.INCREMENTAL
    assert world.applied == CHANGES[:3]


def test_a_late_file_does_not_hide_a_vanished_one(world: World):
    world.add_table(LOAD)
    world.process()
    world.put(*CHANGES[:2], CHANGES[4])
    world.failures["DMSCDC_LoadIncremental"] = "boom"
    with pytest.raises(JobRunError):
        world.process()
    world.failures.clear()
    vanish(world, CHANGES[1])
    world.put(CHANGES[3])
    assert world.decision().kind is DecisionKind.FROZEN
    with pytest.raises(RawFilesLostError, match=CHANGES[1]):
        world.process()
    assert world.applied == []
    found = {one.file: one.fate for one in raw_fates(world.raw, world.state(), world.log(), world.clock(), None)}
    waiting = dict.fromkeys([CHANGES[0], CHANGES[3], CHANGES[4]], Fate.WAITING)
    assert found == {LOAD: Fate.LOADED, CHANGES[1]: Fate.VANISHED, **waiting}


def test_a_late_file_that_vanishes_freezes_the_table_until_it_is_back(world: World):
    world.add_table(LOAD, CHANGES[0], CHANGES[4])
    world.process()
    world.put(CHANGES[2])
    world.failures["DMSCDC_LoadIncremental"] = "boom"
    with pytest.raises(JobRunError):
        world.process()
    world.failures.clear()
    vanish(world, CHANGES[2], CHANGES[4])  # the second is applied
    world.put(CHANGES[5])
    with pytest.raises(RawFilesLostError, match=f"1 \\({CHANGES[2]}\\)"):
        world.process()
    assert world.decision().kind is DecisionKind.FROZEN  # the Controller knows from the run
    world.put(CHANGES[2])
    assert world.decision().kind is DecisionKind.INCREMENTAL
    world.process()
    assert world.applied == [CHANGES[0], CHANGES[4], CHANGES[2], CHANGES[5]]


def test_after_a_confirmed_loss_the_planner_ignores_files_that_a_dead_run_applied(world: World):
    world.add_table(*CHANGES[:3], MaxFilesPerRun="2")
    world.states.record_run(ORDERS, {Attribute.LAST_PENDING: str(PendingNote.of(CHANGES[:3]))})
    world.load("DMSCDC_LoadIncremental", world.log(), world.state())
    vanish(world, *CHANGES[:3])
    with pytest.raises(RawFilesLostError, match=f"1 \\({CHANGES[2]}\\)"):
        world.process()
    assert f": 1 ({CHANGES[2]})" in world.decision().reason
    world.put(CHANGES[2])
    assert world.decision().kind is DecisionKind.INCREMENTAL


def test_a_file_that_an_operator_ignores_is_not_missed(world: World):
    with_a_broken_job(world)
    vanish(world, CHANGES[1])
    world.states.set_attributes(ORDERS, {Attribute.IGNORE_FILES: CHANGES[1]})
    world.process()
    assert world.applied == [name for name in CHANGES[:5] if name != CHANGES[1]]


def test_files_that_vanish_while_a_full_load_arrives_are_still_missed(world: World):
    with_a_broken_job(world)
    world.clock.advance(3600)
    world.put("LOAD00000003.parquet")  # and the second is missing
    vanish(world, CHANGES[1])
    world.process()
    assert world.decision().kind is DecisionKind.WAITING
    vanish(world, "LOAD00000003.parquet")
    assert world.decision().kind is DecisionKind.FROZEN


def test_a_backlog_beyond_the_named_files_is_counted(world: World):
    world.add_table(*(f"20240305-{number:09d}.parquet" for number in range(MAX_NAMED + 3)))
    changes = raw_files(world.raw.list(PREFIX), PREFIX).changes
    names = [file.relative for file in changes]
    text = str(PendingNote.of(names))
    assert len(text) < 100_000
    note = PendingNote.parse(text)
    assert (list(note.names), note.others, note.last) == (names[:MAX_NAMED], 3, names[-1])

    def lost(there: Sequence[RawFile], watermark: str = "") -> tuple[list[str], int]:
        state = world.state().with_attributes(**{Attribute.LAST_PENDING: text})
        found = vanished(state, RawFiles(changes=there), Snapshot(watermark=watermark), None)
        return list(found.names), found.others

    assert lost(changes) == ([], 0)
    assert lost(changes[2:-1]) == (names[:2], 1)
    assert lost(changes[2:-1], names[1]) == ([], 1)
    assert lost(changes[-1:], names[-2]) == ([], 0)

    assert note.without(names[:2]) == note._replace(names=names[2:MAX_NAMED])
    assert note.without(names[1:MAX_NAMED]) == PendingNote.of(names[:1])  # nobody knows which others are applied


def with_a_backlog(world: World) -> list[str]:
    """A table whose note counts the three newest of its due files; the note is a run's that did not end."""
    names = [f"20240305-{number:09d}.parquet" for number in range(MAX_NAMED + 3)]
    world.add_table(*names)
    world.states.record_run(ORDERS, {Attribute.LAST_PENDING: str(PendingNote.of(names))})
    return names


@pytest.mark.slow
def test_counted_files_that_vanish_freeze_the_table_until_they_are_back(world: World):
    names = with_a_backlog(world)
    vanish(world, *names[-2:])
    for _ in range(2):
        with pytest.raises(RawFilesLostError, match="before they were applied: 2;"):
            world.process()
    world.put(*names[-2:])
    world.process()
    assert world.applied == names


def test_counted_files_that_vanish_freeze_the_table_although_nothing_else_is_due(world: World):
    names = with_a_backlog(world)
    world.load("DMSCDC_LoadIncremental", world.log(), world.state())  # the named ones, without writing the item
    vanish(world, *names[-3:])
    for _ in range(2):
        with pytest.raises(RawFilesLostError, match="before they were applied: 3;"):
            world.process()


def test_names_that_do_not_compress_are_bounded(world: World):
    names = [f"{hashlib.sha512(str(number).encode()).hexdigest()}/{CHANGES[0]}" for number in range(3000)]
    note = PendingNote.of(names)
    assert len(str(note)) < 101_000
    assert note.files == len(names)
    assert PendingNote.parse(str(note)) == note


@pytest.mark.parametrize("text", ["", "null", "[]", "3", '{"files": 1}', '{"files": 1, "last": "", "names": "!"}', "{"])
def test_a_cleared_note_misses_nothing(text: str):
    assert PendingNote.parse(text) == PendingNote()
