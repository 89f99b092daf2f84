"""`cdclake run` shows that it is alive, and what goes on without it when it is stopped."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

from cdclake.errors import RetryableError
from cdclake.ports import JobState
from cdclake_cli.aws.services import Services
from cdclake_cli.signals import exiting_on_signals
from cdclake_devkit.memory import MemoryJobs

if TYPE_CHECKING:
    from cdclake.ports import JobRun


class Endless(MemoryJobs):
    """Jobs that go on; a function is called once the command waits for one."""

    def __init__(self, when_polled: Any) -> None:
        super().__init__(lambda *_: [JobState.ACTIVE])
        self._when_polled = when_polled

    def get(self, job: str, run_id: str) -> JobRun:
        self._when_polled()
        return super().get(job, run_id)


def stop_with(number: int) -> Any:
    return lambda: os.kill(os.getpid(), number)


@pytest.mark.usefixtures("hangup")
@pytest.mark.parametrize(
    ("number", "status", "output"),
    [(signal.SIGINT, 130, "table"), (signal.SIGTERM, 143, "json"), (signal.SIGHUP, 129, "table")],
)
def test_a_stopped_run_says_what_goes_on_in_glue(
    cdclake: Any, state: Any, monkeypatch: pytest.MonkeyPatch, number: int, status: int, output: str
) -> None:
    jobs = Endless(stop_with(number))
    monkeypatch.setattr(Services, "jobs", jobs)
    before = signal.getsignal(number)
    result = cdclake("run", "--output", output)
    assert result.exit_code == status
    assert result.stdout == ""
    (controller,) = jobs.started
    first, *rest = [line.partition(" UTC ")[2] for line in result.stderr.splitlines()]
    assert first == f"Started the Controller, run {controller.run_id}"
    assert rest == [
        "This command no longer waits. In Glue, these go on without it, and so do the runs that they start:",
        f"DMSCDC_Controller, run {controller.run_id}",
        "To watch them: cdclake status. To wait for them again: cdclake run",
    ]
    assert signal.getsignal(number) == before


def test_a_run_that_loses_its_connection_says_so_too(cdclake: Any, state: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose() -> None:
        raise RetryableError("AWS did not answer", remedy="Run again")

    monkeypatch.setattr(Services, "jobs", Endless(lose))
    result = cdclake("run")
    assert result.exit_code == 4
    assert "In Glue, these go on without it" in result.stderr
    assert "AWS did not answer" in result.stderr


def test_a_run_that_starts_nothing_promises_nothing(cdclake: Any, state: Any) -> None:
    error = cdclake.refused("run", "shop.nothing")
    assert "go on without it" not in error
    assert "no job goes on" not in error


def test_signals_are_left_alone_outside_the_main_thread() -> None:
    seen: list[Any] = []

    def work() -> None:
        with exiting_on_signals():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGTERM)]
