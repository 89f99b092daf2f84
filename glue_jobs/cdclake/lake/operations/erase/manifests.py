"""Finds rows to erase in the manifests of Iceberg tables, which hold the smallest and largest values of files.

Manifests of retained files follow from these. Only a manifest of the files that a change removed may list others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cdclake.commit.erasure import Replacement, retained_snapshots
from cdclake.commit.iceberg.tables import list_iceberg
from cdclake.model.layout import HISTORY, is_in_history, is_in_iceberg
from cdclake.model.versions import history_table

if TYPE_CHECKING:
    from cdclake.commit.log import ChangeLog
    from cdclake.lake.operations.erase.data_files import Matches
    from cdclake.lake.read.as_of import TableLocation
    from cdclake.lake.read.key_filter import RowKeys
    from cdclake.model.iceberg.table import IcebergFiles, Manifest
    from cdclake.model.layout import LakeLayout
    from cdclake.model.snapshot import Snapshot


def search(log: ChangeLog, head: int, keys: RowKeys) -> list[str]:
    """Keys of manifests that may tell about rows to erase in files that no retained change has.

    Such are files that a change removed from a state that is not retained.
    """
    if not _has_iceberg(log):
        return []
    retained = log.retained()
    found: dict[str, tuple[Snapshot, Manifest]] = {}
    for _, lake in retained_snapshots(log, head):
        for table, layout in _tables(lake, log.layout):
            for manifest in table.iceberg.manifests if table.iceberg else ():
                if not manifest.files and (layout.iceberg_change(manifest.key) or 0) - 1 not in retained:
                    found[manifest.key] = table, manifest
    if not found:
        return []
    from cdclake.lake.storage.iceberg_manifests import removed_files_may_match  # here: it takes most of a second

    return [
        key
        for key, (table, manifest) in found.items()
        if removed_files_may_match(log.store, table, manifest, keys.by_column(table.schema))
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
    from cdclake.lake.storage.iceberg_manifests import ManifestErasure, ManifestWriting

    layout = log.layout
    sources = {
        file.path: layout.data_key(file.path) if is_in_iceberg(file.path) else layout.retired_key(file.path)
        for file in replacement.files.values()
        if file
    } | dict(replacement.staged)
    shapes = {match.path: match.shape for match in matches.files}
    manifests: dict[str, IcebergFiles] = {}
    for number, prefix in enumerate(("", HISTORY)):
        start = len(prefix)

        def is_own(path: str, prefix: str = prefix) -> bool:
            return is_in_history(path) == bool(prefix)

        writing = ManifestWriting(
            log.store,
            location.fs.open(),
            layout.history if prefix else layout,
            run_id,
            {path[start:]: key for path, key in sources.items() if is_own(path)},
            in_folder=False,
        )
        erasure = ManifestErasure(
            writing,
            before.change + 1,
            {
                path[start:]: file and replace(file, path=file.path[start:])
                for path, file in replacement.files.items()
                if is_own(path)
            },
            {path[start:]: shape for path, shape in shapes.items() if is_own(path)},
        )
        snapshots = (_tables(lake, layout)[number][0] for _, lake in retained_snapshots(log, before.change))
        manifests |= erasure.rewrite(snapshots)
    return replace(replacement, iceberg=manifests)


def _tables(lake: Snapshot, layout: LakeLayout) -> tuple[tuple[Snapshot, LakeLayout], tuple[Snapshot, LakeLayout]]:
    """A table, and its history as a table."""
    return (lake, layout), history_table(lake, layout)


def _has_iceberg(log: ChangeLog) -> bool:
    return any(entries for _, entries in list_iceberg(log))
