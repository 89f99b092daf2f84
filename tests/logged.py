"""Collects log lines."""

from __future__ import annotations

import io
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cdclake import logs

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def logged() -> Iterator[io.StringIO]:
    """The log lines of a block, as jobs write them."""
    stream, root = io.StringIO(), logging.getLogger()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.JsonFormatter())
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield stream
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
