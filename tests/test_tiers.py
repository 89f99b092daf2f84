"""A tier tries some of the cases of a test, and misses no value of a parameter."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from tests.tiers import balanced


@pytest.mark.parametrize("values", [(2, 2), (4, 2), (2, 3, 5), (9, 2, 2), (7,)])
def test_the_first_cases_have_each_value_as_often_as_others(values: tuple[int, ...]) -> None:
    cases = [dict(zip("abc", numbers)) for numbers in product(*map(range, values))]
    order = list(balanced(cases))
    assert sorted(order) == list(range(len(cases)))
    for count in range(1, len(cases)):
        for name, size in zip("abc", values):
            used = Counter(cases[number][name] for number in order[:count])
            assert max(used.values()) - min(used[value] for value in range(size)) <= 2
            assert count < 2 * size or len(used) == size
