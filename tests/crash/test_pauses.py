"""A run, a rollback, an erasure, ... is paused past its lease at any call, while other commands work on its table.

Afterwards, at the latest after the next run, readers see exactly the newest snapshot, no key twice, and no erased row.
`make test` tries a sample, and `make crash` every call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cdclake.errors import CdclakeError
from cdclake.model.change.record import ChangeKind
from tests.conftest import COUNTS
from tests.crash import checks
from tests.crash.faults import Fault, Injector, Point
from tests.crash.runner import Runner
from tests.crash.sandbox import Sandbox, View
from tests.crash.scenarios import ERASED, SCENARIOS
from tests.tiers import TIER, Tier

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.crash.conftest import NewEnvironment

    Command = Callable[[Runner], object]

PAUSES = {Tier.QUICK: 1, Tier.TEST: 2, Tier.ALL: 3, Tier.THOROUGH: 10_000}[TIER]
"""Number of calls that are tried of each run, spread over it."""
PAUSED = (
    *("run", "ProcessTable", "LoadIncremental", "rollback", "rollback-to", "reapply", "direct-delete", "erase"),
    *("repair", "clean-up"),
)
OTHERS: dict[str, tuple[Command, ...]] = {
    "rollback to 1": (lambda runner: runner.rollback(1),),
    "rollback to 0": (lambda runner: runner.rollback(0), Runner.activate),
    "erase": (lambda runner: runner.erase(*ERASED),),
    "run, rollback and reapply": (Runner.bring_up_to_date, Runner.rollback, Runner.reapply),
    "rollback, repair and run": (Runner.rollback, Runner.repair, Runner.activate, Runner.bring_up_to_date),
}
"""Commands that work during the pause; one that is refused changes nothing."""


def do(command: Command, runner: Runner) -> CdclakeError | None:
    try:
        command(runner)
    except CdclakeError as error:
        return error
    return None


class Pause:
    """Pauses the run of a scenario at a call."""

    def __init__(self, sandbox: Sandbox, run: Command, others: tuple[Command, ...]) -> None:
        self._sandbox, self._run, self._others = sandbox, run, others

    def count(self) -> int:
        """Number of calls of the run without a pause."""
        injector = Injector(Point(Fault.PAUSED, 0, writes_only=False))
        do(self._run, Runner(self._sandbox.spec(), injector))
        return injector.calls

    def at(self, call: int) -> bool:
        """Pause it, and check what is left; returns whether the run got to that call."""
        injector = Injector(Point(Fault.PAUSED, call, writes_only=False), meanwhile=self._work)
        error = do(self._run, Runner(self._sandbox.spec(), injector))
        if not injector.hit:
            return False
        if error is None:
            check_readers(self._sandbox.view())
        self._sandbox.expire_lease()
        do(Runner.repair, self._sandbox.runner())  # the next command of any kind compares the files
        self._sandbox.view()  # no file has other content than before
        assert not do(Runner.bring_up_to_date, self._sandbox.runner())
        check_readers(self._sandbox.view())
        complete_erasure(self._sandbox)
        return True

    def _work(self) -> None:
        self._sandbox.expire_lease()
        for command in self._others:
            do(command, self._sandbox.runner())


def check_readers(view: View) -> None:
    """Readers see exactly the newest snapshot: no stale file, and no key twice."""
    snapshot = view.log.snapshot(view.log.head())
    checks.check_files(view, snapshot)
    ids = [row.row["id"] for row in view.rows() if row.op != "D"]
    assert len(set(ids)) == len(ids) == snapshot.rows
    checks.check_newest_versions(view)


def complete_erasure(sandbox: Sandbox) -> None:
    """If rows were erased, complete an erasure that was overtaken; nothing of the rows is left."""
    log = sandbox.view().log
    if any(record.kind is ChangeKind.ERASURE for record in log.records(1, log.head())):
        do(lambda runner: runner.erase(*ERASED), sandbox.runner())
        check_erased(sandbox.view())


def check_erased(view: View) -> None:
    """No data file, live or retired, has an erased row."""
    for path, rows in view.files.items():
        assert not set(rows["id"].to_pylist()) & set(ERASED), path


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.sampled(test=9, ci=30)
@pytest.mark.parametrize("others", OTHERS)
@pytest.mark.parametrize("name", PAUSED)
def test_whatever_works_during_a_pause_readers_see_the_newest_change(
    name: str, others: str, new_environment: NewEnvironment, request: pytest.FixtureRequest
) -> None:
    pauses = 0
    with new_environment("folder") as (environment, folder):
        sandbox, scenario = Sandbox(environment, folder), SCENARIOS[name]
        scenario.prepare(sandbox)
        sandbox.view()
        sandbox.save()
        pause = Pause(sandbox, scenario.run, OTHERS[others])
        calls = pause.count()
        tried = min(PAUSES, calls)
        for call in (1 + i * calls // tried for i in range(tried)):
            sandbox.restore()
            try:
                pauses += pause.at(call)
            except Exception as error:
                error.add_note(f"paused before call {call} of {calls}")
                raise
    assert pauses
    request.node.user_properties.append((COUNTS, {"pauses": pauses}))
