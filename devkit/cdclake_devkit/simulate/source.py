"""The source database and DMS: tables whose rows change, and the raw files that tell of it."""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from hashlib import md5
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from cdclake.model.position import ARRIVED, position
from cdclake_devkit.oracle import ChangeRow

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from cdclake_devkit.oracle import Row

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("region", pa.string())])
NOTE = pa.field("note", pa.string())
"""A column that the source may add later."""
ALL_COLUMNS = COLUMNS.append(NOTE)
KEY = ("id",)
KEYS = 9
"""Few, so that changes of one key meet."""
ADOPTABLE = "adoptable"
"""In place of the identity of a full load."""
_SEQUENCE = "AR_H_CHANGE_SEQ"
_KEY_BEFORE = "BI_id"
_REGIONS = ("north", "south", "east")
PARQUET, CSV = ".parquet", ".csv"
TYPES = "id bigint, name string, region string"
"""Of `COLUMNS`, as CSV files do not tell them. What is not declared is text; what is declared, the table has."""


def identity(content: bytes) -> str:
    """Tells contents of raw files apart."""
    return md5(content, usedforsecurity=False).hexdigest()


@dataclass
class SourceTable:
    """A table of the source.

    Attributes:
        rows: Its rows by key, now.
        loads: Rows of each full load, by the identity of its file.
        changes: Change rows of each change file, by its name; of other contents by `versions`.
        versions: Names that tell such contents apart, by their identities. They begin with the file's name.
        sent: Rows and columns in each change file, by its name.
        touched: Keys of rows that were changed in the lake, or in raw files, and not in the source.
        values: Number of different values so far.
        sequenced: Whether change files have change sequences.
        sequences: Number of change sequences so far.
        columns: Its columns now.
        bad_rows: Share of the change files that have a row without a key, which is quarantined.
        has_csv: Whether full loads, and half of the change files, are CSV files with a header.
        updates_keys: Whether updates may change the key. Then change files have the keys before.
    """

    name: str
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    loads: dict[str, Sequence[Row]] = field(default_factory=dict)
    changes: dict[str, Sequence[ChangeRow]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    sent: dict[str, tuple[list[dict[str, Any]], pa.Schema]] = field(default_factory=dict)
    touched: set[int] = field(default_factory=set)
    values: int = 0
    sequenced: bool = False
    sequences: int = 0
    columns: pa.Schema = COLUMNS
    bad_rows: float = 0.0
    updates_keys: bool = False
    has_csv: bool = False

    @property
    def load_name(self) -> str:
        """The name of full loads."""
        return "LOAD00000001" + (CSV if self.has_csv else PARQUET)

    def load(self) -> bytes:
        """A full load of the rows that are there now."""
        rows = [dict(self.rows[key]) for key in sorted(self.rows)]
        content = _content(self.load_name, rows, self.columns)
        self.loads[identity(content)] = rows
        return content

    def adoptable(self, chance: Random, *, is_partitioned: bool) -> dict[str, bytes]:
        """The first rows in files of another program, by their paths in the table's folder."""
        self.fill(chance)
        rows = self.loads[ADOPTABLE] = [dict(self.rows[key]) for key in sorted(self.rows)]
        if not is_partitioned:
            middle = len(rows) // 2
            return {f"part-{n}": _parquet(part, COLUMNS) for n, part in enumerate((rows[:middle], rows[middle:]))}
        columns = COLUMNS.remove(COLUMNS.get_field_index("region"))
        regions = sorted({row["region"] for row in rows})
        return {
            f"region={region}/part": _parquet([row for row in rows if row["region"] == region], columns)
            for region in regions
        }

    def columns_of(self, loaded: str) -> set[str]:
        """The columns of a full load, by its identity."""
        return {name for row in self.loads[loaded] for name in row}

    def load_with_columns_of(self, loaded: str, other: str) -> str:
        """The identity of a full load without the columns that another one lacks."""
        mixed, names = f"{loaded} with columns of {other}", self.columns_of(other)
        self.loads[mixed] = [{name: row[name] for name in row if name in names} for row in self.loads[loaded]]
        return mixed

    def change(self, chance: Random, now: datetime, written: datetime) -> tuple[str, bytes]:
        """Some statements now, and the name and content of the change file with their rows.

        Args:
            written: When DMS writes the file. With change sequences, its name tells that; else when they were made.
        """
        extension = chance.choice((PARQUET, CSV)) if self.has_csv else PARQUET
        name = self._free_name(written if self.sequenced else now, extension)
        rows: list[tuple[str, dict[str, Any], int | None]] = []
        for _ in range(chance.randint(1, 4)):
            key = chance.randrange(KEYS)
            op = "I" if key not in self.rows else chance.choice("UUD")
            new_key = self._new_key(chance, key) if op == "U" else key
            row = dict(self.rows[key]) if op == "D" else self._new_row(chance, new_key)
            rows.append((op, row, key if op == "U" else None))
            self.rows.pop(key, None)
            if op != "D":
                self.rows[new_key] = row
        orders = [self._sequence(now) if self.sequenced else None for _ in rows]
        self.changes[name] = [
            _change_row(position(name, place, order), op, row, before)
            for place, ((op, row, before), order) in enumerate(zip(rows, orders))
        ]
        if self.bad_rows and chance.random() < self.bad_rows:
            rows.append(("I", {"id": None, "name": "<no key>", "region": _REGIONS[0]}, None))
            orders.append(orders[-1])
        added = [pa.field(_SEQUENCE, pa.string())] if self.sequenced else []
        added += [pa.field(_KEY_BEFORE, pa.int64())] if self.updates_keys else []
        sent = [
            {"Op": op, _SEQUENCE: order, _KEY_BEFORE: before, **row} for (op, row, before), order in zip(rows, orders)
        ]
        self.sent[name] = sent, pa.schema([("Op", pa.string()), *added, *self.columns])
        return name, self.original(name)

    def original(self, name: str) -> bytes:
        """The content of a change file as DMS writes it."""
        return _content(name, *self.sent[name])

    def overwrite(self, name: str) -> bytes:
        """Other content of a change file: its rows with other values."""
        self.values += 1
        values = {"name": f"<{self.name} overwritten v{self.values}>"}
        sent, columns = self.sent[name]
        content = _content(name, [{**row, **values} for row in sent], columns)
        self.versions[identity(content)] = version = f"{name} v{self.values}"
        rows = self.changes[name]
        self.changes[version] = [replace(one, row={**one.row, **values}) for one in rows]
        return content

    def corrected(self, name: str, key: int) -> bytes:
        """The content of a change file whose row without a key, the last one, has a key."""
        sent, columns = self.sent[name]
        row = {**sent[-1], "id": key}
        content = _content(name, [*sent[:-1], row], columns)
        if identity(content) not in self.versions:
            self.versions[identity(content)] = version = f"{name} key {key}"
            own = {column: row.get(column) for column in columns.names if column in ALL_COLUMNS.names}
            place = position(name, len(sent) - 1, row[_SEQUENCE])
            self.changes[version] = [*self.changes[name], ChangeRow(place, "I", own)]
            self.touched.add(key)
        return content

    def by_hand(self, chance: Random) -> tuple[str, dict[str, Any]]:
        """An operation and a row for a direct change: all of it, or what it sets."""
        key = chance.randrange(KEYS)
        self.touched.add(key)
        if key in self.rows and chance.random() < 0.3:
            return "D", {"id": key}
        row = self._new_row(chance, key)
        return ("U", {"id": key, "name": row["name"]}) if key in self.rows else ("I", row)

    def add_column(self) -> None:
        """Add a column, with which the files that are written from now on begin to have it."""
        self.columns = ALL_COLUMNS
        self.rows = {key: {NOTE.name: None, **row} for key, row in self.rows.items()}

    def fill(self, chance: Random) -> None:
        """Insert the first rows."""
        for key in range(KEYS - 2):
            self.rows[key] = self._new_row(chance, key)

    def _new_key(self, chance: Random, key: int) -> int:
        """The key that an update of a row gives it: its own, or one that no row has."""
        if not self.updates_keys or chance.random() < 0.5:
            return key
        return chance.choice([one for one in range(KEYS) if one not in self.rows] or [key])

    def _new_row(self, chance: Random, key: int) -> dict[str, Any]:
        self.values += 1
        row = {"id": key, "name": f"<{self.name} {key} v{self.values}>", "region": chance.choice(_REGIONS)}
        return row if self.columns == COLUMNS else {**row, NOTE.name: chance.choice((None, f"note {self.values}"))}

    def _sequence(self, now: datetime) -> str:
        self.sequences += 1
        return f"{now:%Y%m%d%H%M%S}{now.microsecond // 10000:02d}{self.sequences:019d}"

    def _free_name(self, now: datetime, extension: str) -> str:
        while True:
            name = f"{now:%Y%m%d-%H%M%S}{now.microsecond // 1000:03d}"
            if not any(name + one in self.changes for one in (PARQUET, CSV)):
                return name + extension
            now += timedelta(milliseconds=1)


def _change_row(place: str, op: str, row: Row, before: int | None) -> ChangeRow:
    if before in (None, row["id"]):
        return ChangeRow(place, op, row)
    return ChangeRow(place + ARRIVED, op, row, (before,))


def _content(name: str, rows: Sequence[Row], schema: pa.Schema) -> bytes:
    """The content of a raw file with this name."""
    if name.endswith(CSV):
        values = [[row.get(column) for column in schema.names] for row in rows]
        lines = [schema.names, *(["NULL" if one is None else str(one) for one in line] for line in values)]
        return "".join(",".join(line) + "\n" for line in lines).encode()
    return _parquet(rows, schema)


def _parquet(rows: Sequence[Row], schema: pa.Schema) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), schema), sink, compression="none")
    return sink.getvalue()


def file_name(version: str) -> str:
    """The name of the file that has a content; see `SourceTable.versions`."""
    return version.partition(" ")[0]


def utc(seconds: float) -> datetime:
    """A time in seconds since 1970."""
    return datetime.fromtimestamp(seconds, timezone.utc)
