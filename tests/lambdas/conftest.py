"""Lets tests import functions like Lambda does: by their folder below `lambdas/`."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import pytest

from tests import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

sys.path.append(str(ROOT / "lambdas"))


@pytest.fixture
def own_logging() -> Iterator[None]:
    """Restore the loggers of the process, which a function configures."""
    loggers = [logging.getLogger(), logging.getLogger("cdclake")]
    before = [(vars(logger).copy(), list(logger.handlers)) for logger in loggers]
    yield
    for logger, (attributes, handlers) in zip(loggers, before):
        vars(logger).clear()
        vars(logger).update(attributes)
        logger.handlers[:] = handlers
        logger.setLevel(logger.level)  # clears the cache of enabled levels
