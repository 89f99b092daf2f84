"""Ends a command that a signal stops: it gives leases back, removes temporary files, and says what happened."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import typer

from cdclake.signals import handle_stop_signals

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator

_SIGNAL_STATUS = 128
"""A shell adds the number of the signal to it: https://www.gnu.org/software/bash/manual/html_node/Exit-Status.html"""


class Interrupted(BaseException):
    """A signal stopped the command."""


@contextmanager
def handling_stop_signals() -> Iterator[None]:
    """Raise `Interrupted` within the `with` block when a stop signal arrives; only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    restore = handle_stop_signals(_interrupt)
    try:
        yield
    finally:
        restore()


@contextmanager
def exiting_on_signals() -> Iterator[None]:
    """As `handling_stop_signals`, for a command that says itself what goes on without it.

    Raises:
        typer.Exit: With 128 and the number of the signal, when `Interrupted` reaches the end of the block.
    """
    try:
        with handling_stop_signals():
            yield
    except Interrupted as interrupted:
        raise typer.Exit(_SIGNAL_STATUS + interrupted.args[0]) from None


@contextmanager
def stopping_in_order() -> Iterator[None]:
    """End a whole command that a stop signal interrupts: with its own clean-up, one line on stderr, and a status.

    Python itself does so only for Ctrl-C, and without the line. SIGTERM and SIGHUP would end it at once, and a table
    whose lease it held would be busy until that expires.

    Raises:
        SystemExit: With 128 and the number of the signal.
    """
    try:
        with handling_stop_signals():
            yield
    except Interrupted as interrupted:
        number = interrupted.args[0]
        with suppress(OSError, AttributeError):  # its terminal may be gone
            sys.stderr.write(f"Stopped by {number.name}. What the command did before stays done; run it again\n")
        raise SystemExit(_SIGNAL_STATUS + number) from None


def _interrupt(number: signal.Signals) -> None:
    raise Interrupted(number)
