"""A lake table on each kind of object store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.builders import LakeBuilder
from tests.cdclake.adapters.conftest import s3, store, suspended_s3, versioned_s3  # noqa: F401 - fixtures

if TYPE_CHECKING:
    from cdclake.ports import ObjectStore
    from cdclake_devkit.memory import ManualClock


in_memory = pytest.mark.parametrize("store", ["memory"], indirect=True)
"""For tests of `lake` about what no store does: plans, times, tokens. The calls of stores have tests of their own."""


@pytest.fixture
def lake(store: ObjectStore, clock: ManualClock) -> LakeBuilder:  # noqa: F811 - the fixture
    """A lake table without changes."""
    return LakeBuilder(store, clock)
