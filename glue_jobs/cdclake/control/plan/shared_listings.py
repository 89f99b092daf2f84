"""Lists folders of transaction files once for all tables that share them."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from cdclake.control.plan.raw_scan import transactions_begin
from cdclake.errors import ConfigurationError
from cdclake.model.raw.files import TRANSACTIONS_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from cdclake.model.raw.files import ListedObject
    from cdclake.model.table.state import TableState
    from cdclake.ports import ObjectReader


class SharedListings:
    """An `ObjectReader` that caches the listings of transaction files, and no others.

    Threads that request the same listing wait for the first of them.

    Args:
        begins: For each prefix of transaction files, the smallest key after which a table lists them. A prefix that is
            missing is listed from its first key.
    """

    def __init__(self, raw: ObjectReader, begins: Mapping[str, str] | None = None) -> None:
        self._raw = raw
        self._begins = begins or {}
        self._cached: dict[str, list[ListedObject]] = {}
        self._lock = Lock()

    @classmethod
    def of_tables(cls, raw: ObjectReader, states: Iterable[TableState], now: datetime) -> SharedListings:
        """For scans of these tables at a time."""
        begins: dict[str, str] = {}
        for state in states:
            if state.transactions_prefix:
                try:
                    begin = transactions_begin(state, now)
                except ConfigurationError:
                    continue  # what works on this table reports it
                begins[state.transactions_prefix] = min(begins.get(state.transactions_prefix, begin), begin)
        return cls(raw, begins)

    @property
    def calls_at_once(self) -> int:
        """How many calls at a time save time; 1 if a call takes no longer than starting a thread for it."""
        return self._raw.calls_at_once

    def list(self, prefix: str, start_after: str = "") -> Iterator[ListedObject]:
        """All objects whose keys begin with `prefix` and sort after `start_after`, by key, through all pages."""
        begin = self._begins.get(prefix, "")
        if not prefix.endswith(f"/{TRANSACTIONS_NAME}") or start_after < begin:
            return self._raw.list(prefix, start_after)
        with self._lock:
            if prefix not in self._cached:
                self._cached[prefix] = list(self._raw.list(prefix, begin))
            cached = self._cached[prefix]
        return (entry for entry in cached if entry.key > start_after)

    def list_level(self, prefix: str) -> Iterator[str]:
        """Distinct folders `prefix` + `<name>/`, and keys `prefix` + `<name>` without another slash, in any order."""
        return self._raw.list_level(prefix)
