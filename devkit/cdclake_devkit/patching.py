"""Replaces parts of moto while the embedded AWS runs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def replaced(owner: object, name: str, value: object) -> Iterator[None]:
    """Set an attribute of a module or class, and restore it at the end.

    Raises:
        AttributeError: The attribute does not exist, because this version of moto is not supported.
    """
    old = vars(owner)[name] if name in vars(owner) else getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, old)
