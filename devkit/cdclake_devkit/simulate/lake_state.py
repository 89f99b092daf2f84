"""What a lake table must contain after each change, from its record and what the source wrote; what readers find."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, cast
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table.metadata import TableMetadataUtil

from cdclake.lake.storage.object_io import StoreIO
from cdclake.model.change.record import ChangeKind
from cdclake.model.partition_folder import HIVE_NULL_PARTITION
from cdclake.model.position import MARKS
from cdclake.model.schema import INSERT
from cdclake_devkit.oracle import ChangeRow, LakeRow, merge
from cdclake_devkit.simulate.source import ADOPTABLE, ALL_COLUMNS, KEY, file_name, identity

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from cdclake.model.change.record import ChangeRecord
    from cdclake.model.layout import LakeLayout
    from cdclake.ports import ObjectStore
    from cdclake_devkit.oracle import Row
    from cdclake_devkit.simulate.source import SourceTable


def whole(row: Row) -> Row:
    """A row with null in the columns that it lacks."""
    return {**dict.fromkeys(ALL_COLUMNS.names), **row}


@dataclass(frozen=True)
class LakeState:
    """The content of a lake table.

    Attributes:
        load: Rows of its full load.
        applied: Names of the change files that were applied since, see `SourceTable.versions`.
        loaded: Identity of the full load.
        erased: Raw files, the full load by its identity, and keys of which the rows in them were erased or left out.
    """

    load: Sequence[Row] = ()
    applied: frozenset[str] = frozenset()
    loaded: str = ""
    erased: frozenset[tuple[str, int]] = frozenset()

    def rows(self, table: SourceTable, *, soft_delete: bool) -> list[LakeRow]:
        """The rows that the oracle computes."""
        changes: list[ChangeRow] = [
            replace(row, row=whole(row.row)) if row.op == INSERT else row  # an update keeps what it does not send
            for name in self.applied
            for row in table.changes[name]
            if (name, row.row["id"]) not in self.erased
        ]
        load = [row for row in self.load if (self.loaded, row["id"]) not in self.erased]
        rows = merge(KEY, load, changes, soft_delete=soft_delete)
        return [LakeRow(whole(row.row), row.op, row.position) for row in rows]

    def erased_values(self, table: SourceTable) -> set[str]:
        """Values in rows that were erased, and in no row that was not."""
        rows = [(file, change.row) for file, changes in table.changes.items() for change in changes]
        rows += [(file, row) for file, loaded in table.loads.items() for row in loaded]
        gone = {row["name"] for file, row in rows if (file, row["id"]) in self.erased}
        there = {*self.applied, self.loaded}
        return gone - {row["name"] for file, row in rows if file in there and (file, row["id"]) not in self.erased}

    def without(self, key: int) -> LakeState:
        """The state after an erasure of a key."""
        more = {(name, key) for name in (*self.applied, self.loaded)}
        return replace(self, erased=self.erased | more)


def after(
    record: ChangeRecord,
    states: Sequence[LakeState],
    table: SourceTable,
    read: Mapping[str, bytes],
    inspected: Mapping[str, bytes],
    folder: str,
) -> LakeState:
    """The state after a change.

    Args:
        states: Those after all changes before it, from the empty one on.
        read: Contents of raw files as the run that made the change read them last, by key.
        inspected: The same, as it read them first.
        folder: The table's folder in the raw bucket.

    Raises:
        ValueError: The change applied what the table has already, or what nobody wrote.
    """
    before = states[-1]
    if record.as_of is not None:
        return states[record.as_of]
    if record.kind is ChangeKind.FULL_LOAD:
        (key,) = (folder + name for name in record.raw_names)
        loaded, first = identity(read.get(key, b"")), identity(inspected.get(key, b""))
        if table.columns_of(loaded) != table.columns_of(first):  # overwritten while it was read: it is loaded again
            loaded = table.load_with_columns_of(loaded, first)
        return LakeState(table.loads[loaded], loaded=loaded)
    if record.kind is ChangeKind.ADOPTION:
        return LakeState(table.loads[ADOPTABLE], loaded=ADOPTABLE)
    contents = {name: identity(read.get(folder + name, b"")) for name in record.raw_names}
    versions = frozenset(table.versions.get(content, name) for name, content in contents.items())
    if record.kind is ChangeKind.RELEASE:
        others = {version for version in before.applied if file_name(version) not in contents}
        return replace(before, applied=versions | others)
    if record.kind in (ChangeKind.INCREMENTAL, ChangeKind.DIRECT):
        again = {file_name(version) for version in before.applied}.intersection(record.raw_names)
        if again:
            message = f"change {record.change} applies {', '.join(sorted(again))} again"
            raise ValueError(message)
        return replace(before, applied=before.applied | versions)
    return before


def rows_of(path: str, content: bytes) -> list[LakeRow]:
    """The rows of a data file, with the partition values in its path."""
    parts = [piece.split("=", 1) for piece in path.split("/")[:-1] if "=" in piece]
    values = {unquote(name): None if text == HIVE_NULL_PARTITION else unquote(text) for name, text in parts}
    found = []
    for row in pq.read_table(pa.BufferReader(content), partitioning=None).to_pylist():
        op, position = row.pop("Op", "I"), row.pop("_cdc_position", "")
        row |= values
        found.append(LakeRow(whole({name: row[name] for name in ALL_COLUMNS.names if name in row}), op, position))
    return found


def difference(found: Sequence[LakeRow], expected: Sequence[LakeRow], unknown: Collection[int] = ()) -> str:
    """How rows differ, for people; empty if they do not.

    Args:
        unknown: Keys of rows that may be there or not.
    """
    have, want = (sorted(_text(row) for row in rows if row.row["id"] not in unknown) for rows in (found, expected))
    if have == want:
        return ""
    more, less = [one for one in have if one not in want], [one for one in want if one not in have]
    twice = len(have) - len(set(have))
    return f"missing {less[:3]}, too many {more[:3]}, {len(have)} of {len(want)} rows, {twice} twice"


def _text(row: LakeRow) -> str:
    sent = row.position.rstrip(MARKS)
    return f"{row.row['id']} {row.op} {row.row['name']} {row.row['region']} {row.row['note']} {sent}"


class OfferedTable(NamedTuple):
    """What a reader of an Iceberg table finds.

    Attributes:
        change: Number in the version hint.
        keys: Keys of the data files of the current snapshot.
    """

    change: int
    keys: frozenset[str]


class IcebergReader:
    """Opens the Iceberg tables of a store. Parses again only what has changed: invariants look after every call."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._last: dict[str, tuple[dict[str, bytes | None], OfferedTable | None]] = {}

    def offered_table(self, layout: LakeLayout) -> OfferedTable | None:
        """What a reader finds; see `offered_table`."""
        contents, table = self._last.get(layout.iceberg_prefix, ({}, None))
        if not contents or any(self._store.get(key) != content for key, content in contents.items()):
            contents = {}
            table = offered_table(cast("ObjectStore", _Reads(self._store, contents)), layout)
            self._last[layout.iceberg_prefix] = contents, table
        return table


class _Reads:
    """What is read of a store, by key."""

    def __init__(self, store: ObjectStore, contents: dict[str, bytes | None]) -> None:
        self._store, self._contents, self.url = store, contents, store.url

    def get(self, key: str) -> bytes | None:
        self._contents[key] = content = self._store.get(key)
        return content


def offered_table(store: ObjectStore, layout: LakeLayout) -> OfferedTable | None:
    """Open the Iceberg table as an engine without a catalog does, from the version hint on; None if it finds none.

    Raises:
        IntegrityError: A manifest is missing.
    """
    hint = store.get(layout.version_hint_key)
    content = hint and store.get(layout.iceberg_metadata_key(int(hint)))
    if not hint or not content:
        return None
    current, files = TableMetadataUtil.parse_raw(content.decode()).current_snapshot(), StoreIO(store)
    manifests = current.manifests(files) if current else []
    entries = (entry for manifest in manifests for entry in manifest.fetch_manifest_entry(files))
    return OfferedTable(int(hint), frozenset(one.data_file.file_path.removeprefix(store.url("")) for one in entries))
