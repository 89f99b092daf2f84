"""The lease of a run counts from its request, not from the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cdclake.control.run.lease import LEASE_SECONDS, Lease
from cdclake.errors import LeaseLostError
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState
from cdclake_devkit.memory import ManualClock, MemoryState

if TYPE_CHECKING:
    from cdclake.ports import AcquiredLease

STATE = TableState.new("raw", "shop/", "orders/")


def test_a_lease_is_not_released_before_its_earlier_holder_is_fenced() -> None:
    clock = ManualClock()
    states = MemoryState([STATE])
    Lease.acquire(states, STATE.path, STATE.name, "paused", clock)
    clock.advance(LEASE_SECONDS)
    failed = Lease.acquire(states, STATE.path, STATE.name, "failed", clock)
    assert failed.release(even_if_requested=True, attributes={Attribute.LAST_ERROR: "no answer"})
    state = states.get(STATE.path)
    assert state is not None
    assert state.item[Attribute.LAST_ERROR] == "no answer"
    clock.advance(LEASE_SECONDS)
    assert Lease.acquire(states, STATE.path, STATE.name, "next", clock).taken_over_from == "failed"


class SlowState(MemoryState):
    """Answers a request for a lease after some seconds, or the run sleeps before it reads the answer."""

    def __init__(self, clock: ManualClock, seconds: float) -> None:
        super().__init__([STATE])
        self._clock, self._seconds = clock, seconds

    def acquire_lease(self, *arguments: Any, **named: Any) -> AcquiredLease:
        acquired = super().acquire_lease(*arguments, **named)
        self._clock.advance(self._seconds)
        return acquired


def test_a_lease_whose_answer_came_late_is_renewed_at_once() -> None:
    clock = ManualClock()
    states = SlowState(clock, LEASE_SECONDS - 10)
    lease = Lease.acquire(states, STATE.path, STATE.name, "run", clock)
    lease.renew_if_due()
    clock.advance(LEASE_SECONDS - 10)
    state = states.get(STATE.path)
    assert state is not None
    assert state.leased(clock())


def test_a_run_that_slept_past_its_lease_before_it_read_the_answer_has_lost_it() -> None:
    clock = ManualClock()
    states = SlowState(clock, LEASE_SECONDS + 10)
    lease = Lease.acquire(states, STATE.path, STATE.name, "run", clock)
    states.acquire_lease(STATE.path, "other", clock(), LEASE_SECONDS)
    with pytest.raises(LeaseLostError):
        lease.renew_if_due()
