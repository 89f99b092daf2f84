"""Runs actors one at a time on a simulated clock. An actor goes on until it sleeps, waits or ends.

Who comes next follows from the time at which each wakes up alone, so a run can be repeated.
"""

from __future__ import annotations

import heapq
from collections import Counter
from typing import TYPE_CHECKING

from greenlet import GreenletExit, getcurrent, greenlet

if TYPE_CHECKING:
    from collections.abc import Callable


class KilledError(BaseException):
    """The actor's process was killed. No code of the product catches it."""


class Process:
    """What a kill ends: an actor, and the threads that it started.

    Attributes:
        name: Its name, which tells who started it.
        skew_seconds: How far its clock is ahead of the simulated time.
        is_dead: Whether it was killed.
        began: When it was started.
        run_id: The holder of its leases, if it is a run of a job; else empty.
        parent: The holder that may hand leases to it.
        calls: Number of calls that it made.
        leases: How many of them asked for a lease.
        commits: Number of changes that it committed.
        erasures: Number of keys that it erased, or tried to.
        frozen_until: When its threads go on: its machine sleeps.
        frozen: Those of its threads that wait for that.
        is_over: Whether it has ended.
        disturbed_until: Until when something went wrong with it.
        no_answer_until: Until when no call of it gets an answer.
        unaware_of: Names of tables whose leases it got, but not the answers.
    """

    def __init__(self, name: str, skew_seconds: float = 0.0) -> None:
        self.name, self.skew_seconds = name, skew_seconds
        self.is_dead = False
        self.run_id = self.parent = ""
        self.began = 0.0
        self.calls = self.leases = self.commits = self.erasures = 0
        self.frozen_until = self.no_answer_until = self.disturbed_until = 0.0
        self.frozen: list[Actor] = []
        self.is_over = False
        self.unaware_of: set[str] = set()
        self._names: Counter[str] = Counter()

    @property
    def holder(self) -> str:
        """Its name as the holder of a lease."""
        return self.run_id or self.name

    def child(self, kind: str) -> str:
        """A name for something that it starts. It does not depend on what other processes start."""
        self._names[kind] += 1
        return f"{self.name}.{kind}{self._names[kind]}"


class Actor:
    """A thread of a process."""

    def __init__(self, process: Process, run: Callable[[], None], parent: greenlet) -> None:
        self.process = process
        self.greenlet = greenlet(run, parent)
        self.turn = 0
        """Number of its next turn: earlier ones that are still queued are void."""


class Scheduler:
    """Gives actors their turns.

    Args:
        crashed: Called with the name and the error of an actor that ended with an error.

    Attributes:
        now: Simulated seconds since the start.
        switches: How often another actor got its turn.
    """

    def __init__(self, crashed: Callable[[str, BaseException], None]) -> None:
        self.now = 0.0
        self.switches = 0
        self._crashed = crashed
        self._queue: list[tuple[float, int, int, Actor]] = []
        self._numbers = 0
        self._hub = getcurrent()
        self._current: Actor | None = None
        self._end = 0.0

    @property
    def process(self) -> Process:
        """The process whose turn it is."""
        assert self._current is not None, "only actors call this"
        return self._current.process

    def spawn(self, process: Process, work: Callable[[], object], after: float = 0.0) -> Actor:
        """Start a thread of a process after some seconds."""

        def run() -> None:
            try:
                if not process.is_dead:
                    work()
            except (KilledError, GreenletExit):
                pass
            except BaseException as error:  # noqa: BLE001 - reported
                self._crashed(process.name, error)

        actor = Actor(process, run, self._hub)
        self._enqueue(actor, self.now + after)
        return actor

    def sleep(self, seconds: float) -> None:
        """Let others go on for some seconds.

        Raises:
            KilledError: The process was killed meanwhile.
        """
        actor = self._current
        assert actor is not None, "only actors sleep"
        wakes = self.now + max(seconds, 0.0)
        if wakes > self._end or (self._queue and self._queue[0][0] <= wakes):
            self._enqueue(actor, wakes)
            self._hub.switch()
        else:
            self.now = wakes
        if actor.process.is_dead:
            raise KilledError

    def wait(self, seconds: float | None) -> Actor:
        """Let others go on until `wake` is called, or some seconds have passed. Returns the actor, for `wake`.

        Raises:
            KilledError: As `sleep`.
        """
        actor = self._current
        assert actor is not None, "only actors wait"
        if not actor.process.is_dead:
            if seconds is not None:
                self._enqueue(actor, self.now + seconds)
            self._hub.switch()
        if actor.process.is_dead:
            raise KilledError
        return actor

    def freeze(self, seconds: float) -> None:
        """Let all threads of the process whose turn it is sleep for some seconds, or until `thaw` is called.

        Raises:
            KilledError: As `sleep`.
        """
        process = self.process
        process.frozen_until = self.now + seconds
        process.frozen = [self.actor]
        self.sleep(seconds)

    def thaw(self, process: Process) -> None:
        """Let the threads of a process that sleeps go on now."""
        process.frozen_until = self.now
        for actor in process.frozen:
            self.wake(actor)
        process.frozen.clear()

    @property
    def actor(self) -> Actor:
        """The actor whose turn it is."""
        assert self._current is not None, "only actors call this"
        return self._current

    def wake(self, actor: Actor) -> None:
        """Let a waiting actor go on now."""
        self._enqueue(actor, self.now)

    def run(self, until: float) -> None:
        """Give actors their turns up to a time."""
        self._end = max(self._end, until) if self._end > float("-inf") else self._end
        while self._queue and self._queue[0][0] <= self._end:
            wakes, _, turn, actor = heapq.heappop(self._queue)
            if turn != actor.turn or actor.greenlet.dead:
                continue
            if actor.process.frozen_until > wakes and not actor.process.is_dead:
                actor.process.frozen.append(actor)
                self._enqueue(actor, actor.process.frozen_until)
                continue
            self.now = max(self.now, wakes)
            actor.turn += 1
            self._current = actor
            self.switches += 1
            actor.greenlet.switch()
            self._current = None
        self.now = max(self.now, self._end)

    def stop(self) -> None:
        """Give no more turns."""
        self._end = float("-inf")

    def _enqueue(self, actor: Actor, wakes: float) -> None:
        self._numbers += 1
        heapq.heappush(self._queue, (wakes, self._numbers, actor.turn, actor))
