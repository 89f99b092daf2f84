"""Which calls go wrong, and how. A pure function of the seed, the process and the number of its call.

So the faults of one process do not depend on what others do, and a failure can be shrunk.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection
    from random import Random

_SHARE = 1 << 32
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


PAUSES_SECONDS = (2.0, 45.0, 200.0, 320.0, 900.0, 4000.0)
"""Some are longer than a lease."""
_PAUSES = (Kind.PAUSE_BEFORE, Kind.PAUSE_AFTER, Kind.SLOW)
EXPIRED_SECONDS = (20.0, 400.0)


class Fault(NamedTuple):
    """What goes wrong with one call.

    Attributes:
        process: Name of the process.
        call: Number of its call, from 1.
        seconds: How long it pauses, or has no valid credentials.
    """

    process: str
    call: int
    kind: Kind
    seconds: float = 0.0

    def __repr__(self) -> str:
        return f"Fault({self.process!r}, {self.call}, Kind.{self.kind.name}, {self.seconds})"


@dataclass(frozen=True)
class FaultPlan:
    """How often calls go wrong.

    Attributes:
        rate: Share of the calls.
        kinds: How they may go wrong.
        latency_seconds: How long a call takes at most.
    """

    seed: int
    rate: float
    kinds: tuple[Kind, ...]
    latency_seconds: float

    @classmethod
    def drawn(cls, seed: int, chance: Random) -> FaultPlan:
        """A plan of which some kinds of faults are missing: those that are left may go further."""
        kinds = tuple(kind for kind in Kind if chance.random() < 0.6)
        rate = chance.choice((0.0, 0.002, 0.005, 0.01, 0.02))
        return cls(seed, rate if kinds else 0.0, kinds, chance.choice((0.02, 0.1, 0.5, 3.0)))

    def latency(self, process: str, call: int) -> float:
        """How long a call takes."""
        return self.latency_seconds * (0.05 + 0.95 * (self._draw(process, call) % _SHARE) / _SHARE)

    def at(self, process: str, call: int, *, changes: bool) -> Fault | None:
        """What goes wrong with a call; None for nothing. More goes wrong with calls that change something."""
        rate = self.rate * (_MORE if changes else 1)
        draw = self._draw(process, call) >> 32
        if draw >= rate * _SHARE:
            return None
        within = int(draw / rate)
        kind = self.kinds[within % len(self.kinds)]
        further = within // len(self.kinds)
        seconds = PAUSES_SECONDS[further % len(PAUSES_SECONDS)] if kind in _PAUSES else 0.0
        seconds = EXPIRED_SECONDS[further % len(EXPIRED_SECONDS)] if kind is Kind.EXPIRE else seconds
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

    def at(self, process: str, call: int, *, changes: bool) -> Fault | None:
        """What goes wrong with a call; None for nothing."""
        if self._only is None:
            return self._plan.at(process, call, changes=changes)
        return self._only.get((process, call))
