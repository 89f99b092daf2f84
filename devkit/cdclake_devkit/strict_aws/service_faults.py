"""Faults that every service has now and then: overload, internal errors, throttling and lost responses."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from itertools import count
from random import Random
from threading import Lock
from typing import TYPE_CHECKING

from cdclake_devkit.strict_aws.calls import Answer

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from cdclake_devkit.strict_aws.calls import Call


class FaultKind(Enum):
    """What happens to a call."""

    THROTTLED = "throttled"
    """The service is busy and executes nothing."""
    FAILED = "failed"
    """The service has an internal error and executes nothing."""
    LOST = "response lost"
    """The service executes the call, and the connection breaks before it answers."""


ANSWERS = {
    "s3": {FaultKind.THROTTLED: Answer(503, "SlowDown"), FaultKind.FAILED: Answer(500, "InternalError")},
    "dynamodb": {
        FaultKind.THROTTLED: Answer(400, "ProvisionedThroughputExceededException"),
        FaultKind.FAILED: Answer(500, "InternalServerError"),
    },
    "glue": {
        FaultKind.THROTTLED: Answer(400, "ThrottlingException"),
        FaultKind.FAILED: Answer(500, "InternalServiceException"),
    },
}
"""Errors by service. Others have no faults.

https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html
https://docs.aws.amazon.com/glue/latest/dg/aws-glue-api-exceptions.html
"""
_LOST = Answer(0, "", is_executed=True)


class ServiceFaults:
    """Decides which calls fail: chosen ones by their numbers, and others at random. The same seed chooses the same.

    Repetitions by a client count as calls of their own. Calls of several threads are numbered as they arrive.

    Args:
        rate: Part of the calls that fail at random, from 0 to 1.
        seed: Seed of the choice.
        at: Faults by the number of the call, from 1.
        kinds: Kinds of the faults at random.
        services: Services whose calls are numbered and may fail.

    Attributes:
        is_on: Whether calls are numbered and may fail. Off at first.
        calls: Number of calls so far.
        injected: Number of faults so far, by service, operation and kind.
    """

    def __init__(
        self,
        rate: float = 0.0,
        seed: int = 0,
        *,
        at: Mapping[int, FaultKind] | None = None,
        kinds: Collection[FaultKind] = tuple(FaultKind),
        services: Collection[str] = tuple(ANSWERS),
    ) -> None:
        self._rate = rate
        self._random = Random(seed)
        self._at = dict(at or {})
        self._kinds = list(kinds)
        self._services = frozenset(services)
        self._numbers = count(1)
        self._lock = Lock()
        self.is_on = False
        self.calls = 0
        self.injected: Counter[tuple[str, str, str]] = Counter()

    def __call__(self, call: Call) -> Answer | None:
        """What happens to a call; a `Gate`."""
        if not self.is_on or call.service not in self._services:
            return None
        with self._lock:
            self.calls = next(self._numbers)
            drawn, kind = self._random.random(), self._random.choice(self._kinds)  # always both: the same for any rate
            kind = self._at.get(self.calls, kind)
            if self.calls not in self._at and drawn >= self._rate:
                return None
            self.injected[call.service, call.operation, kind.value] += 1
        return _LOST if kind is FaultKind.LOST else ANSWERS[call.service][kind]
