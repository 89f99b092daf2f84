"""Holds the right to write a table: takes the lease, renews it during the work, and releases it."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Event, Thread
from types import MappingProxyType
from typing import TYPE_CHECKING

from cdclake import logs
from cdclake.commit.takeover import take_over
from cdclake.errors import CdclakeError, LeaseLostError
from cdclake.ports import AcquiredLease

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime

    from cdclake.commit.log import ChangeLog
    from cdclake.commit.publish import KeepAlive
    from cdclake.model.table.name import TableName
    from cdclake.model.table.state import TableState
    from cdclake.ports import Clock, StateStore

LEASE_SECONDS = 300
"""Long enough to survive a short outage of a service, and short enough to expire soon if the run dies."""
RENEW_AFTER_SECONDS = 60
log = logs.bind(__name__)


class Lease:
    """A lease that a run holds. The run calls `renew_if_due` between its steps.

    Attributes:
        token: The fencing token, greater than the token of any earlier lease of the table.
        taken_over_from: See `AcquiredLease`.
        state: The table's item when the lease was acquired.
    """

    def __init__(
        self,
        states: StateStore,
        path: str,
        name: TableName,
        holder: str,
        clock: Clock,
        requested: datetime,
        acquired: AcquiredLease,
    ) -> None:
        self._states, self._path, self._name, self._holder, self._clock = states, path, name, holder, clock
        self.state = acquired.state
        self._renewed = requested
        self.token = acquired.token
        self.taken_over_from = acquired.taken_over_from
        self._fault = acquired.fault
        self._fenced = False

    @classmethod
    def acquire(
        cls,
        states: StateStore,
        path: str,
        name: TableName,
        holder: str,
        clock: Clock,
        *,
        clears_request: bool = False,
    ) -> Lease:
        """Acquire a table's lease.

        Args:
            path: Key of the table's item.
            holder: The run's id.
            clears_request: See `StateStore.acquire_lease`.

        Raises:
            LeaseHeldError: Another run's lease has not expired.
            UnknownTableError: The table is not registered.
        """
        requested = clock()  # the lease counts from now, however late the answer is
        acquired = states.acquire_lease(path, holder, requested, LEASE_SECONDS, clears_request=clears_request)
        if acquired.fault:
            log.warning("%s: the lease of %s counts as expired: %s", name, acquired.taken_over_from, acquired.fault)
        return cls(states, path, name, holder, clock, requested, acquired)

    @classmethod
    def adopt(cls, states: StateStore, state: TableState, earlier: str, holder: str, clock: Clock) -> Lease:
        """Take the lease that another run hands over, with its fencing token. That run has fenced those before it.

        Args:
            state: The table's item.
            earlier: The other run's id.
            holder: This run's id.

        Raises:
            LeaseLostError: The other run no longer has it.
        """
        now = clock()
        lease = cls(states, state.path, state.name, holder, clock, now, AcquiredLease(state.fencing_token))
        if not states.renew_lease(state.path, earlier, lease.token, now, LEASE_SECONDS, to=holder):
            raise lease._lost()
        lease._fenced = True
        return lease

    def renew_if_due(self) -> None:
        """Renew the lease if the last renewal was a while ago. Cheap to call often.

        Raises:
            LeaseLostError: Another run took the table over.
        """
        now = self._clock()
        if (now - self._renewed).total_seconds() < RENEW_AFTER_SECONDS:
            return
        if not self._states.renew_lease(self._path, self._holder, self.token, now, LEASE_SECONDS):
            raise self._lost()
        self._renewed = now

    def fence_earlier_holder(self, log: ChangeLog, change: int, keep_alive: KeepAlive) -> int:
        """Keep an earlier holder that did not release its lease from committing. Does so once.

        The lake is the truth: if it has seen this lease's token, the state item was made anew or restored, and the
        lease gets a greater one. Whoever held a lease of the lost item can renew it no more, and of two commits of one
        number one fails.

        Args:
            log: The lake table's change log.
            change: Number of its newest change, which is published.
            keep_alive: Called between steps; renews this lease, and others that the run holds.

        Returns:
            Number of the newest change: the same, or of the one that this committed.

        Raises:
            LeaseLostError: Another run took over the table from this one.
        """
        if self._fenced:
            return change
        newest = log.fencing_token(change)
        if newest >= self.token:
            if not self._states.raise_token(self._path, self._holder, self.token, newest + 1):
                raise self._lost()
            self.token = newest + 1
        reason = self._why_fence()
        if reason:
            change = take_over(log, self._holder, self.token, reason, self._clock, keep_alive)
        self._fenced = True
        return change

    def _why_fence(self) -> str:
        if self.taken_over_from == self._holder:
            return "an answer was lost: this run may have taken over another run's expired lease"
        if self._fault:
            return f"the lease of run {self.taken_over_from} counts as expired: {self._fault}"
        return f"the lease of run {self.taken_over_from} expired" if self.taken_over_from else ""

    def _lost(self) -> LeaseLostError:
        message = f"This run lost the lease of {self._name}"
        return LeaseLostError(message, remedy="Nothing to do: the run that holds it now does the work")

    def record(
        self,
        attributes: Mapping[str, str],
        *,
        clears_request: bool = False,
        unless_edited: Mapping[str, str] = MappingProxyType({}),
    ) -> TableState:
        """Write attributes into the table's item; see `StateStore.record_run`.

        Returns:
            The state after it.

        Raises:
            LeaseLostError: Another run took the table over, so it is that run's item.
        """
        lease = (self._holder, self.token)
        state = self._states.record_run(
            self._path, attributes, lease, clears_request=clears_request, unless_edited=unless_edited
        )
        if state is None:
            raise self._lost()
        return state

    def expire(self) -> None:
        """Let the lease expire now, so that the Controller starts a run, which takes it over and finishes the work."""
        self._states.renew_lease(self._path, self._holder, self.token, self._clock(), 0)

    def release(self, *, even_if_requested: bool, attributes: Mapping[str, str] = MappingProxyType({})) -> bool:
        """Release the lease; see `StateStore.release_lease`.

        If its earlier holder is not fenced, it is left to expire instead: whoever takes it over then fences both.
        """
        if not self._fenced and self._why_fence():
            if attributes:
                self._states.record_run(self._path, attributes, (self._holder, self.token))
            return True
        return self._states.release_lease(
            self._path, self._holder, self.token, even_if_requested=even_if_requested, attributes=attributes
        )


@contextmanager
def renewed_in_background(
    leases: Callable[[], Iterable[Lease]], interval_seconds: float = RENEW_AFTER_SECONDS / 4
) -> Iterator[None]:
    """Renew leases from a separate thread while the `with` block does work that cannot call `renew_if_due`.

    The work goes on even if a lease cannot be renewed: a run that takes over the table also takes the change number
    that the work could commit.

    Args:
        leases: Returns those to renew now.
    """
    over, lost = Event(), set[Lease]()

    def renew() -> None:
        while not over.wait(interval_seconds):
            for lease in leases():
                try:
                    if lease not in lost:
                        lease.renew_if_due()
                except LeaseLostError:
                    log.warning("the lease was lost while rows were computed")
                    lost.add(lease)
                except CdclakeError:
                    log.warning("the lease could not be renewed; trying again", exc_info=True)

    thread = Thread(target=renew, name="cdclake-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
