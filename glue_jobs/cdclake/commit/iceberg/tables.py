"""Publishes the metadata of a table as an Iceberg table, which readers open first."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from cdclake import logs
from cdclake.commit.iceberg.metadata import Json, is_cleaned, table_metadata, without_expired
from cdclake.commit.log import has_namesake
from cdclake.model.snapshot import Snapshot
from cdclake.model.versions import history_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from cdclake.commit.log import ChangeLog
    from cdclake.model.change.record import ChangeRecord
    from cdclake.model.layout import LakeLayout
    from cdclake.model.raw.files import ListedObject
    from cdclake.model.retained import Retained
    from cdclake.ports import ObjectStore


def prepare_iceberg(
    log: ChangeLog,
    record: ChangeRecord,
    snapshot: Snapshot | None = None,
) -> list[Callable[[], None]]:
    """Write the metadata in which a committed change is the current snapshot of the Iceberg tables. Repeatable.

    That happens before files are moved, because readers of a folder see rows twice from the first new file to the last
    old one.

    Args:
        snapshot: The table after the change, if the caller has it; otherwise it is read if it is needed.

    Returns:
        What lets the version hints of the table and of its history name the metadata, or withdraws an Iceberg table
        that is none any more: to be called once the files of the change are in their places.
    """
    if record.iceberg or record.history_iceberg:
        lake = snapshot or log.snapshot(record.change)
    else:
        lake = Snapshot(record.change)
    history, layout = history_table(lake, log.layout)
    return [
        *_prepare(log, log.layout, record, lake),
        *_prepare(log, layout, record.of_history(), history),
    ]


def _prepare(log: ChangeLog, layout: LakeLayout, record: ChangeRecord, table: Snapshot) -> list[Callable[[], None]]:
    """Prepare to publish or withdraw one Iceberg table.

    The hint of a table that is withdrawn names a change without metadata, so no reader opens it. It stays, so that a
    run that was paused before it named an earlier change finds a later one.
    """
    store = log.store
    if record.iceberg:
        files = table.iceberg
        location = store.url(layout.iceberg_prefix).rstrip("/")
        previous = None if record.switched else _read_metadata(store, layout, record.change - 1)
        if previous and previous["location"] != location:  # the lake was moved, and its snapshots name the old place
            previous = None
        if previous is None and not record.switched:
            logs.bind(__name__, table=str(layout.name), change=record.change).warning(
                "the metadata of the Iceberg table is missing, or of another place, so its readers cannot go back to"
                " earlier changes"
            )
        metadata = table_metadata(table, record, location, store.url(files.manifest_list if files else ""), previous)
        _write_first(store, layout, record.change, metadata)
    elif not record.switched:
        return []
    return [partial(_name_newest, log, layout, record.change)]


def _name_newest(log: ChangeLog, layout: LakeLayout, change: int) -> None:
    """Let the version hint name a change, unless it names a later one: a run may be paused here past its lease.

    If there is no later one, a table that had this place before left the hint.
    """
    store = log.store
    key, new, old = layout.version_hint_key, str(change).encode(), str(change - 1).encode()
    while not store.put_if_unchanged(key, new, old):
        current = store.get(key)
        if current is None:
            if store.put_if_absent(key, new):
                return
        elif current == new or (current.isdigit() and int(current) > change and log.is_committed(change + 1)):
            return
        else:
            old = current


def list_iceberg(log: ChangeLog) -> list[tuple[LakeLayout, list[ListedObject]]]:
    """The objects in the folders of the Iceberg tables of a table and of its history, with the layout of each."""
    folders = [(layout, list(log.store.list(layout.iceberg_prefix))) for layout in (log.layout, log.layout.history)]
    if folders[1][1] and has_namesake(log):
        return folders[:1]
    return folders


def expire_snapshots(log: ChangeLog, head: int, retained: Retained) -> set[int]:
    """Take the snapshots of changes that are not retained out of the metadata, before their data files are deleted.

    Returns:
        Numbers of the changes whose snapshots were in it.
    """
    lake, expired = log.snapshot(head), set[int]()
    for table, layout in ((lake, log.layout), history_table(lake, log.layout)):
        metadata = _read_metadata(log.store, layout, head) if table.iceberg else None
        if metadata:
            remaining = without_expired(metadata, retained)
            if remaining != metadata:
                _write(log.store, layout, head, remaining)
                expired |= _snapshot_ids(metadata) - _snapshot_ids(remaining)
    return expired


def _snapshot_ids(metadata: Json) -> set[int]:
    return {one["snapshot-id"] for one in metadata["snapshots"]}


def _read_metadata(store: ObjectStore, layout: LakeLayout, change: int) -> Json | None:
    """The metadata after a change; None if there is none."""
    data = store.get(layout.iceberg_metadata_key(change))
    return json.loads(data) if data else None


def _write_first(store: ObjectStore, layout: LakeLayout, change: int, metadata: Json) -> None:
    """Write the metadata after a change, unless another run has written it.

    A run may be paused here past its lease. What a clean-up has taken out of the metadata since must not come back.
    """
    if not store.put_if_absent(layout.iceberg_metadata_key(change), _to_bytes(metadata)):
        written = _read_metadata(store, layout, change)
        if written and not is_cleaned(written, json.loads(_to_bytes(metadata))):  # of another log, or another place
            _write(store, layout, change, metadata)


def _write(store: ObjectStore, layout: LakeLayout, change: int, metadata: Json) -> None:
    store.put(layout.iceberg_metadata_key(change), _to_bytes(metadata))


def _to_bytes(metadata: Json) -> bytes:
    return json.dumps(metadata, separators=(",", ":")).encode()
