"""Publishes the metadata of a table as an Iceberg table, which readers open first."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from cdclake import logs
from cdclake.commit.iceberg_metadata import Json, table_metadata, without_expired

if TYPE_CHECKING:
    from cdclake.commit.log import ChangeLog
    from cdclake.model.change import ChangeRecord


def publish_iceberg(log: ChangeLog, record: ChangeRecord) -> None:
    """Make a committed change the current snapshot of the Iceberg table, or withdraw the table. Repeatable.

    The files of the change, and the metadata, are complete before the version hint names them.
    """
    store, layout = log.store, log.layout
    if record.iceberg:
        snapshot = log.snapshot(record.change)
        files = snapshot.iceberg
        location = store.url(layout.iceberg_prefix).rstrip("/")
        previous = None if record.switched else read_metadata(log, record.change - 1)
        if previous is None and not record.switched:
            logs.bind(__name__, table=str(layout.name), change=record.change).warning(
                "the metadata of the Iceberg table is missing, so its readers cannot go back to earlier changes"
            )
        metadata = table_metadata(snapshot, record, location, store.url(files.manifest_list if files else ""), previous)
        _write(log, record.change, metadata)
        _name_newest(log, record.change)
    elif record.switched:
        store.delete([layout.version_hint_key])


def _name_newest(log: ChangeLog, change: int) -> None:
    """Let the version hint name a change, unless it names a later one: a run may be paused here past its lease."""
    key, new, old = log.layout.version_hint_key, str(change).encode(), str(change - 1).encode()
    while not log.store.put_if_unchanged(key, new, old):
        current = log.store.get(key)
        if current is None:
            if log.store.put_if_absent(key, new):
                return
        elif current.isdigit() and int(current) >= change:
            return
        else:
            old = current


def expire_snapshots(log: ChangeLog, head: int, first_retained: int) -> None:
    """Take the snapshots of changes before one out of the metadata, before their data files are deleted."""
    metadata = read_metadata(log, head)
    if metadata:
        remaining = without_expired(metadata, first_retained)
        if remaining != metadata:
            _write(log, head, remaining)


def read_metadata(log: ChangeLog, change: int) -> Json | None:
    """The metadata after a change; None if there is none."""
    data = log.store.get(log.layout.iceberg_metadata_key(change))
    return json.loads(data) if data else None


def _write(log: ChangeLog, change: int, metadata: Json) -> None:
    log.store.put(log.layout.iceberg_metadata_key(change), json.dumps(metadata, separators=(",", ":")).encode())
