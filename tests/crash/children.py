"""Runs in a process of their own, which may be killed. Forked from one that has everything imported."""

from __future__ import annotations

import multiprocessing
import traceback
from typing import TYPE_CHECKING, NamedTuple

from tests.crash.actor import Actor
from tests.crash.faults import Injector
from tests.crash.scenarios import SCENARIOS

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

    from tests.crash.actor import Task
    from tests.crash.faults import Point

TIMEOUT_SECONDS = 60
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.crash.warm"])


class Ending(NamedTuple):
    """How a child ended.

    Attributes:
        killed: Whether by SIGKILL.
        struck: Name of the call at which it killed itself; empty if it did not.
        error: Traceback of what it raised; empty if nothing.
    """

    killed: bool
    struck: str
    error: str


class Child:
    """A run in a process of its own.

    Args:
        scenario: Name of the scenario whose run it makes.
        task: What the run is given.
        point: Where it kills itself; None: nowhere.
    """

    def __init__(self, scenario: str, task: Task, point: Point | None) -> None:
        self._telling, told = _FORKS.Pipe(duplex=False)
        self._process: BaseProcess = _FORKS.Process(target=_run, args=(scenario, task, point, told), daemon=True)
        self._process.start()
        told.close()

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process.pid is not None
        return self._process.pid

    def wait(self) -> Ending:
        """Wait for its end."""
        self._process.join(TIMEOUT_SECONDS)
        code = self._process.exitcode
        if code is None:
            self._process.kill()
            self._process.join()
            message = f"A run did not end within {TIMEOUT_SECONDS} seconds"
            raise TimeoutError(message)
        told = _received(self._telling)
        self._telling.close()
        return Ending(killed=code < 0, struck=told.get("struck", ""), error=told.get("error", ""))


def _received(telling: Connection) -> dict[str, str]:
    found = {}
    while telling.poll():
        try:
            kind, text = telling.recv()
        except EOFError:
            break
        found[kind] = text
    return found


def _run(scenario: str, task: Task, point: Point | None, telling: Connection) -> None:
    injector = Injector(point, about_to_die=lambda call: telling.send(("struck", call)))
    try:
        SCENARIOS[scenario].run(Actor(task, injector))
    except Exception:  # noqa: BLE001 - the test is told of any
        telling.send(("error", traceback.format_exc()))
