"""A source is read no faster than is allowed."""

from __future__ import annotations

from cdclake_cli.sources.effort import Pace


class Time:
    """A clock that only `work` and `sleep` move."""

    def __init__(self) -> None:
        self.now = 5.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_it_waits_for_what_the_work_did_not_take() -> None:
    time = Time()
    pace = Pace(100, lambda: time.now, time.sleep)
    time.now += 0.5
    pace.spend(100)
    assert time.slept == [0.5]
    time.now += 10
    pace.spend(100)  # slower than it may be, which gives no right to be faster later
    pace.spend(50)
    assert time.slept == [0.5, 0.5]
    assert (pace.is_bounded, pace.rows_at_once(20_000), pace.rows_at_once(7)) == (True, 100, 7)


def test_without_a_bound_it_never_waits() -> None:
    time = Time()
    pace = Pace(None, lambda: time.now, time.sleep)
    pace.spend(10**9)
    assert (time.slept, pace.is_bounded, pace.rows_at_once(20_000)) == ([], False, 20_000)
