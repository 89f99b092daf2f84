"""Makes a case that fails smaller: fewer steps, faults, tables and settings, with the same violation."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from cdclake.model.table.attributes import Attribute
from cdclake_devkit.simulate.case import HOUR
from cdclake_devkit.simulate.faults import FaultPlan
from cdclake_devkit.simulate.simulation import Outcome, simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cdclake_devkit.simulate.case import Case

Item = TypeVar("Item")
_NEEDED = (Attribute.PRIMARY_KEY,)


def shrink(failed: Outcome, seconds: float = 60.0) -> Outcome:
    """The outcome of a smaller case that violates the same invariant.

    Args:
        failed: An outcome with a violation.
        seconds: How long to try.
    """
    return _Shrinking(failed, seconds).run()


class _Shrinking:
    def __init__(self, failed: Outcome, seconds: float) -> None:
        self._best, self._name = failed, failed.violations[0].name
        self._ends = time.monotonic() + seconds

    def run(self) -> Outcome:
        case = self._best.case
        self._try(
            replace(case, only=self._best.faults, faults=FaultPlan(case.seed, 0.0, (), case.faults.latency_seconds))
        )
        if self._best.case.only is None:
            return self._best
        while True:
            before = self._best.case
            self._simplify_surroundings()
            self._fewer(self._best.case.steps, lambda steps: replace(self._best.case, steps=tuple(steps)))
            self._fewer(self._best.case.only or (), lambda faults: replace(self._best.case, only=tuple(faults)))
            if self._best.case == before or self._is_over:
                return self._best

    @property
    def _is_over(self) -> bool:
        return time.monotonic() > self._ends

    def _try(self, case: Case) -> bool:
        """Whether a case still fails in the same way; then it is the best one."""
        if self._is_over:
            return False
        outcome = simulate(case)
        if not outcome.violations or outcome.violations[0].name != self._name:
            return False
        self._best = outcome
        return True

    def _fewer(self, items: Sequence[Item], with_items: Callable[[Sequence[Item]], Case]) -> None:
        """Leave out as many items as possible, at first many at once."""
        size = max(len(items) // 2, 1)
        while items:
            start = 0
            while start < len(items):
                fewer = [*items[:start], *items[start + size :]]
                if self._try(with_items(fewer)):
                    items = fewer
                else:
                    start += size
            if size == 1 or self._is_over:
                return
            size = max(size // 2, 1)

    def _simplify_surroundings(self) -> None:
        case = self._best.case
        if case.skew_seconds:
            self._try(replace(case, skew_seconds=0.0))
        if case.versions:
            self._try(replace(self._best.case, versions=False))
        if case.small_changes:
            self._try(replace(self._best.case, small_changes=False))
        used = {step.table for step in self._best.case.steps}
        tables = tuple(
            settings if number in used else {Attribute.PRIMARY_KEY: "id"}
            for number, settings in enumerate(self._best.case.tables)
        )
        if tables != self._best.case.tables:
            self._try(replace(self._best.case, tables=tables))
        for number, settings in enumerate(self._best.case.tables):
            for name in settings.keys() - set(_NEEDED):
                now = self._best.case.tables
                simpler = {key: value for key, value in now[number].items() if key != name}
                self._try(replace(self._best.case, tables=(*now[:number], simpler, *now[number + 1 :])))
        last = max((step.at for step in self._best.case.steps), default=0.0)
        hours = last // HOUR + 1.0
        if hours < self._best.case.hours:
            self._try(replace(self._best.case, hours=hours))
