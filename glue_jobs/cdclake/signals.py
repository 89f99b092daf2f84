"""The signals that ask a process to stop: Ctrl-C, SIGTERM, and SIGHUP, as when its terminal or connection closes."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Callable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_POLL_SECONDS = 0.2


def handle_stop_signals(
    handler: Callable[[signal.Signals], object], signals: Sequence[signal.Signals] = _STOPPING
) -> Callable[[], None]:
    """Call a handler whenever such a signal arrives. For the main thread only.

    A SIGHUP that the process ignores stays ignored, as under nohup.

    Returns:
        Restores the handlers from before.
    """
    handled = [one for one in signals if one != signal.SIGHUP or signal.getsignal(one) is not signal.SIG_IGN]
    before = {one: signal.signal(one, lambda number, _: handler(signal.Signals(number))) for one in handled}

    def restore() -> None:
        for number, earlier in before.items():
            signal.signal(number, earlier)

    return restore


@contextmanager
def stop_signals() -> Iterator[Callable[[], None]]:
    """Handle the signals in the `with` block; yields a function that waits for one. For the main thread only."""
    stop = threading.Event()
    restore = handle_stop_signals(lambda _: stop.set())

    def wait() -> None:
        # Python runs handlers in the main thread, which a signal that another thread receives does not wake.
        while not stop.wait(_POLL_SECONDS):
            pass

    try:
        yield wait
    finally:
        restore()
