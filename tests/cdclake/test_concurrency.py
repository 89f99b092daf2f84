"""Calls are made at the same time where that saves time, and otherwise without a thread."""

from __future__ import annotations

from threading import Barrier, get_ident
from time import sleep

import pytest

from cdclake.concurrency import executor, in_parallel


@pytest.mark.parametrize(("items", "at_once"), [(1, 16), (3, 1), (0, 16)])
def test_a_single_call_and_calls_that_take_no_time_need_no_thread(items: int, at_once: int) -> None:
    assert set(in_parallel(lambda _: get_ident(), range(items), at_once)) <= {get_ident()}


def test_calls_that_wait_are_made_at_the_same_time() -> None:
    all_began = Barrier(3, timeout=60)
    assert sorted(in_parallel(lambda _: all_began.wait(), range(3), 3)) == [0, 1, 2]


@pytest.mark.parametrize("at_once", [1, 4])
def test_results_come_in_order_with_a_call_after_each(at_once: int) -> None:
    counted: list[None] = []
    assert in_parallel(str, range(5), at_once, lambda: counted.append(None)) == ["0", "1", "2", "3", "4"]
    assert len(counted) == 5


@pytest.mark.parametrize("at_once", [1, 2])
@pytest.mark.parametrize("broken", ["call", "after_each"])
def test_an_error_ends_them_once_started_calls_have_ended(broken: str, at_once: int) -> None:
    begun, ended = list[int](), list[int]()

    def call(number: int) -> None:
        begun.append(number)
        sleep(0.001)  # so that not all are over before the error is noticed
        if broken == "call":
            raise ValueError(number)
        ended.append(number)

    def after_each() -> None:
        raise KeyError

    with pytest.raises((ValueError, KeyError)):
        in_parallel(call, range(10_000), at_once, after_each)
    now = len(begun)
    assert now < 10_000
    assert broken == "call" or len(ended) == now


@pytest.mark.parametrize("at_once", [1, 2])
def test_the_error_of_a_call_beside_others_comes_with_its_result(at_once: int) -> None:
    with executor(at_once) as pool:
        failing, working = pool.submit(int, "x"), pool.submit(int, "7")
        assert working.result() == 7
        with pytest.raises(ValueError, match="'x'"):
            failing.result()
