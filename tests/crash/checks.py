"""What must hold after a fault: at once for readers, and once the next run is through for everything."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from cdclake.control.run.item_sync import is_emptied, lake_attributes
from cdclake.model.names import Attribute
from cdclake.model.versions import DELETED, OPERATION
from tests.crash.actor import LAYOUT
from tests.crash.stage import COLUMNS
from tests.lake.table import by_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table import TableState
    from cdclake.oracle import LakeRow
    from tests.crash.stage import View


def check_for_readers(before: View, now: View) -> None:
    """A reader who comes right after the fault sees whole files, and misses none that it could see all along.

    Before the commit they are exactly the files that were there. After it, files come before others go.
    """
    assert now.files.keys() == now.visible.keys()  # all of them can be read
    head, seen = now.log.head(), now.visible.keys()
    new = {file.path for file in now.log.snapshot(head).all_files}
    old: set[str]
    if head == before.log.head() and (not head or before.log.is_published(head)):
        old = set(before.visible)
        assert old & new <= seen <= old | new, "readers see something of a change that is not committed"
        return
    old = {file.path for file in now.log.snapshot(head - 1).all_files}
    assert old & new <= seen <= old | new, "readers see other files than the last change's and those it replaces"
    assert old <= seen or new <= seen, "readers miss rows: files were retired before those that replace them came"


def check_table(view: View, expected: Sequence[LakeRow]) -> None:
    """The lake equals the oracle, its folder the snapshot, and the books of each change balance."""
    head = view.log.head()
    snapshot = view.log.snapshot(head)
    check_files(view, snapshot)
    assert by_key(view.rows(), ("id",)) == expected, "the lake is not what the oracle says"
    check_newest_versions(view)
    assert view.log.is_published(head), "the last change is not noted as visible"
    for record in view.log.records(1, head):
        record.books.check()
    assert snapshot.rows == view.log.record(head).books.rows_after == sum(found.op != "D" for found in expected)


def check_newest_versions(view: View) -> None:
    """The history has one newest version of each key, and those that are no deletes are the rows of the table."""
    newest = view.newest_versions()
    assert len({row["id"] for row in newest}) == len(newest), "a key has two newest versions"
    told = [[row[name] for name in COLUMNS.names] for row in newest if row[OPERATION] != DELETED]
    rows = [[found.row[name] for name in COLUMNS.names] for found in view.rows() if found.op != "D"]
    assert sorted(told, key=itemgetter(0)) == sorted(rows, key=itemgetter(0)), "the history is not the table's"


def check_files(view: View, snapshot: Snapshot) -> None:
    """Readers see the files of the snapshot and no other, each whole."""
    assert sorted(view.visible) == sorted(file.path for file in snapshot.all_files), "other files than the snapshot's"
    contents = view.files
    for file in snapshot.all_files:
        rows = contents[file.path]
        deleted = rows["Op"].to_pylist().count("D") if "Op" in rows.column_names else 0
        held = (rows.num_rows, len(view.visible[file.path]), deleted)
        assert held == (file.rows, file.bytes, file.deleted), f"{file.path} is not as the snapshot says"


def check_clean(view: View) -> None:
    """After a clean-up there is nothing in the lake that no change knows of."""
    log = view.log
    head = log.head()
    records = log.records(1, head)
    snapshots = {record.snapshot_key for record in records}
    kept = [log.snapshot(record.change) for record in records if record.snapshot_key in view.objects]
    retired = {path for record in records for path in record.retired}
    # A file that `repair` brought back may keep its copy: whoever retires the file writes it again, just the same.
    retired.update(path for path, data in view.visible.items() if view.objects.get(LAYOUT.retired_key(path)) == data)
    known = {
        *(LAYOUT.change_key(change) for change in range(1, head + 1)),
        *(LAYOUT.published_key(change) for change in range(1, head + 1)),
        *(LAYOUT.erasure_key(change) for change in range(1, head + 1)),
        *snapshots,
        *(file.key for snapshot in kept for file in snapshot.tombstones),
        *(key for record in records for key in record.quarantine),
        *(LAYOUT.retired_key(path) for path in retired),
        LAYOUT.first_retained_key,
        LAYOUT.cleaned_through_key,
    }
    elsewhere = (LAYOUT.table_prefix, LAYOUT.history_prefix, LAYOUT.foreign_key(""))
    control = {key for key in view.objects if not key.startswith(elsewhere)}
    assert not [key for key in control if key.startswith(LAYOUT.staging_folder)], "staging is not empty"
    assert sorted(control - known) == [], "a clean-up left something that nobody needs"


def check_item(view: View, state: TableState) -> None:
    """The item says of the lake what the lake says, and the lease is free."""
    snapshot = view.log.snapshot(view.log.head())
    told = lake_attributes(state, snapshot, emptied=is_emptied(view.log, snapshot))
    assert {name: state.item.get(name) for name in told} == told, "the item is not in line with the lake"
    assert Attribute.LEASE_HOLDER not in state.item, "nobody gave the lease back"
