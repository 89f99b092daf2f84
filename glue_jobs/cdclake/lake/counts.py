"""Adds up counts by name or number."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

Key = TypeVar("Key")


def summed(one: Mapping[Key, int], other: Mapping[Key, int]) -> Mapping[Key, int]:
    """Two counts as one. Visits the keys of the other alone: pass as `one` what was added up before."""
    counts = Counter(one)
    counts.update(other)
    return counts
