"""Checks what must hold after a fault: immediately for readers, and after the next run for everything."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from cdclake.control.run.item_sync import is_emptied, lake_attributes
from cdclake.model.change import ChangeKind
from cdclake.model.layout import HISTORY, ICEBERG
from cdclake.model.names import Attribute
from cdclake.model.versions import DELETED, OPERATION
from tests.crash.connectors import LAKE
from tests.crash.runner import LAYOUT
from tests.crash.sandbox import COLUMNS
from tests.lake.table import by_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table import TableState
    from cdclake.oracle import LakeRow
    from tests.crash.sandbox import View

TABLE, TABLE_HISTORY, TABLE_LIVE, TABLE_ICEBERG = (
    f"shop_orders{suffix}" for suffix in ("", "_history", "_live", "_iceberg")
)
"""Names in the catalog."""


def check_readers(before: View, now: View) -> None:
    """Right after the fault, readers see complete files, and no rows are missing.

    Before the commit, readers see exactly the old files. After it, new files appear before old ones are retired.
    Readers of an Iceberg table see the table before a change or after it. Whoever opened it before can read on, except
    after an erasure, and except for replaced files of the folder.
    """
    assert now.files.keys() == now.visible.keys()  # reads them all
    head, seen = now.log.head(), now.visible.keys()
    new = {file.path for file in now.log.snapshot(head).all_files}
    old: set[str]
    if head == before.log.head() and (not head or before.log.is_published(head)):
        old = set(before.visible)
        assert old & new <= seen <= old | new, "readers see files of an uncommitted change"
        check_iceberg_readers(before, now, old, new)
        return
    old = {file.path for file in now.log.snapshot(head - 1).all_files}
    assert old & new <= seen <= old | new, "readers see files that neither the last change nor the one before has"
    assert old <= seen or new <= seen, "readers miss rows: files were retired before their replacements appeared"
    check_iceberg_readers(before, now, old, new)


def check_iceberg_readers(before: View, now: View, old: set[str], new: set[str]) -> None:
    """The Iceberg table is that before or after a change. No file that it offers has vanished, and of those that it
    offered before only files of the folder.
    """
    lost = before.iceberg.keys - before.objects.keys() if before.iceberg else frozenset[str]()
    new_records = now.log.records(before.log.head() + 1, now.log.head())
    is_erased = any(record.kind is ChangeKind.ERASURE for record in new_records)
    if now.iceberg:
        assert now.iceberg.keys - now.objects.keys() <= lost, "readers miss files of the Iceberg table"
        assert now.iceberg.files.keys() in (_of_table(old), _of_table(new)), "readers see half of a change"
    if before.iceberg and not is_erased:
        kept = {key for key in before.iceberg.keys if key.startswith(LAYOUT.iceberg_prefix)}
        assert kept - now.objects.keys() <= lost, "readers miss files of the Iceberg table"
    assert _of_iceberg(now.visible) in (_of_iceberg(old), _of_iceberg(new)), "readers see half of a change"


def _of_table(paths: Iterable[str]) -> set[str]:
    return {path for path in paths if not path.startswith(HISTORY)}


def _of_iceberg(paths: Iterable[str]) -> set[str]:
    return {path for path in paths if path.startswith(ICEBERG)}


def check_iceberg(view: View, *, is_expected: bool) -> None:
    """Readers find an Iceberg table if it is expected, of the last change, and each offered snapshot has its files."""
    head = view.log.head()
    snapshot, table = view.log.snapshot(head), view.iceberg
    assert (table is not None) == (snapshot.iceberg is not None) == is_expected, "the table has the wrong readers"
    if table:
        assert (table.change, table.current) == (head, head), "readers do not find the last change"
        assert table.keys <= view.objects.keys(), "readers miss files of the Iceberg table"
        expected = {file.path: (file.rows, file.bytes) for file in snapshot.files}
        assert table.files == expected, "readers find other files than the snapshot's"
        for change, files in table.snapshots.items():
            assert files.keys() == {file.path for file in view.log.snapshot(change).files}, f"change {change} differs"


def check_table(view: View, expected: Sequence[LakeRow]) -> None:
    """The lake equals the oracle, its folder equals the snapshot, and the books of each change balance."""
    head = view.log.head()
    snapshot = view.log.snapshot(head)
    check_files(view, snapshot)
    assert by_key(view.rows(), ("id",)) == expected, "the lake differs from the oracle"
    check_newest_versions(view)
    assert view.log.is_published(head), "the last change is not marked as published"
    for record in view.log.records(1, head):
        record.books.check()
    assert snapshot.rows == view.log.record(head).books.rows_after == sum(row.op != "D" for row in expected)


def check_newest_versions(view: View) -> None:
    """The history has one newest version of each key. Those that are not deletes equal the rows of the table."""
    newest = view.newest_versions()
    assert len({row["id"] for row in newest}) == len(newest), "a key has two newest versions"
    current = [[row[name] for name in COLUMNS.names] for row in newest if row[OPERATION] != DELETED]
    rows = [[row.row[name] for name in COLUMNS.names] for row in view.rows() if row.op != "D"]
    assert sorted(current, key=itemgetter(0)) == sorted(rows, key=itemgetter(0)), "the history differs from the table"


def check_files(view: View, snapshot: Snapshot) -> None:
    """Readers see exactly the files of the snapshot, all complete."""
    assert sorted(view.visible) == sorted(file.path for file in snapshot.all_files), "other files than the snapshot's"
    contents = view.files
    for file in snapshot.all_files:
        rows = contents[file.path]
        deleted = rows["Op"].to_pylist().count("D") if "Op" in rows.column_names else 0
        actual = (rows.num_rows, len(view.visible[file.path]), deleted)
        assert actual == (file.rows, file.bytes, file.deleted), f"{file.path} differs from the snapshot"


def check_clean(view: View) -> None:
    """After a clean-up, every object of the lake belongs to a change."""
    log = view.log
    head = log.head()
    records = log.records(1, head)
    snapshots = {record.snapshot_key for record in records}
    remaining = [log.snapshot(record.change) for record in records if record.snapshot_key in view.objects]
    retired = {path for record in records for path in record.retired}
    # A file that `repair` restored may keep its retired copy: retiring the file again writes the same copy.
    retired.update(path for path, data in view.visible.items() if view.objects.get(LAYOUT.retired_key(path)) == data)
    known = {
        *(LAYOUT.change_key(change) for change in range(1, head + 1)),
        *(LAYOUT.published_key(change) for change in range(1, head + 1)),
        *(LAYOUT.erasure_key(change) for change in range(1, head + 1)),
        *snapshots,
        *(file.key for snapshot in remaining for file in snapshot.tombstones),
        *(key for record in records for key in record.quarantine),
        *(LAYOUT.retired_key(path) for path in retired),
        LAYOUT.newest_published_key,
        LAYOUT.first_retained_key,
        LAYOUT.cleaned_through_key,
        LAYOUT.files_checked_to_key,
    }
    elsewhere = (LAYOUT.table_prefix, LAYOUT.history_prefix, LAYOUT.iceberg_prefix, LAYOUT.foreign_key(""))
    control = {key for key in view.objects if not key.startswith(elsewhere)}
    present = {key for key in view.objects if key.startswith(LAYOUT.iceberg_prefix)}
    assert sorted(present) == sorted(_iceberg_keys(remaining)), "the Iceberg table has other files than changes need"
    assert not [key for key in control if key.startswith(LAYOUT.staging_folder)], "staging is not empty"
    assert sorted(control - known) == [], "the clean-up left unneeded objects"


def _iceberg_keys(retained: Sequence[Snapshot]) -> set[str]:
    """Keys in the folder of the Iceberg table that retained changes need, and that readers of the newest one need."""
    newest = retained[-1]
    keys = {LAYOUT.data_key(path) for one in retained for path in _of_iceberg(file.path for file in one.files)}
    keys.update(key for one in retained if one.iceberg for key in one.iceberg.keys)
    if newest.iceberg:
        keys |= {LAYOUT.iceberg_metadata_key(newest.change), LAYOUT.version_hint_key}
    return keys


def check_catalog(view: View, state: TableState, shown: Mapping[str, set[str] | str] | None) -> None:
    """The catalog has the partitions of the table and of its history, and a view without soft-deleted rows.

    Of an Iceberg table it has the newest metadata.
    """
    if shown is None:
        return
    paths = {path.removeprefix(HISTORY) for path in view.visible if path.startswith(HISTORY)}
    own = {path for path in view.visible if not path.startswith(HISTORY)}
    expected: dict[str, set[str] | str] = {
        table: {_folder(path) for path in files} for table, files in ((TABLE, own), (TABLE_HISTORY, paths))
    }
    if view.iceberg:
        name = TABLE if any(_of_iceberg(own)) else TABLE_ICEBERG
        expected[name] = f"s3://{LAKE}/{LAYOUT.iceberg_metadata_key(view.iceberg.change)}"
    if state.settings.soft_delete or view.log.snapshot(view.log.head()).deleted_rows:
        expected[TABLE_LIVE] = set()
    assert shown == expected, "the catalog differs from the lake"


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def check_item(view: View, state: TableState) -> None:
    """The item agrees with the lake, and the lease is free."""
    snapshot = view.log.snapshot(view.log.head())
    expected = lake_attributes(state, snapshot, emptied=is_emptied(view.log, snapshot), loaded=True)
    assert {name: state.item.get(name) for name in expected} == expected, "the item differs from the lake"
    assert Attribute.LEASE_HOLDER not in state.item, "the lease was not released"
