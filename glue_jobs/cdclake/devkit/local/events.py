"""Events on their way to Lambda functions: delivered in the background, tried again on error, as Lambda does."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from cdclake.devkit.local.activity import Activity

logger = logging.getLogger(__name__)

_WORKERS = 8


class DeliveryError(Exception):
    """An event did not get through; says why."""


class EventDelivery:
    """Delivers events asynchronously, in no promised order.

    Args:
        retry_delays_seconds: How long to wait before each further try. Lambda tries twice more, after one
            and two minutes.
        activity: Told of every event from when it is taken to when it is delivered or given up.
    """

    def __init__(self, *, retry_delays_seconds: Sequence[float], activity: Activity) -> None:
        self._retry_delays_seconds = tuple(retry_delays_seconds)
        self._activity = activity
        self._stopping = threading.Event()
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="event")

    def deliver(self, what: str, send: Callable[[], None]) -> None:
        """Take an event and return at once.

        Args:
            what: The event, for logs.
            send: Delivers it; raises `DeliveryError` if that fails. May be called several times.
        """
        if self._stopping.is_set():
            logger.warning("%s: not delivered, as the embedded AWS is stopping", what)
            return
        token = self._activity.begin(what)
        future = self._pool.submit(self._try, what, send)

        def done(_: Future[None]) -> None:
            self._activity.end(token)

        future.add_done_callback(done)

    def stop(self) -> None:
        """Take nothing more, and try nothing again."""
        self._stopping.set()

    def close(self) -> None:
        """Drop what is not delivered yet, and wait for what is being delivered."""
        self.stop()
        self._pool.shutdown(cancel_futures=True)

    def _try(self, what: str, send: Callable[[], None]) -> None:
        for attempt, delay_seconds in enumerate((*self._retry_delays_seconds, None), start=1):
            try:
                send()
            except DeliveryError as error:
                if self._stopping.is_set():
                    logger.warning("%s: not delivered, as the embedded AWS is stopping", what)
                    return
                if delay_seconds is None:
                    logger.error("%s: given up after %d tries: %s", what, attempt, error)
                    return
                logger.warning("%s: try %d failed, the next in %g s: %s", what, attempt, delay_seconds, error)
                self._stopping.wait(delay_seconds)
            except Exception:
                logger.exception("%s: given up, as trying again will not help", what)
                return
            else:
                return
