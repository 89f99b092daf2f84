"""Lists folders of transaction files once for all tables that share them."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from cdclake.model.raw.files import TRANSACTIONS_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cdclake.model.raw.files import ListedObject
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

    def list_folders(self, prefix: str) -> Iterator[str]:
        """All distinct `prefix` + `<segment>/` below `prefix`, by name, through all pages."""
        return self._raw.list_folders(prefix)

    def list_level(self, prefix: str) -> Iterator[str]:
        """The folders of `list_folders`, and objects' keys `prefix` + `<name>` without another slash, in any order."""
        return self._raw.list_level(prefix)
