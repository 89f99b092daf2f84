"""A lake of thousands of tables, whose logs are those of a few tables under other names.

Stores answer as S3 does: a listing costs what it returns, however many other objects there are. They count requests.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from cdclake.model.table.name import TableName
from cdclake.model.table.state import TableState
from cdclake.model.times import iso_utc
from cdclake_devkit.memory import ManualClock, MemoryState, MemoryStore
from tests.cdclake_cli.console.lake import ORDERS, PRODUCT, STORE, MemoryLake

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake.model.raw.files import ListedObject
    from cdclake.ports import Clock

SCHEMAS = 40
NOW = datetime(2024, 3, 7, 10, tzinfo=timezone.utc)
FAILED, OFF, LATE = 100, 20, 250
"""Of so many tables one is failed, turned off, or late: it has a raw file that no run has read for a day."""


def template(number: int) -> TableName:
    """The table whose log a table of the fleet has."""
    return STORE if number % FAILED == 1 else PRODUCT if number % OFF == 2 else ORDERS


def name_of(number: int) -> TableName:
    """The name of a table of the fleet."""
    return TableName(f"shop_{number % SCHEMAS:02}", f"{template(number).table}_{number:05}")


class Logs(MemoryStore):
    """The lake: the objects of a table are those of its template."""

    def __init__(self, templates: MemoryStore, clock: Clock) -> None:
        super().__init__(clock)
        self._templates = templates
        self.requests: Counter[str] = Counter()

    def get(self, key: str) -> bytes | None:
        """The content of the template's object."""
        self.requests["get"] += 1
        return self._templates.get(_of_template(key))

    def list(self, prefix: str, start_after: str = "") -> Iterator[ListedObject]:
        """The objects of the template, under the names of the table."""
        self.requests["list"] += 1
        listed, own = _of_template(prefix), len(prefix)
        found = self._templates.list(listed, _of_template(start_after))
        return (entry._replace(key=prefix[:own] + entry.key[len(listed) :]) for entry in found)


def _of_template(key: str) -> str:
    """The template's key: `_cdclake/shop/orders/x` for `_cdclake/shop_03/orders_00003/x`."""
    parts = key.split("/")
    for place, part in enumerate(parts[:-1]):
        if part.startswith("shop_"):
            parts[place], parts[place + 1] = "shop", parts[place + 1].rpartition("_")[0] or parts[place + 1]
            break
    return "/".join(parts)


class Raw(MemoryStore):
    """The raw bucket: a few files for each table."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.folders: dict[str, dict[str, MemoryStore]] = {}
        self.requests: Counter[str] = Counter()

    def put(self, key: str, data: bytes) -> None:
        """Write an object."""
        schema, table, _ = key.split("/", 2)
        self.folders.setdefault(schema, {}).setdefault(table, MemoryStore(self._clock)).put(key, data)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ListedObject]:
        """The objects of one table."""
        self.requests["list"] += 1
        schema, table = prefix.split("/")[:2]
        folder = self.folders.get(schema, {}).get(table)
        return folder.list(prefix, start_after) if folder else iter(())

    def list_level(self, prefix: str) -> Iterator[str]:
        """The schemas, or the tables of one."""
        names = self.folders[prefix.rstrip("/")] if prefix else self.folders
        return (f"{prefix}{name}/" for name in names)


@dataclass(frozen=True)
class Fleet(MemoryLake):
    """The lake of many tables."""

    store: Logs
    raw: Raw


def fleet(templates: MemoryLake, tables: int) -> Fleet:
    """So many tables."""
    clock, hour = ManualClock(NOW), timedelta(hours=1)
    by_name = {state.name: state for state in templates.states.all()}
    states, raw = [], Raw(ManualClock(templates.clock()))
    for number in range(tables):
        name, of = name_of(number), by_name[template(number)]
        new = templates.installation.new_state(name)
        item = {key: value.replace(of.path, new.path) for key, value in of.item.items()}
        item |= {key: new.item[key] for key in ("path", "bucket", "prefix", "folder")}
        if "LastRunUtc" in item:
            item["LastRunUtc"] = iso_utc(NOW - timedelta(seconds=number))
        if "LastDelays" in item:
            item["LastDelays"] = json.dumps([[22, int((NOW - hour).timestamp()), 20 + number % 977]])
        states.append(TableState(item))
        raw.put(f"{new.raw_prefix}LOAD00000001.csv", b"id\n1\n")
        if number % LATE == 3:
            file, written = f"{new.raw_prefix}20240306-080000000.csv", ManualClock(NOW - 26 * hour)
            late = raw.folders[name.schema][name.table] = MemoryStore(written)
            late.put(file, b"I,1\n")
    return Fleet(Logs(templates.store, clock), raw, MemoryState(states), clock)
