"""Lets a command that waits say what goes on without it, when it is stopped."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_STOPPING = (signal.SIGINT, signal.SIGTERM)
_SIGNAL_STATUS = 128
"""A shell adds the number of the signal to it: https://www.gnu.org/software/bash/manual/html_node/Exit-Status.html"""


class Interrupted(BaseException):
    """Ctrl-C or SIGTERM stopped the command."""


@contextmanager
def exiting_on_signals() -> Iterator[None]:
    """Raise `Interrupted` within the `with` block when Ctrl-C or SIGTERM arrives; only in the main thread.

    Raises:
        typer.Exit: With 128 and the number of the signal, when `Interrupted` reaches the end of the block.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _interrupt) for number in _STOPPING}
    try:
        yield
    except Interrupted as interrupted:
        raise typer.Exit(_SIGNAL_STATUS + interrupted.args[0]) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    raise Interrupted(number)
