"""Checks what must hold after a fault: immediately for readers, and after the next run for everything."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from cdclake.control.run.item_sync import lake_attributes
from cdclake.model.change.record import ChangeKind
from cdclake.model.layout import HISTORY, is_in_history, is_in_iceberg
from cdclake.model.table.attributes import Attribute
from cdclake.model.versions import DELETED, OPERATION
from tests.cdclake.lake.table import by_key
from tests.crash.connectors import LAKE
from tests.crash.runner import LAYOUT
from tests.crash.sandbox import COLUMNS, View

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table.state import TableState
    from cdclake_devkit.oracle import LakeRow

TABLE, TABLE_HISTORY, TABLE_LIVE = (f"shop_orders{suffix}" for suffix in ("", "_history", "_live"))
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
    for own in _per_table(old, seen, new):
        assert own[0] <= own[1] or own[2] <= own[1], "readers miss rows: files were retired before others appeared"
    in_folders = [{path for path in paths if not is_in_iceberg(path)} for paths in (old, seen, new)]
    assert in_folders[0] <= in_folders[1] or in_folders[2] <= in_folders[1], "readers see half of a change"
    check_iceberg_readers(before, now, old, new)


def _per_table(*sets: Collection[str]) -> list[list[set[str]]]:
    """The paths of each set that are of the table, then those that are of the history."""
    return [[{path for path in paths if is_in_history(path) == history} for paths in sets] for history in (False, True)]


def check_iceberg_readers(before: View, now: View, old: set[str], new: set[str]) -> None:
    """Each Iceberg table is that before or after a change. No file that it offers has vanished, and of those that it
    offered before only files of the folder.
    """
    new_records = now.log.records(before.log.head() + 1, now.log.head())
    is_erased = any(record.kind is ChangeKind.ERASURE for record in new_records)
    tables = ((before.iceberg, now.iceberg), (before.iceberg_history, now.iceberg_history))
    for (was, is_now), (old_own, new_own, seen) in zip(tables, _per_table(old, new, now.visible), strict=True):
        lost = was.keys - before.objects.keys() if was else frozenset[str]()
        if is_now:
            assert is_now.keys - now.objects.keys() <= lost, "readers miss files of the Iceberg table"
            assert is_now.files.keys() in (old_own, new_own), "readers see half of a change"
        if was and not is_erased:
            kept = {key for key in was.keys if is_in_iceberg(LAYOUT.data_path_of(key))}
            assert kept - now.objects.keys() <= lost, "readers miss files of the Iceberg table"
        assert _of_iceberg(seen) in (_of_iceberg(old_own), _of_iceberg(new_own)), "readers see half of a change"


def _of_iceberg(paths: Iterable[str]) -> set[str]:
    return set(filter(is_in_iceberg, paths))


def check_iceberg(view: View, *, is_expected: bool) -> None:
    """Readers find Iceberg tables if they are expected, of the last change, and each offered snapshot has its files."""
    head = view.log.head()
    for table, layout in ((view.iceberg, LAYOUT), (view.iceberg_history, LAYOUT.history)):
        is_history = layout is not LAYOUT

        def of_table(change: int, is_history: bool = is_history) -> dict[str, tuple[int, int]]:
            files = view.log.snapshot(change).all_files
            return {file.path: (file.rows, file.bytes) for file in files if is_in_history(file.path) == is_history}

        newest = view.log.snapshot(head)
        owner = newest.history if is_history else newest
        has_manifests = owner is not None and owner.iceberg is not None
        assert (table is not None) == has_manifests == is_expected, "the table has the wrong readers"
        if table:
            assert (table.change, table.current) == (head, head), "readers do not find the last change"
            assert table.keys <= view.objects.keys(), "readers miss files of the Iceberg table"
            assert table.files == of_table(head), "readers find other files than the snapshot's"
            for change, files in table.snapshots.items():
                assert files.keys() == of_table(change).keys(), f"change {change} differs"


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
        LAYOUT.retained_key,
        LAYOUT.cleaned_key,
        LAYOUT.files_checked_to_key,
        LAYOUT.erasure_secret_key,
    }
    folders = (LAYOUT.table_prefix, LAYOUT.history.table_prefix)
    iceberg = (LAYOUT.iceberg_prefix, LAYOUT.history.iceberg_prefix)
    control = {key for key in view.objects if not key.startswith((*folders, *iceberg, LAYOUT.foreign_key("")))}
    hints = {LAYOUT.version_hint_key, LAYOUT.history.version_hint_key}
    present = {key for key in view.objects if key.startswith(iceberg) and key not in hints}
    assert sorted(present) == sorted(_iceberg_keys(remaining)), "an Iceberg table has other files than changes need"
    assert not [key for key in control if key.startswith(LAYOUT.staging_folder)], "staging is not empty"
    assert sorted(control - known) == [], f"the clean-up left unneeded objects: {sorted(control - known)}"


def _iceberg_keys(retained: Sequence[Snapshot]) -> set[str]:
    """Keys in the folders of Iceberg tables that retained changes need, and that readers of the newest one need."""
    newest = retained[-1]
    keys = {LAYOUT.data_key(path) for one in retained for path in _of_iceberg(file.path for file in one.all_files)}
    keys.update(key for one in retained for key in one.manifest_keys)
    for owner, layout in ((newest, LAYOUT), (newest.history, LAYOUT.history)):
        if owner and owner.iceberg:
            keys.add(layout.iceberg_metadata_key(newest.change))
    return keys


def check_catalog(view: View, state: TableState, shown: Mapping[str, set[str] | str] | None) -> None:
    """The catalog has the partitions of the table and of its history, and a view without soft-deleted rows.

    Of an Iceberg table it has the newest metadata.
    """
    if shown is None:
        return
    own, versions = _per_table(view.visible)
    expected: dict[str, set[str] | str] = {}
    for name, (paths,), iceberg, layout in (
        (TABLE, own, view.iceberg, LAYOUT),
        (TABLE_HISTORY, versions, view.iceberg_history, LAYOUT.history),
    ):
        expected[name] = {_folder(path.removeprefix(HISTORY)) for path in paths}
        if iceberg:
            shows_both = not any(_of_iceberg(paths))
            expected[name + "_iceberg" * shows_both] = f"s3://{LAKE}/{layout.iceberg_metadata_key(iceberg.change)}"
    if state.settings.soft_delete or view.log.snapshot(view.log.head()).deleted_rows:
        expected[TABLE_LIVE] = set()
    assert shown == expected, "the catalog differs from the lake"


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def check_item(view: View, state: TableState) -> None:
    """The item agrees with the lake, and the lease is free."""
    snapshot = view.log.snapshot(view.log.head())
    expected = lake_attributes(state.with_attributes(**{Attribute.LAST_CHANGE_ID: "0"}), view.log, snapshot)
    assert {name: state.item.get(name) for name in expected} == expected, "the item differs from the lake"
    assert Attribute.LEASE_HOLDER not in state.item, "the lease was not released"
