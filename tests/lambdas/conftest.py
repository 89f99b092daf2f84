"""Lets the tests import the functions as Lambda does: by their folder below `lambdas/`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

sys.path.append(str(Path(__file__).parent.parent.parent / "lambdas"))


@pytest.fixture
def own_logging() -> Iterator[None]:
    """Takes back what a function that sets up logging does to the process."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
