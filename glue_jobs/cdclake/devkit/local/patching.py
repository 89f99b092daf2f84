"""Puts our own parts in place of moto's for as long as the embedded AWS runs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def replaced(owner: object, name: str, value: object) -> Iterator[None]:
    """Set an attribute of a module or class, and put the old one back at the end.

    Raises:
        AttributeError: There is no such attribute: this is not the version of moto that this was written for.
    """
    old = vars(owner)[name] if name in vars(owner) else getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, old)
