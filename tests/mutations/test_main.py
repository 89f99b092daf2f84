"""Only a test that fails with a fault and passes without it catches the fault."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.mutations.__main__ import ERROR, EVERYTHING, NONE, Run, Verdict, table, try_fault
from tests.mutations.faults import Fault

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tests.mutations.__main__ import Copy

FAULT = Fault("late-files-lost", "plan", "model/due_files.py", "a", "b", ("tests/cdclake/model",))
PASSES, NOTHING = Run(0, "9 passed in 0.1s"), Run(5, "9 deselected in 0.1s")
FAILS = Run(1, "FAILED tests/cdclake/model/test_due_files.py::test_late[1 - x] - assert 1 == 2\n1 failed in 1s")
STOPPED = Run(2, "FAILED tests/a.py::TestA::test_b\nxdist.dsession.Interrupted: stopping after 1 failures")
SETUP_FAILS = Run(1, "ERROR tests/a.py::test_c - KeyError: 'x'\n1 error in 0.1s")
NOT_IMPORTED = Run(1, "ERROR tests/cdclake/model/test_due_files.py - ImportError: no\n1 error in 0.1s")
WRONG_USE = Run(4, "ERROR: file or directory not found: tests/nowhere")


class Runs:
    """A copy of the repository whose runs of pytest are known.

    Attributes:
        asked: Tier and arguments of each run.
    """

    def __init__(self, *runs: Run) -> None:
        self._runs = iter(runs)
        self.asked: list[tuple[str, ...]] = []

    def with_fault(self, fault: Fault) -> AbstractContextManager[None]:
        return nullcontext()

    def run(self, *asked: str) -> Run:
        self.asked.append(asked)
        return next(self._runs)


def tried(*runs: Run, **options: Any) -> tuple[Verdict, list[tuple[str, ...]]]:
    copy = Runs(*runs)
    return try_fault(cast("Copy", copy), FAULT, **{"near_only": False, **options}), copy.asked


@pytest.mark.parametrize(
    ("run", "test"),
    [
        (FAILS, "tests/cdclake/model/test_due_files.py::test_late[1 - x]"),
        (STOPPED, "tests/a.py::TestA::test_b"),
        (SETUP_FAILS, "tests/a.py::test_c"),
    ],
)
def test_a_test_that_fails_with_the_fault_alone_catches_it(run: Run, test: str) -> None:
    verdict, asked = tried(run, PASSES)
    assert (verdict.tier, verdict.test, verdict.caught) == ("quick", test, True)
    assert asked == [("quick", "tests/cdclake/model"), ("quick", test)]


def test_tests_near_the_fault_run_first_and_the_next_tier_only_if_the_quick_one_passes() -> None:
    verdict, asked = tried(NOTHING, PASSES, PASSES, STOPPED, PASSES)
    assert verdict.tier == "test"
    near, everything = ("tests/cdclake/model",), EVERYTHING
    assert asked[:4] == [("quick", *near), ("quick", *everything), ("test", *near), ("test", *everything)]


def test_a_fault_that_no_test_catches_is_not_caught() -> None:
    assert tried(NOTHING, PASSES, PASSES, PASSES)[0].tier == NONE
    verdict, asked = tried(NOTHING, PASSES, near_only=True)
    assert (verdict.tier, len(asked), verdict.caught) == (NONE, 2, False)


@pytest.mark.parametrize(
    ("runs", "problem"),
    [
        ([NOT_IMPORTED], "tests/cdclake/model/test_due_files.py cannot be imported"),
        ([WRONG_USE], "pytest ended with 4: ERROR: file or directory not found"),
        ([FAILS, FAILS], "test_late[1 - x] does not pass without the fault either"),
        ([FAILS, NOTHING], "does not pass without the fault either"),
    ],
)
def test_other_errors_do_not_count_as_caught(runs: list[Run], problem: str) -> None:
    verdict, _ = tried(*runs)
    assert (verdict.tier, verdict.caught) == (ERROR, False)
    assert problem in verdict.test


def test_the_table_counts_the_faults_of_each_tier() -> None:
    lines = table([tried(STOPPED, PASSES)[0], tried(NOT_IMPORTED)[0]]).splitlines()
    assert lines[1].split() == [FAULT.area, FAULT.name, FAULT.path, "quick", "tests/a.py::TestA::test_b", "0"]
    assert lines[-1] == "2 faults by the tier that caught them: quick 1, test 0, none 0, error 1"
