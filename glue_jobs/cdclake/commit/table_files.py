"""Compares the files in a table's folder with its snapshot, so that no foreign or lost file goes unnoticed."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING

from cdclake.commit.log import has_namesake, require_place_of_table
from cdclake.commit.publish import Fence, KeepAlive, no_lease
from cdclake.concurrency import in_parallel
from cdclake.errors import LakeFilesError
from cdclake.model.change.record import ChangeKind
from cdclake.model.layout import is_in_history, is_in_iceberg
from cdclake.model.retained import Retained

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from cdclake.commit.log import ChangeLog
    from cdclake.model.change.record import ChangeRecord
    from cdclake.model.layout import LakeLayout
    from cdclake.model.raw.files import ListedObject
    from cdclake.model.snapshot import DataFile, Snapshot

MAX_NAMES = 3
RECORDS_PER_READ = 256
_HADOOP_FOLDER_MARK = "_$folder$"
_AFTER_ALL_KEYS = chr(sys.maxunicode)


@dataclass(frozen=True)
class Differences:
    """How the folders of a table and its history differ from the snapshot.

    Paths are as in `cdclake.model.layout.LakeLayout.data_key`.

    Attributes:
        foreign: Files of other programs.
        vanished: Live data files that are missing.
        overwritten: Live data files whose size differs from the snapshot.
        stale: Data files of earlier changes, which a run restored after another run had taken over and retired them.
        hidden: Live data files that a run retired after another run had taken over and restored them.
    """

    foreign: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()
    overwritten: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(vars(self).values())

    def to_json(self) -> dict[str, list[str]]:
        """The paths as JSON."""
        return {
            "foreign": list(self.foreign),
            "vanished": list(self.vanished),
            "replaced": list(self.overwritten),
            "stale": list(self.stale),
            "hidden": list(self.hidden),
        }


def visible_files(log: ChangeLog) -> list[ListedObject]:
    """The files that readers of the table's folder see, by key.

    Spark, Athena and Hive ignore names that begin with `_` or `.`, except folders of a partition column with such a
    name, and the empty objects that stand for folders. So does this function.
    """
    return _visible(log.store.list(log.layout.table_prefix), log.layout.table_prefix)


def visible_history(log: ChangeLog) -> list[ListedObject]:
    """The files that readers of the history's folder see, by key."""
    prefix = log.layout.history.table_prefix
    return _visible(log.store.list(prefix), prefix)


def _visible(entries: Iterable[ListedObject], prefix: str) -> list[ListedObject]:
    below = (entry for entry in entries if entry.key.startswith(prefix))
    return [entry for entry in below if not _is_hidden(entry.key[len(prefix) :])]


def begin_listing(log: ChangeLog) -> Iterator[ListedObject]:
    """The objects below the table's folder, of which the first page is listed at once and the others when needed."""
    entries = log.store.list(log.layout.table_prefix)
    return chain(list(islice(entries, 1)), entries)


def compare(log: ChangeLog, files: Iterable[DataFile], listing: Iterable[ListedObject] | None = None) -> Differences:
    """Compare the files in the folders of a table, its history and their Iceberg tables with those that should be live.

    The history's folder is compared only if `files` contains files of the history. Without a history, the folder may
    belong to another table. The same goes for the Iceberg tables' folders, which may contain replaced files.

    Args:
        listing: See `begin_listing`; None lists the folder now.

    Raises:
        ConfigurationError: The table's folder contains the history of another table.
    """
    require_place_of_table(log)
    known = {file.path: file.bytes for file in files}
    listed = log.store.list(log.layout.table_prefix) if listing is None else listing
    entries = _visible(listed, log.layout.table_prefix)
    keys = [log.layout.data_key(path) for path in known]
    for prefix in _other_folders(log.layout):
        if any(key.startswith(prefix) for key in keys):
            entries += _visible(log.store.list(prefix), prefix)
    return _differences(log, known, entries)


def compare_with_history(log: ChangeLog, snapshot: Snapshot) -> Differences:
    """`compare`, and of a table without a history also what is left of an earlier one in its folder.

    Raises:
        As `compare`.
    """
    differences = compare(log, snapshot.all_files)
    if snapshot.history or has_namesake(log):
        return differences
    return replace(differences, stale=(*differences.stale, *sorted(_stale_history(log))))


def clear_history_folder(log: ChangeLog, change: int) -> bool:
    """Retire data files of an earlier history of the table that a run restored too late. The caller holds the lease.

    Args:
        change: Number of the newest change, after which the table has no history.

    Returns:
        Whether the folder contains other files.
    """
    stale = _stale_history(log)
    _put_right(log, Differences(stale=tuple(sorted(stale))), Fence(log, change))
    return bool(visible_history(log))


def _stale_history(log: ChangeLog) -> set[str]:
    """Paths of the table's own files among those in the folder of a history that it does not have."""
    return set(_retired_by(log, {log.layout.data_path_of(entry.key) for entry in visible_history(log)}))


def _other_folders(layout: LakeLayout) -> tuple[str, ...]:
    """Folders that may contain data files of the table or its history, besides the table's folder."""
    return layout.history.table_prefix, layout.iceberg_prefix, layout.history.iceberg_prefix


def _differences(log: ChangeLog, known: Mapping[str, int], entries: Iterable[ListedObject]) -> Differences:
    listed = {log.layout.data_path_of(entry.key): entry.size_bytes for entry in entries}
    # Of an Iceberg table, replaced files stay for a while.
    foreign = [path for path in listed.keys() - known.keys() if not is_in_iceberg(path)]
    if any(map(is_in_history, foreign)) and has_namesake(log):  # they are its files
        foreign = [path for path in foreign if not is_in_history(path)]
    missing, layout = known.keys() - listed.keys(), log.layout
    retired = _retired_by(log, {*foreign, *missing}).keys()
    stale = retired - missing
    lost = log.store.not_retained(layout.file_keys(retired & missing))
    hidden = retired & missing - {layout.data_path_of(one.key) for one in lost}
    return Differences(
        foreign=tuple(sorted(set(foreign) - stale)),
        vanished=tuple(sorted(missing - hidden)),
        overwritten=tuple(sorted(path for path in known.keys() & listed.keys() if known[path] != listed[path])),
        stale=tuple(sorted(stale)),
        hidden=tuple(sorted(hidden)),
    )


def _retired_by(log: ChangeLog, paths: Collection[str]) -> dict[str, ChangeRecord]:
    """The last change that retired each path, of those that a change did. Names of data files are used once.

    Reads many records at a time: a file of another program is found in none.
    """
    found: dict[str, ChangeRecord] = {}
    left = set(paths)
    for last in range(log.head() if left else 0, 0, -RECORDS_PER_READ):
        for record in reversed(log.records(max(1, last - RECORDS_PER_READ + 1), last)):
            here = left.intersection(record.retired)
            found.update(dict.fromkeys(here, record))
            left -= here
        if not left:
            break
    return found


def _put_right(log: ChangeLog, differences: Differences, fence: Fence, keep_alive: KeepAlive = no_lease) -> None:
    """Restore hidden files, and retire stale ones; those that no retained change needs are deleted."""
    if not (differences.hidden or differences.stale):
        return
    store, layout = log.store, log.layout
    retained = log.retained() if differences.stale else Retained()
    needed = {file.path for change in retained.kept for file in log.snapshot(change).all_files}

    def retire(path: str, record: ChangeRecord) -> None:
        fence.check_if_due()
        store.retire(layout.data_key(path), layout.retired_key(path))
        if record.kind is ChangeKind.ERASURE or not (record.change - 1 > retained.through or path in needed):
            store.discard(layout.data_key(path), layout.retired_key(path))

    fence.check()
    _restore(log, differences.hidden, fence, keep_alive)
    in_parallel(lambda one: retire(*one), _retired_by(log, differences.stale).items(), store.calls_at_once, keep_alive)


def _restore(log: ChangeLog, paths: Collection[str], fence: Fence, keep_alive: KeepAlive) -> None:
    moves = log.store.begin_restoring(log.layout.file_keys(paths))
    if moves:
        fence.check()
    fence.around_all(moves, keep_alive)


def check_files(
    log: ChangeLog, snapshot: Snapshot, listing: Iterable[ListedObject] | None = None, *, reloads: bool = False
) -> None:
    """Refuse to continue from a table whose files differ from the files of its last change.

    Stale files are retired again, and hidden ones restored: the caller holds the lease.

    Args:
        log: The table's change log, rolled forward.
        snapshot: The table after its newest change.
        listing: As for `compare`.
        reloads: All files of the table are about to be replaced, so only the files of its history matter.

    Raises:
        LakeFilesError: Files are foreign, vanished or overwritten.
    """
    _refuse(log, snapshot, compare(log, snapshot.all_files, listing), reloads=reloads)


def check_next_files(
    log: ChangeLog, snapshot: Snapshot, max_files: int, listing: Iterable[ListedObject] | None = None
) -> None:
    """`check_files`, but of a table with more than `max_files` files only the next ones in the order of keys.

    A call continues where the last one without differences ended, and after the last key starts again at the first. So
    consecutive runs compare everything that readers see.

    Args:
        listing: As for `compare`; not used for such a table.
    """
    if len(snapshot.all_files) <= max_files:
        check_files(log, snapshot, listing)
        return
    require_place_of_table(log)
    layout, begin = log.layout, log.files_checked_to()
    sizes = {layout.data_key(file.path): file.bytes for file in snapshot.all_files}
    used = (one for one in _other_folders(layout) if any(key.startswith(one) for key in sizes))
    own = [layout.table_prefix, *used]
    listed = (entry for folder in sorted(own) for entry in log.store.list(folder, begin))
    entries = list(islice(listed, max_files))
    end = entries[-1].key if len(entries) == max_files else ""
    last = end or _AFTER_ALL_KEYS
    known = {layout.data_path_of(key): size_bytes for key, size_bytes in sizes.items() if begin < key <= last}
    visible = [entry for folder in own for entry in _visible(entries, folder)]
    _refuse(log, snapshot, _differences(log, known, visible))
    log.mark_files_checked_to(end)


def _refuse(log: ChangeLog, snapshot: Snapshot, differences: Differences, *, reloads: bool = False) -> None:
    name = log.layout.name
    _put_right(log, differences, Fence(log, snapshot.change))
    if differences.foreign and not snapshot.exists:
        message = f"The lake folder of {name} contains files that cdclake did not write: {_names(differences.foreign)}"
        remedy = f"Turn them into the table with cdclake adopt {name.typed}, or empty the folder"
        raise LakeFilesError(message, remedy=remedy, folder=log.layout.table_prefix)
    if differences.foreign:
        message = f"Files appeared in the lake folder of {name}: {_names(differences.foreign)}"
        remedy = f"Nothing was changed. Move the files out of readers' sight with cdclake repair {name.typed}"
        raise LakeFilesError(message, remedy=remedy, folder=log.layout.table_prefix)
    if reloads:
        differences = Differences((), *map(_of_history, (differences.vanished, differences.overwritten)))
    if differences.vanished:
        message = f"Data files of {name} vanished from its lake folder: {_names(differences.vanished)}"
        remedy = f"Restore them with cdclake repair {name.typed}; if they are no longer retained, reload the table"
        raise LakeFilesError(message, remedy=remedy, folder=log.layout.table_prefix)
    if differences.overwritten:
        raise _overwritten(log.layout, differences)


def repair(log: ChangeLog, change: int, differences: Differences, keep_alive: KeepAlive = no_lease) -> None:
    """Restore vanished and hidden data files, retire stale ones, and move foreign files out of readers' sight.

    Foreign files go to the control area, where they stay.

    Args:
        change: Number of the change whose files were compared.

    Raises:
        CommitConflictError: Another run has taken over the table since.
        IntegrityError: A vanished file is no longer retained.
        LakeFilesError: A file was overwritten, which this function cannot repair.
    """
    store, layout = log.store, log.layout
    if differences.overwritten:
        raise _overwritten(layout, differences)
    fence = Fence(log, change)
    fence.check()
    _restore(log, differences.vanished, fence, keep_alive)
    _put_right(log, differences, fence, keep_alive)
    for path in differences.foreign:
        fence.check_if_due()
        store.copy(layout.data_key(path), layout.foreign_key(path))
        store.delete([layout.data_key(path)])
        keep_alive()


def _overwritten(layout: LakeLayout, differences: Differences) -> LakeFilesError:
    message = f"Data files of {layout.name} were overwritten: {_names(differences.overwritten)}"
    remedy = "Restore their earlier versions in the bucket, or reload the table"
    return LakeFilesError(message, remedy=remedy, folder=layout.table_prefix)


def _of_history(paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(filter(is_in_history, paths))


def _is_hidden(relative: str) -> bool:
    parts = relative.split("/")
    return not parts[-1] or parts[-1].endswith(_HADOOP_FOLDER_MARK) or any(map(_is_hidden_name, parts))


def _is_hidden_name(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _names(paths: Sequence[str]) -> str:
    names = ", ".join(paths[:MAX_NAMES])
    return f"{names} and {len(paths) - MAX_NAMES} more" if len(paths) > MAX_NAMES else names
