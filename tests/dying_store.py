"""A run that dies: its store stops working at a given call, before or after executing it."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from cdclake.ports import ObjectStore

_MODIFYING = {
    *("put", "put_if_absent", "put_if_unchanged", "copy", "delete", "remove", "retire", "restore", "discard", "purge")
}
CALLS = frozenset(
    {
        *("get", "put", "put_if_absent", "put_if_unchanged", "copy", "delete", "remove", "list"),
        *("begin_removing", "begin_retiring", "begin_restoring", "retire", "restore", "not_retained", "discard"),
    }
)
"""Calls that read or change something."""
SECOND_HALF = {
    "begin_retiring": "retire",
    "begin_restoring": "restore",
    "begin_discarding": "discard",
    "begin_removing": "remove",
}
"""Calls that change nothing but return functions that do, and the call that each of these functions stands for."""


class Death(NamedTuple):
    """Where a run dies: number of the counted call, from 1, and whether this call still takes effect."""

    call: int
    carried_out: bool


class DiedError(BaseException):
    """The run is dead: no code of the product sees it."""


class DyingStore:
    """Forwards calls to a store until the run dies; then every call fails.

    Args:
        counted: Names of the calls that count.
    """

    def __init__(self, store: ObjectStore, death: Death, counted: Collection[str] = _MODIFYING) -> None:
        self._store, self._death, self._counted = store, death, counted
        self._calls = 0
        self._lock = Lock()
        self.calls_at_once = store.calls_at_once

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self._call(name, getattr(self._store, name))

    def _call(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            with self._lock:
                self._calls += name in self._counted
                dead = self._calls >= self._death.call
                last = self._calls == self._death.call and name in self._counted
            if not dead or (last and self._death.carried_out):
                result = method(*arguments, **named)
            if dead:
                raise DiedError(name)
            return [self._call(SECOND_HALF[name], one) for one in result] if name in SECOND_HALF else result

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
        self._lock = Lock()
        self.calls_at_once = store.calls_at_once
        self.calls = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self._paused(name, getattr(self._store, name))

    def _paused(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if name in self._counted:
                with self._lock:
                    self.calls += 1
                    is_hit = self.calls == self._call
                if is_hit:
                    self._meanwhile()
            result = method(*arguments, **named)
            return [self._paused(SECOND_HALF[name], one) for one in result] if name in SECOND_HALF else result

        return call
