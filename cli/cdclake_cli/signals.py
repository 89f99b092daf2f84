"""Lets a command that waits say what goes on without it, when it is stopped."""

from __future__ import annotations

import threading
from contextlib import contextmanager
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
def exiting_on_signals() -> Iterator[None]:
    """Raise `Interrupted` within the `with` block when a stop signal arrives; only in the main thread.

    Raises:
        typer.Exit: With 128 and the number of the signal, when `Interrupted` reaches the end of the block.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    restore = handle_stop_signals(_interrupt)
    try:
        yield
    except Interrupted as interrupted:
        raise typer.Exit(_SIGNAL_STATUS + interrupted.args[0]) from None
    finally:
        restore()


def _interrupt(number: signal.Signals) -> None:
    raise Interrupted(number)
