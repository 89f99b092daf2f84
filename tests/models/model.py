"""Everything that can happen to one lake table and its writers, and what must be true whatever happens."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

from tests.models.commit_protocol import Writers
from tests.models.world import BEGIN, ENDED, FRESH, NOBODY, World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.models.calls import Call, Setting


class Model(Writers):
    """The writers of a setting, their pauses and deaths.

    Args:
        setting: What they do, and on what.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._answers: list[tuple[Any, ...]] = [()]
        self._places: dict[tuple[int, Any], int] = {}
        self.next_call = cache(self._next_call)
        self._finished = cache(self._finish)

    def start(self) -> World:
        """The table after the changes before, with all writers about to begin."""
        setting = self.setting
        world = World((), (setting.deaths, setting.pauses, setting.losses))
        for _ in range(setting.before):
            world, _ = self.do(world, "run", FRESH)
        return world._replace(writers=(BEGIN,) * len(setting.writers))

    def do(self, world: World, task: str, me: int) -> tuple[World, list[str]]:
        """Do a task from begin to end, while nobody else works; returns what was done."""
        work, answer, labels = self.work(task, me), None, list[str]()
        while True:
            try:
                call = work.send(answer)
            except StopIteration:
                return world, labels
            done = call.act(world, me)
            assert done, call.label
            labels.append(call.label)
            world, answer = done

    def finish(self, world: World) -> World:
        """What the next command makes of a table that nobody works on; the lease of a dead writer expires."""
        return self._finished(world._replace(writers=(), faults=(0, 0, 0), expired=world.holder != NOBODY))

    def _finish(self, world: World) -> World:
        return self.do(world, "take over", FRESH)[0]

    def place(self, place: int, answer: object) -> int:
        """How far a writer is after one more answer. A place stands for all its answers: see `_next_call`."""
        number = self._places.setdefault((place, answer), len(self._answers))
        if number == len(self._answers):
            self._answers.append((*self._answers[place], answer))
        return number

    def _next_call(self, me: int, place: int) -> Call | None:
        """What a writer calls next, found by running it again with all answers; None if it is done."""
        work = self.work(self.setting.writers[me], me)
        try:
            call = next(work)
            for answer in self._answers[place]:
                call = work.send(answer)
        except StopIteration:
            return None
        return call

    def successors(self, world: World) -> Iterator[tuple[str, World]]:
        """Everything that can happen next, each with its name."""
        deaths, pauses, losses = world.faults
        for me, writer in enumerate(world.writers):
            call = None if writer == ENDED else self.next_call(me, writer)
            if call is None:
                continue
            who = f"{me} ({self.setting.writers[me]})"
            done = call.act(world, me)
            if done:
                yield f"{who}: {call.label}", self._answered(*done, me)
            if done and losses and call.if_lost:
                lost = done[0]._replace(faults=(deaths, pauses, losses - 1))
                if isinstance(done[1], tuple):  # it asks for the lease again
                    yield f"{who}: {call.label}, the answer is lost", lost
                elif done[1]:
                    yield f"{who}: {call.label}, the answer is lost", self._answered(lost, None, me)
                    flying = world._replace(faults=lost.faults, flying=done[0].head)
                    yield f"{who}: {call.label}, too late to be waited for", self._answered(flying, None, me)
            if deaths and writer != BEGIN:
                dead = world._replace(faults=(deaths - 1, pauses, losses))
                yield f"{who}: dies", _with_writer(dead, me, ENDED)
        if world.holder != NOBODY and not world.expired:
            holder_works = world.writers[world.holder] != ENDED
            if not holder_works or pauses:
                faults = (deaths, pauses - holder_works, losses)
                yield f"the lease of {world.holder} expires", world._replace(expired=True, faults=faults)
        if world.flying:
            landed = self.put_change(world.flying).act(world._replace(flying=None), NOBODY)
            assert landed
            yield f"the commit of {world.flying.number} arrives", landed[0]
        if self.setting.iceberg and not world.aged:
            yield "an hour passes", world._replace(aged=True, recent=world.offers(world.pointer))

    def _answered(self, world: World, answer: object, me: int) -> World:
        place = self.place(world.writers[me], answer)
        return _with_writer(world, me, ENDED if self.next_call(me, place) is None else place)


def _with_writer(world: World, me: int, place: int) -> World:
    return world._replace(writers=(*world.writers[:me], place, *world.writers[me + 1 :]))


def violation(model: Model, before: World, world: World) -> str:
    """What is wrong with a state, or with the way to it; empty if nothing is."""
    checks = (_of_log, _of_retained, _of_iceberg if model.setting.iceberg else _of_folder)
    if world.of_stores != before.of_stores:
        found = next(filter(None, (check(before, world, gap=model.setting.gap) for check in checks)), "")
        if found:
            return found
    if any(writer != ENDED for writer in world.writers):
        return ""
    end = model.finish(world)
    if end.head.number not in end.published or any(number <= end.head.number for number, _ in end.staged):
        found = "the newest change is not published, or something of it is left"
    else:
        found = next(filter(None, (check(end, end, gap=False) for check in checks)), "")
    return f"after the next command, {found}" if found else ""


def _of_log(before: World, world: World, *, gap: bool) -> str:
    del gap
    if world.log[: len(before.log)] != before.log:
        return "two changes have one number"
    if world.log == before.log:
        return ""
    head, previous = world.head, world.change(len(world.log) - 1)
    raw = Counter(one for file in head.files for one in file.raw)
    if raw != Counter(head.ledger):
        return f"the files of change {head.number} have other raw files than its ledger, or one twice"
    undone = {
        raw for one in world.log if one.kind == "rollback" for raw in world.change(one.number - 1).ledger - one.ledger
    }
    if head.kind == "run" and (head.ledger - previous.ledger) & undone:
        return f"change {head.number} applies what was undone"
    return ""


def _of_retained(before: World, world: World, *, gap: bool) -> str:
    """Each retained change can be read and rolled back to."""
    del gap
    if world.dropped < before.dropped:
        return "a change is retained again"
    for number in world.retained:
        if number not in world.snapshots:
            return f"change {number} is retained, and its snapshot is gone"
        for file in world.change(number).numbers:
            of_change = world.change(file)
            is_staged = file == len(world.log) and (file, of_change.writer) in world.staged
            if not is_staged and not (file < len(world.files) and world.files[file]):
                return f"change {number} is retained, and its file {file} is gone"
    return ""


def _of_folder(before: World, world: World, *, gap: bool) -> str:
    """A listing of the folder has a whole state; between the changes, files of both."""
    del before
    if gap:
        return ""
    head, visible = world.head, world.visible
    if head.number in world.published:
        return "" if visible == head.numbers else f"readers see files {set(visible)} after change {head.number}"
    if visible >= head.numbers or visible >= world.change(head.number - 1 if head.number else 0).numbers:
        return ""
    return f"readers miss rows: they see files {set(visible)} while change {head.number} is published"


def _of_iceberg(before: World, world: World, *, gap: bool) -> str:
    """A reader opens one change, and finds its files as long as it may be open."""
    del gap
    if world.pointer < before.pointer:
        return "the version hint goes back"
    if world.head.number in world.published and world.pointer != world.head.number:
        return f"change {world.head.number} is published, and the version hint names {world.pointer}"
    if world.pointer and not world.offers(world.pointer):
        return f"the version hint names change {world.pointer}, which has no metadata"
    for number in world.recent:
        for file in world.change(number).numbers:
            if not (file < len(world.files) and world.files[file]):
                return f"readers may have change {number} open, and its file {file} is missing"
    return ""
