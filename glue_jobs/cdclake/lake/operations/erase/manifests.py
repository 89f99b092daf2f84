"""Finds rows to erase in the manifests of an Iceberg table, which hold the smallest and largest values of files.

Manifests of retained files follow from these. Only a manifest of the files that a change removed may list others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cdclake.commit.erasure import Replacement, retained_snapshots
from cdclake.model.layout import ICEBERG

if TYPE_CHECKING:
    from cdclake.commit.log import ChangeLog
    from cdclake.lake.operations.erase.data_files import Matches
    from cdclake.lake.read.as_of import TableLocation
    from cdclake.lake.read.key_filter import RowKeys
    from cdclake.model.iceberg.table import Manifest
    from cdclake.model.snapshot import Snapshot


def search(log: ChangeLog, head: int, keys: RowKeys) -> list[str]:
    """Keys of manifests that may tell about rows to erase in files that no retained change has.

    Such are the files that the oldest retained change removed, and earlier ones that a rollback brought back.
    """
    if not _has_iceberg(log):
        return []
    first = log.first_retained()
    found: dict[str, tuple[Snapshot, Manifest]] = {}
    for _, snapshot in retained_snapshots(log, head):
        for manifest in snapshot.iceberg.manifests if snapshot.iceberg else ():
            if not manifest.files and (log.layout.iceberg_change(manifest.key) or 0) <= first:
                found[manifest.key] = snapshot, manifest
    if not found:
        return []
    from cdclake.lake.storage.manifests import removed_files_may_match  # here: it takes most of a second

    return [
        key
        for key, (snapshot, manifest) in found.items()
        if removed_files_may_match(log.store, snapshot, manifest, keys.by_column(snapshot.schema))
    ]


def rewrite(
    location: TableLocation, log: ChangeLog, before: Snapshot, matches: Matches, replacement: Replacement, run_id: str
) -> Replacement:
    """The replacement, with new manifests for those that tell about the old files or about removed ones.

    Args:
        before: The table after its newest change.
        matches: The old files.
        replacement: The new files.
    """
    if not _has_iceberg(log):
        return replacement
    from cdclake.lake.storage.manifests import ManifestErasure, ManifestWriting

    layout = log.layout
    sources = {
        file.path: layout.data_key(file.path) if file.path.startswith(ICEBERG) else layout.retired_key(file.path)
        for file in replacement.files.values()
        if file
    }
    writing = ManifestWriting(
        log.store, location.fs.open(), layout, run_id, {**sources, **replacement.staged}, in_folder=False
    )
    shapes = {match.path: match.shape for match in matches.files}
    erasure = ManifestErasure(writing, before.change + 1, replacement.files, shapes)
    snapshots = (snapshot for _, snapshot in retained_snapshots(log, before.change))
    return replace(replacement, iceberg=erasure.rewrite(snapshots))


def _has_iceberg(log: ChangeLog) -> bool:
    return next(log.store.list(log.layout.iceberg_prefix), None) is not None
