"""The right to write a table: taken, kept while there is work, given back."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

from cdclake import logs
from cdclake.commit.takeover import take_over
from cdclake.errors import CdclakeError, LeaseLostError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake.commit.log import ChangeLog
    from cdclake.commit.publish import KeepAlive
    from cdclake.model.table import TableName
    from cdclake.ports import Clock, StateStore

LEASE_SECONDS = 300
"""Long enough for a service to be out of reach for a while, and soon over if the run dies."""
RENEW_AFTER_SECONDS = 60
log = logs.bind(__name__)


class Lease:
    """A lease that a run holds. Its heartbeat are the calls of `keep` between the run's steps.

    Args:
        states: The state table.
        path: Key of the table's item.
        holder: The run's id.
        clock: The time.

    Attributes:
        token: Greater than that of any lease of the table before.
        taken_over_from: Run whose lease was over and not given back; empty if the lease was free.

    Raises:
        LeaseHeldError: Another run's lease is not over.
        UnknownTableError: The table is not registered.
    """

    def __init__(self, states: StateStore, path: str, name: TableName, holder: str, clock: Clock) -> None:
        self._states, self._path, self._name, self._holder, self._clock = states, path, name, holder, clock
        self._renewed = clock()
        acquired = states.acquire_lease(path, holder, self._renewed, LEASE_SECONDS)
        self.token = acquired.token
        self.taken_over_from = acquired.taken_over_from

    def keep(self) -> None:
        """Renew the lease if the last time was a while ago. Cheap to call often.

        Raises:
            LeaseLostError: Another run took the table over.
        """
        now = self._clock()
        if (now - self._renewed).total_seconds() < RENEW_AFTER_SECONDS:
            return
        if not self._states.renew_lease(self._path, self._holder, self.token, now, LEASE_SECONDS):
            message = f"The lease of {self._name} is no longer this run's"
            raise LeaseLostError(message, remedy="Nothing to do: the run that has it now does the work")
        self._renewed = now

    def fence_earlier_holder(self, log: ChangeLog, keep_alive: KeepAlive) -> None:
        """If the lease was not given back, see to it that the run that had it cannot commit any more.

        Args:
            log: The lake table's change log.
            keep_alive: Called every now and then; renews this lease, and others that the run holds.

        Raises:
            LeaseLostError: Another run took the table over from this one.
        """
        if self.taken_over_from:
            reason = f"the lease of run {self.taken_over_from} ran out"
            take_over(log, self._holder, self.token, reason, self._clock, keep_alive)

    def release(self, *, even_if_requested: bool) -> bool:
        """Give the lease back; see `StateStore.release_lease`."""
        return self._states.release_lease(self._path, self.token, even_if_requested=even_if_requested)

    @contextmanager
    def renewed_in_background(self, look_every_seconds: float = RENEW_AFTER_SECONDS / 4) -> Iterator[None]:
        """Renew the lease from a thread of its own while the `with` block does work that cannot call `keep`.

        A lease that cannot be renewed is not the end of that work: should another run take the table over, it also
        takes the number that the work could be committed under.
        """
        over = Event()
        thread = Thread(target=self._keep_until, args=(over, look_every_seconds), name="cdclake-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _keep_until(self, over: Event, look_every_seconds: float) -> None:
        while not over.wait(look_every_seconds):
            try:
                self.keep()
            except LeaseLostError:
                log.warning("the lease was lost while rows were computed")
                return
            except CdclakeError:
                log.warning("the lease could not be renewed; trying again", exc_info=True)
