"""A run that dies: its store stops working at a given call, before or after executing it."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from cdclake.ports import ObjectStore

_MODIFYING = {"put", "put_if_absent", "put_if_unchanged", "copy", "delete", "remove", "retire", "purge"}


class Death(NamedTuple):
    """Where a run dies: number of the counted call, from 1, and whether this call still takes effect."""

    call: int
    carried_out: bool


class DiedError(Exception):
    """The run is dead."""


class DyingStore:
    """Forwards calls to a store until the run dies; then every call fails.

    Args:
        counted: Names of the calls that count.
    """

    def __init__(self, store: ObjectStore, death: Death, counted: Collection[str] = _MODIFYING) -> None:
        self._store, self._death, self._counted = store, death, counted
        self._calls = 0
        self._lock = Lock()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            with self._lock:
                self._calls += name in self._counted
                dead = self._calls >= self._death.call
                last = self._calls == self._death.call and name in self._counted
            if not dead or (last and self._death.carried_out):
                result = getattr(self._store, name)(*arguments, **named)
            if dead:
                raise DiedError(name)
            return result

        return call


class PausingStore:
    """Forwards calls to a store, and lets other runs work before one of them.

    Args:
        call: Number of the counted call before which the run pauses, from 1.
        meanwhile: What the other runs do.
        counted: Names of the calls that count.
    """

    def __init__(
        self, store: ObjectStore, call: int, meanwhile: Callable[[], object], counted: Collection[str] = _MODIFYING
    ) -> None:
        self._store, self._call, self._meanwhile, self._counted = store, call, meanwhile, counted
        self.calls = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self.calls += name in self._counted
            if name in self._counted and self.calls == self._call:
                self._meanwhile()
            return getattr(self._store, name)(*arguments, **named)

        return call
