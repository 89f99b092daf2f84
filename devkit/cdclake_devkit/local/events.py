"""Delivers events to Lambda functions in the background, with retries, as Lambda does."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from cdclake_devkit.local.activity import Activity

logger = logging.getLogger(__name__)

_WORKERS = 8


class DeliveryError(Exception):
    """An event could not be delivered; the message is the reason."""


class EventDelivery:
    """Delivers events asynchronously, without a guaranteed order.

    Args:
        retry_delays_seconds: Delay before each retry. Lambda retries twice, after one and two minutes.
        activity: Tracks every event until it is delivered or dropped.
    """

    def __init__(self, *, retry_delays_seconds: Sequence[float], activity: Activity) -> None:
        self._retry_delays_seconds = tuple(retry_delays_seconds)
        self._activity = activity
        self._stopping = threading.Event()
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="event")

    def deliver(self, what: str, send: Callable[[], None]) -> None:
        """Accept an event and return at once.

        Args:
            what: Description of the event, for logs.
            send: Delivers the event, or raises `DeliveryError`. May be called several times.
        """
        if self._stopping.is_set():
            logger.warning("%s: not delivered, because the embedded AWS is stopping", what)
            return
        token = self._activity.begin(what)
        future = self._pool.submit(self._try, what, send)

        def done(_: Future[None]) -> None:
            self._activity.end(token)

        future.add_done_callback(done)

    def stop(self) -> None:
        """Accept no more events, and retry none."""
        self._stopping.set()

    def close(self) -> None:
        """Drop pending events, and wait for deliveries in progress."""
        self.stop()
        self._pool.shutdown(cancel_futures=True)

    def _try(self, what: str, send: Callable[[], None]) -> None:
        for attempt, delay_seconds in enumerate((*self._retry_delays_seconds, None), start=1):
            try:
                send()
            except DeliveryError as error:
                if self._stopping.is_set():
                    logger.warning("%s: not delivered, because the embedded AWS is stopping", what)
                    return
                if delay_seconds is None:
                    logger.error("%s: dropped after %d attempts: %s", what, attempt, error)
                    return
                logger.warning("%s: attempt %d failed, retrying in %g s: %s", what, attempt, delay_seconds, error)
                self._stopping.wait(delay_seconds)
            except Exception:
                logger.exception("%s: dropped after an unexpected error", what)
                return
            else:
                return
