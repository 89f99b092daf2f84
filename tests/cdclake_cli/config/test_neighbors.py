"""Folders that lie beside each other are listed together, and each listing is what the bucket has."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.control.plan.raw_scan import PAGE_OBJECTS
from cdclake.errors import ConfigurationError
from cdclake.model.raw.files import ListedObject
from cdclake_cli.config.neighbors import ListedNeighbors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

THEN = datetime(2024, 3, 5, tzinfo=timezone.utc)


class Pages:
    """A bucket that counts the pages which it lists."""

    calls_at_once = 16

    def __init__(self, keys: Iterable[str], *, denied: bool = False) -> None:
        self._keys = sorted(keys)
        self._denied = denied
        self.pages = 0

    def list(self, prefix: str, start_after: str = "") -> Iterator[ListedObject]:
        keys = [key for key in self._keys if key.startswith(prefix) and key > start_after]
        for number, key in enumerate(keys or [""]):
            if number % PAGE_OBJECTS == 0:
                self.pages += 1
                if self._denied and prefix.count("/") < 2:
                    raise ConfigurationError("Access is denied")
            if key:
                yield ListedObject(key, 1, THEN, "")

    def list_level(self, prefix: str) -> Iterator[str]:
        raise NotImplementedError


def folders(count: int) -> list[str]:
    return [f"shop/t{number}/" for number in range(count)]


def listed(raw: Pages, names: list[str]) -> list[list[str]]:
    together = ListedNeighbors.of(raw, names)
    return [[entry.key for entry in together.list(name)] for name in names]


@pytest.mark.parametrize(
    ("tables", "files", "most_pages"),
    [(1000, 1, 2), (1000, 20, 40), (100, 62, 25), (30, 500, 31), (30, 1500, 61), (16, 1, 16), (1, 1, 1)],
)
def test_as_many_folders_as_a_page_holds_cost_one_request(tables: int, files: int, most_pages: int) -> None:
    keys = [f"{folder}{number:04}.csv" for folder in folders(tables) for number in range(files)]
    raw = Pages(keys)
    assert [len(found) for found in listed(raw, folders(tables))] == [files] * tables
    assert raw.pages <= most_pages


def test_a_folder_that_fills_pages_is_listed_by_itself_and_its_neighbors_together() -> None:
    keys = [f"{folder}1.csv" for folder in folders(200)] + [f"shop/t105/{number:04}.csv" for number in range(3000)]
    raw = Pages(keys)
    assert [len(found) for found in listed(raw, folders(200))] == [3001 if n == 105 else 1 for n in range(200)]
    assert raw.pages <= 2 + 4 + 1


def test_folders_of_other_tables_between_end_it_early() -> None:
    keys = [
        f"shop/t{number}{other}/{file:03}.csv" for number in range(50) for other in ("", "x") for file in range(500)
    ]
    raw = Pages(keys)
    listed(raw, folders(50))
    assert raw.pages <= 50 + 1


def test_what_may_not_be_listed_as_a_whole_is_listed_folder_by_folder() -> None:
    raw = Pages([f"{folder}1.csv" for folder in folders(50)], denied=True)
    assert all(listed(raw, folders(50)))


SEGMENTS = st.sampled_from(["a", "a-b", "a.", "a0", "b", "é", "z", "\U0001f600"])
KEYS = st.builds("{}/{}/{}".format, SEGMENTS, SEGMENTS, st.sampled_from(["", "1.csv", "2/3.csv", "LOAD1.csv"]))


@given(st.sets(KEYS), st.integers(0, PAGE_OBJECTS * 2), st.sampled_from(["", "1.csv", "2"]))
def test_a_listing_is_what_the_bucket_has(keys: set[str], many: int, start: str) -> None:
    raw = Pages(keys | {f"b/a/{number:04}.csv" for number in range(many)})
    names = [f"{schema}/{table}/" for schema in ("a", "a-b", "b", "é") for table in ("a", "a-b", "a.", "a0", "é", "z")]
    together = ListedNeighbors.of(raw, names)
    for name in names:
        start_after = name + start if start else ""
        expected = [entry for entry in raw.list(name, start_after) if entry.key != name]
        assert [entry for entry in together.list(name, start_after) if entry.key != name] == expected
