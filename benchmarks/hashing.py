"""A 64-bit mixing function on arrays, for generating data and checksums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    U64 = NDArray[np.uint64]


def mix(values: NDArray[Any]) -> U64:
    """The finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection whose results look random.

    Args:
        values: `uint64`, any shape; not modified.
    """
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed
