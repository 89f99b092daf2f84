"""Fixtures of the control tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cdclake.control.world import World

if TYPE_CHECKING:
    from cdclake_devkit.memory import ManualClock


@pytest.fixture
def world(clock: ManualClock) -> World:
    """An empty world."""
    return World(clock)
