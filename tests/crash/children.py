"""Runs in child processes, which may be killed. They are forked from a process that has imported everything."""

from __future__ import annotations

import multiprocessing
import traceback
from typing import TYPE_CHECKING, NamedTuple

from tests.crash.faults import Injector, Point
from tests.crash.runner import Runner, RunSpec
from tests.crash.scenarios import SCENARIOS

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess


TIMEOUT_SECONDS = 60
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.crash.preload"])


class Outcome(NamedTuple):
    """The outcome of a child process.

    Attributes:
        killed: Whether SIGKILL ended it.
        hit: Name of the call at which it killed itself; empty if it did not.
        error: Traceback of its exception; empty if there was none.
    """

    killed: bool
    hit: str
    error: str


class Child:
    """A run in a child process.

    Args:
        point: Where it kills itself; None: nowhere.
    """

    def __init__(self, scenario: str, spec: RunSpec, point: Point | None) -> None:
        self._receiver, sender = _FORKS.Pipe(duplex=False)
        self._process: BaseProcess = _FORKS.Process(target=_run, args=(scenario, spec, point, sender), daemon=True)
        self._process.start()
        sender.close()

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process.pid is not None
        return self._process.pid

    def wait(self) -> Outcome:
        """Wait for its end."""
        self._process.join(TIMEOUT_SECONDS)
        code = self._process.exitcode
        if code is None:
            self._process.kill()
            self._process.join()
            message = f"A run did not end within {TIMEOUT_SECONDS} seconds"
            raise TimeoutError(message)
        messages = _receive_all(self._receiver)
        self._receiver.close()
        return Outcome(killed=code < 0, hit=messages.get("hit", ""), error=messages.get("error", ""))


def _receive_all(receiver: Connection) -> dict[str, str]:
    messages = {}
    while receiver.poll():
        try:
            kind, text = receiver.recv()
        except EOFError:
            break
        messages[kind] = text
    return messages


def _run(scenario: str, spec: RunSpec, point: Point | None, sender: Connection) -> None:
    injector = Injector(point, before_kill=lambda call: sender.send(("hit", call)))
    try:
        SCENARIOS[scenario].run(Runner(spec, injector))
    except Exception:  # noqa: BLE001 - the test reports any error
        sender.send(("error", traceback.format_exc()))
