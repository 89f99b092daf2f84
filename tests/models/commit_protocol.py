"""A model of the commit protocol: what several writers of one lake table do to the stores, call by call.

A writer is a generator. Each `yield` is one call to a store, and between any two calls everything else may happen:
other writers go on, this one is paused past its lease or dies, an answer is lost. `tests/models/model.py` says what
may happen, and what must be true of every state, and `tests/models/search.py` visits them all. So this is both a
description of the protocol and its proof, for as many writers, files and faults as a `Setting` has. That the code makes
these calls is checked by `tests/models/test_code_follows_the_model.py`.

What is left out: rows (a file is known by the raw files in it), a table with a history, erasures, files of other
programs, how long calls take, the lease's way from ProcessTable to a Spark run, and whatever only reads the change log.
Calls that the code makes at the same time are made one after the other here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.models.calls import Call, Calls
from tests.models.world import ANY, NOBODY, Change, File

if TYPE_CHECKING:
    from collections.abc import Generator


class Stop(Exception):
    """The writer stops with an error. It releases its lease, if it still has it."""


class Gone(Stop):
    """What it was about to move is not there."""


class Writers(Calls):
    """What writers of a table do, each as its calls to the stores, one after the other."""

    def work(self, task: str, me: int) -> Generator[Call, Any, None]:
        """Take the lease, do a task, release the lease."""
        token, earlier, active, known = yield self.acquire()
        try:
            if task != "run" or active:
                head = yield from self.complete_newest() if task == "run" else self.roll_forward()
                if earlier != NOBODY:  # the holder before may be paused right before its commit
                    head = yield from self.take_over(me, token)
                if task == "run":
                    yield from self.refuse_rollback(known)
                yield self.record(head.number, token if task == "run" else ANY)
                if task == "clean-up":
                    yield from self.clean_up(me, token, head)
                else:
                    yield from self.check_files(head)
                if task == "run":
                    yield from self.run(me, token, head)
                elif task.startswith("rollback to "):
                    yield from self.rollback(me, token, head, int(task.rpartition(" ")[2]))
        except Stop:
            pass
        yield self.release(token)

    def refuse_rollback(self, known: int) -> Generator[Call, Any, None]:
        """Stop if there is a rollback that the item does not know, and turn the table off, as it should have been."""
        if (yield self.read_rollback(known)):
            yield self.turn_off()
            raise Stop

    def run(self, me: int, token: int, head: Change) -> Generator[Call, Any, None]:
        """Apply the next raw file. The oldest of several data files is rewritten, its rows go to the new one."""
        number, due = head.number + 1, max(head.ledger, default=0) + 1
        old = min(head.files) if len(head.files) > 1 else None
        new = File(number, frozenset({due}) | (old.raw if old else frozenset()))
        change = Change(
            number,
            "run",
            me,
            token,
            files=(head.files - {old}) | {new},
            ledger=head.ledger | {due},
            added=(number,),
            retired=(old.number,) if old else (),
        )
        yield self.stage(number)
        yield from self.commit(change)
        yield self.record(number, token)

    def rollback(self, me: int, token: int, head: Change, to: int) -> Generator[Call, Any, None]:
        """Bring an earlier state back, with its ledger.

        The table is turned off before, because a run would apply the same raw files again.
        """
        target = yield self.read_retained(to)
        if target is None or target.files == head.files:
            raise Stop
        change = Change(
            head.number + 1,
            "rollback",
            me,
            token,
            files=target.files,
            ledger=target.ledger,
            restored=tuple(sorted(target.numbers - head.numbers)),
            retired=tuple(sorted(head.numbers - target.numbers)),
        )
        yield self.turn_off()
        yield from self.keep_alive(token)
        yield from self.commit(change)
        yield self.record(change.number, ANY)

    def take_over(self, me: int, token: int) -> Generator[Call, Any, Change]:
        """Commit a change that changes nothing, so that no earlier holder can commit its number."""
        while True:
            head = yield from self.roll_forward()
            empty = Change(head.number + 1, "takeover", me, token, head.files, head.ledger)
            if (yield from self.commit(empty, again=True)):
                return empty

    def commit(self, change: Change, *, again: bool = False) -> Generator[Call, Any, bool]:
        """Put the change record if there is none, and publish the change; whether this writer's is the one."""
        yield self.write_snapshot(change.number)
        newest = yield self.read_token(change.number - 1)
        if change.token < newest:
            raise Stop
        won = yield self.put_change(change)
        if won:
            yield from self.publish(change)
        elif won is None or not again:  # it is unknown, or another's
            raise Stop
        return bool(won)

    def roll_forward(self) -> Generator[Call, Any, Change]:
        """`complete_newest`, and delete what its writer left."""
        head = yield from self.complete_newest()
        yield self.remove_staging(head.number)
        return head

    def complete_newest(self) -> Generator[Call, Any, Change]:
        """Publish the newest change if its writer did not; returns it."""
        head: Change
        head, is_published = yield self.read_head()
        if head.number and not is_published:
            yield from self.publish(head)
        return head

    def publish(self, change: Change) -> Generator[Call, Any, None]:
        """Make a committed change visible. Repeatable, by any writer, at any time before the next change."""
        try:
            yield from self._publish(change)
        except Gone:  # it may be where another writer put it
            yield from self.look(change.number)
            if not (yield self.read_published(change.number)):
                raise

    def _publish(self, change: Change) -> Generator[Call, Any, None]:
        in_folder = not self.setting.iceberg  # files of an Iceberg table stay where they were written
        added, restored, retired = (change.added, change.restored, change.retired) if in_folder else ((), (), ())
        yield from self.look(change.number)
        if self.setting.iceberg:
            offered = yield self.read_metadata(change.number - 1)
            yield self.write_first_metadata(change.number, offered | {change.number})
        markers = yield self.begin_restoring(restored)
        for file in added:
            yield from self.fenced(change, self.copy(change, file))
        if added or restored:
            yield from self.look(change.number)
        for file in restored:
            yield from self.fenced(change, self.restore(file, markers))
        if self.setting.iceberg:
            yield from self.fenced(change, self.move_pointer(change.number))
        for file in retired:
            yield from self.fenced(change, self.retire(file))
        yield self.mark_published(change.number)
        yield from self.look(change.number)
        yield self.remove_staging(change.number)

    def check_files(self, head: Change) -> Generator[Call, Any, None]:
        """Put right what an overtaken writer moved too late."""
        visible = yield self.list_files()
        if self.setting.iceberg or visible == head.numbers:
            return
        hidden, stale = sorted(head.numbers - visible), sorted(visible - head.numbers)
        markers = yield self.begin_restoring(tuple(hidden))
        yield from self.look(head.number)
        for file in hidden:
            yield from self.fenced(head, self.restore(file, markers))
        for file in stale:
            yield from self.fenced(head, self.retire(file))
            yield self.discard_unneeded(file)

    def clean_up(self, me: int, token: int, head: Change) -> Generator[Call, Any, None]:
        """Keep the newest two states and the first, and delete what only the others need."""
        if (yield self.has_leftovers(head.number)):  # their writer must not commit them any more
            head = yield from self.take_over(me, token)
            yield self.record(head.number, ANY)
        drops, unneeded = yield self.plan_clean_up(head.number)
        yield from self.keep_alive(token)
        expired = frozenset[int]()
        if self.setting.iceberg:
            offered = yield self.read_metadata(head.number)
            expired = offered & drops
            if expired:
                yield self.write_metadata(head.number, offered - drops)
        old = yield self.read_dropped()
        if drops - old or expired & old:  # first: nobody may begin with a change that is half deleted
            yield from self.mark_retained(drops)
        yield from self.keep_alive(token)
        if not expired & old:  # they were offered again after they were dropped, and readers may have them open
            for file in unneeded:
                yield self.discard(file)
        yield self.delete_objects(head.number, drops)

    def mark_retained(self, drops: frozenset[int]) -> Generator[Call, Any, None]:
        """Record that changes are not retained. What is dropped stays so, whoever writes at the same time."""
        while True:
            old = yield self.read_dropped()
            if (yield self.put_dropped(drops | old, old)):
                return

    def keep_alive(self, token: int) -> Generator[Call, Any, None]:
        """Stop if the lease is lost."""
        if not (yield self.renew(token)):
            raise Stop

    def look(self, number: int) -> Generator[Call, Any, None]:
        """Stop if there is a later change: another writer has taken over."""
        if (yield self.read_later(number)):
            raise Stop

    def fenced(self, change: Change, call: Call) -> Generator[Call, Any, None]:
        """Move a file only after a look for later changes."""
        if self.setting.gap:
            yield from self.look(change.number)
            done = yield call
        else:
            done = yield self.unless_later(change.number, call)
        if not done:  # overtaken, or what it was about to move is gone
            raise Gone
