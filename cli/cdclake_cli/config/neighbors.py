"""Lists the folders of many tables in few requests: a page of a bucket's listing goes on into the next folders."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import islice
from os.path import commonprefix
from typing import TYPE_CHECKING

from cdclake.concurrency import CALLS_AT_ONCE
from cdclake.control.plan.raw_scan import PAGE_OBJECTS
from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cdclake.model.raw.files import ListedObject
    from cdclake.ports import ObjectReader

_AFTER_SLASH = "0"
"""The character after `/`: a folder's name with it in place of the slash sorts right after all keys of the folder."""


class ListedNeighbors:
    """An `ObjectReader` that has listed some folders already.

    Args:
        raw: Lists all else.
        folders: The objects of some folders, by key prefix.
    """

    def __init__(self, raw: ObjectReader, folders: Mapping[str, Sequence[ListedObject]]) -> None:
        self._raw, self._folders = raw, folders

    @classmethod
    def of(cls, raw: ObjectReader, folders: Iterable[str]) -> ListedNeighbors:
        """List folders page by page, as long as that takes fewer requests and no more time than listing each.

        Each page takes as long as the listings of `CALLS_AT_ONCE` folders, which are made at the same time. So it goes
        on while pages hold so many whole folders on average. One page may be in vain.

        Args:
            folders: Key prefixes, with a trailing slash.
        """
        waiting = sorted(set(folders)) if raw.calls_at_once > 1 else []
        found: dict[str, Sequence[ListedObject]] = {}
        common, pages = commonprefix(waiting), 0  # noqa: RUF071 - a prefix of keys need not end at a slash
        while len(waiting) > CALLS_AT_ONCE and (pages - 1) * CALLS_AT_ONCE < len(found):
            try:
                page = list(islice(raw.list(common, waiting[0]), PAGE_OBJECTS))
            except ConfigurationError:
                break  # it may be allowed for some folders: each listing tells
            pages += 1
            whole = _whole_folders(page, waiting)
            found.update(whole)
            waiting = waiting[len(whole) + 1 :]  # what the page's end cuts is listed by itself: it may be large
        return cls(raw, found)

    @property
    def calls_at_once(self) -> int:
        """How many calls at a time save time; 1 if a call takes no longer than starting a thread for it."""
        return self._raw.calls_at_once

    def list(self, prefix: str, start_after: str = "") -> Iterator[ListedObject]:
        """All objects whose keys begin with `prefix` and sort after `start_after`, by key, through all pages."""
        if prefix not in self._folders:
            return self._raw.list(prefix, start_after)
        return (entry for entry in self._folders[prefix] if entry.key > start_after)

    def list_level(self, prefix: str) -> Iterator[str]:
        """Distinct folders `prefix` + `<name>/`, and keys `prefix` + `<name>` without another slash, in any order."""
        return self._raw.list_level(prefix)


def _whole_folders(page: Sequence[ListedObject], folders: Sequence[str]) -> dict[str, Sequence[ListedObject]]:
    """The objects of the first folders, as far as the page holds them whole.

    Args:
        page: What is listed after the first folder's prefix; the last page if it is not full.
        folders: Sorted.
    """
    keys = [entry.key for entry in page]
    whole: dict[str, Sequence[ListedObject]] = {}
    for folder in folders:
        end = folder[:-1] + _AFTER_SLASH
        if len(page) == PAGE_OBJECTS and keys[-1] < end:
            break
        whole[folder] = page[bisect_right(keys, folder) : bisect_left(keys, end)]
    return whole
