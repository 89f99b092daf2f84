"""Rows that Arrow cannot take at once, without the gigabyte that this needs."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING
from unittest.mock import patch

from cdclake.lake.storage import wide_rows

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def taken_in_pieces(max_bytes: int) -> Iterator[None]:
    """Let all modules of this process take rows, and put chunks together, as if Arrow could only do so many bytes."""
    with ExitStack() as patches:
        for function in (wide_rows.take, wide_rows.combined):
            name = function.__name__
            users = [module for module in [*sys.modules.values()] if getattr(module, name, None) is function]
            assert len(users) > 1
            for module in users:
                patches.enter_context(patch.object(module, name, partial(function, max_bytes=max_bytes)))
        yield
