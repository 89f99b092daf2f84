"""Which calls go wrong, and how. A pure function of the seed, the process and the number of its call.

So the faults of one process do not depend on what others do, and a failure can be shrunk.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from random import Random

    from cdclake_devkit.simulate.intercepted import Call

_SHARE = 1 << 32
_SHARE_OF_OTHERS = 0.3
_MORE = 3
"""How many times more often a call that changes something goes wrong."""


class Kind(Enum):
    """What goes wrong with a call."""

    KILL_BEFORE = "is killed before"
    KILL_AFTER = "is killed after"
    PAUSE_BEFORE = "sleeps before"
    PAUSE_AFTER = "sleeps after"
    """With all its threads, as when its machine sleeps."""
    SLOW = "waits long for"
    FAIL = "gets an error instead of"
    LOSE_ANSWER = "loses the answer to"
    EXPIRE = "has expired credentials at"
    """So have all calls of the process for a while."""
    OVERTAKEN = "sleeps until another run took its lease over, before"
    """And made some calls: what is wrong only in a moment between two calls of others is not met by chance."""
    TWICE = "makes twice"
    """As a client that repeats a request whose answer was lost. The second answer counts."""


_OF_OTHERS = (Kind.FAIL, Kind.KILL_BEFORE, Kind.KILL_AFTER)
PAUSES_SECONDS = (2.0, 45.0, 200.0, 320.0, 900.0, 4000.0)
"""Some are longer than a lease."""
_PAUSES = (Kind.PAUSE_BEFORE, Kind.PAUSE_AFTER, Kind.SLOW)
EXPIRED_SECONDS = (20.0, 400.0)
OVERTAKEN_SECONDS = 4000.0
"""How long a process sleeps if nobody takes its lease over."""
MAX_CALLS_OF_OTHERS = 250
_MOVES = ("put_if_absent", "copy", "copy_retained", "restoring", "retiring")
"""With which a change is committed, and its files move."""
_UNDONE = ("restoring", "retiring")
_ENDS_IN_NUMBER = re.compile(r"\d+$")


def kind_of(process: str) -> str:
    """What a process does, from its name: `load`, `process`, `try`, `rollback`, ..."""
    return _ENDS_IN_NUMBER.sub("", process.rpartition(".")[2])


class Fault(NamedTuple):
    """What goes wrong with one call.

    Attributes:
        process: Name of the process.
        call: Number of its call, from 1.
        seconds: How long it pauses, or has no valid credentials.
        calls_of_others: How many calls others make after they took its lease over, until it goes on; 0: until they
            have released it.
    """

    process: str
    call: int
    kind: Kind
    seconds: float = 0.0
    calls_of_others: int = 0

    def __repr__(self) -> str:
        after = f", {self.calls_of_others}" if self.calls_of_others else ""
        return f"Fault({self.process!r}, {self.call}, Kind.{self.kind.name}, {self.seconds}{after})"


@dataclass(frozen=True)
class FaultPlan:
    """How often calls go wrong.

    Attributes:
        rate: Share of the calls.
        kinds: How they may go wrong.
        latency_seconds: How long a call takes at most.
        focus: The kind of process whose calls go wrong, see `kind_of`; others seldom do, and only end; empty: all do.
        repeated: Share of the requests for a lease that are made twice.
        methods: The only calls of these processes that go wrong, besides those; empty: all do.
    """

    seed: int
    rate: float
    kinds: tuple[Kind, ...]
    latency_seconds: float
    focus: str = ""
    repeated: float = 0.0
    methods: tuple[str, ...] = ()

    @classmethod
    def drawn(cls, seed: int, chance: Random, may_focus: Sequence[str]) -> FaultPlan:
        """A plan of which some kinds of faults are missing: those that are left may go further.

        Args:
            may_focus: Kinds of processes.
        """
        latency_seconds = chance.choice((0.02, 0.1, 0.5, 3.0, 8.0))
        repeated = chance.choice((0.0, 0.6))
        if chance.random() < 0.5:
            kinds = (Kind.OVERTAKEN, *chance.sample(list(Kind), chance.choice((0, 0, 1, 2))))
            rate, methods = chance.choice(((0.005, ()), (0.01, ()), (0.02, ()), (0.02, _MOVES)))
            return cls(seed, rate, kinds, latency_seconds, chance.choice(may_focus), repeated, methods)
        kinds = tuple(kind for kind in Kind if chance.random() < 0.6)
        rate = chance.choice((0.0, 0.002, 0.005, 0.01, 0.02))
        return cls(seed, rate if kinds else 0.0, kinds, latency_seconds, "", repeated)

    @classmethod
    def of_undoes(cls, seed: int, chance: Random) -> FaultPlan:
        """A plan whose processes sleep within moves of files, which others undo meanwhile."""
        kinds = (Kind.OVERTAKEN, *chance.sample(list(Kind), chance.choice((0, 0, 1))))
        latency_seconds = chance.choice((0.1, 0.5, 3.0))
        return cls(seed, 0.03, kinds, latency_seconds, chance.choice(("load", "rollback", "reapply")), 0.0, _UNDONE)

    def latency(self, process: str, call: int) -> float:
        """How long a call takes."""
        return self.latency_seconds * (0.05 + 0.95 * (self._draw(process, call) % _SHARE) / _SHARE)

    def at(self, process: str, call: int, what: Call) -> Fault | None:
        """What goes wrong with a call; None for nothing. More goes wrong with calls that change something."""
        if what.method == "acquire_lease" and self._draw(process, -call) < self.repeated * _SHARE * _SHARE:
            return Fault(process, call, Kind.TWICE)
        kinds, rate = self.kinds, self.rate * (_MORE if what.changes else 1)
        if self.focus and kind_of(process) != self.focus:
            kinds, rate = _OF_OTHERS, self.rate * _SHARE_OF_OTHERS
        elif self.focus:
            rate = self.rate * (_MORE * 2 if what.changes else 1)
            if self.methods and what.method not in self.methods:
                return None
        draw = self._draw(process, call) >> 32
        if draw >= rate * _SHARE:
            return None
        within = int(draw / rate)
        kind = kinds[within % len(kinds)]
        further = within // len(kinds)
        seconds = PAUSES_SECONDS[further % len(PAUSES_SECONDS)] if kind in _PAUSES else 0.0
        seconds = EXPIRED_SECONDS[further % len(EXPIRED_SECONDS)] if kind is Kind.EXPIRE else seconds
        if kind is Kind.OVERTAKEN:
            few = MAX_CALLS_OF_OTHERS ** (further % 1000 / 1000)  # the fewer, the more precisely
            return Fault(process, call, kind, OVERTAKEN_SECONDS, 0 if further % 2 else int(few))
        return Fault(process, call, kind, seconds)

    def _draw(self, process: str, call: int) -> int:
        text = f"{self.seed}|{process}|{call}".encode()
        return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")


class Faults:
    """The faults of a run.

    Args:
        plan: Where they come from.
        only: If given, no others happen.

    Attributes:
        happened: Those that happened so far.
    """

    def __init__(self, plan: FaultPlan, only: Collection[Fault] | None = None) -> None:
        self._plan = plan
        self._only = None if only is None else {(fault.process, fault.call): fault for fault in only}
        self.happened: list[Fault] = []

    def latency(self, process: str, call: int) -> float:
        """How long a call takes."""
        return self._plan.latency(process, call)

    def at(self, process: str, call: int, what: Call) -> Fault | None:
        """What goes wrong with a call; None for nothing."""
        if self._only is None:
            return self._plan.at(process, call, what)
        return self._only.get((process, call))
