"""Compares a table's folder with what the snapshot says of it, so that nobody's files are merged or lost in silence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cdclake.commit.log import ChangeLog
from cdclake.commit.publish import KeepAlive, in_parallel, no_lease
from cdclake.errors import ConfigurationError, LakeFilesError
from cdclake.model.layout import HISTORY, HISTORY_SUFFIX
from cdclake.model.table import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cdclake.model.rawfiles import ListedObject
    from cdclake.model.snapshot import DataFile, Snapshot

MOST_NAMES = 3
_HADOOP_FOLDER_MARK = "_$folder$"


@dataclass(frozen=True)
class Differences:
    """What is otherwise in the folders of a table and its history than cdclake left it.

    Names are relative to the table's folder; those of the history begin as `cdclake.model.layout.HISTORY` says.

    Attributes:
        foreign: Files that the snapshot does not know.
        vanished: Live data files that are not there.
        replaced: Live data files of another size than they were written with.
    """

    foreign: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.foreign or self.vanished or self.replaced)

    def to_json(self) -> dict[str, list[str]]:
        """Good for JSON."""
        return {"foreign": list(self.foreign), "vanished": list(self.vanished), "replaced": list(self.replaced)}


def visible_files(log: ChangeLog) -> list[ListedObject]:
    """What readers of the table's folder see, by key.

    Left out is what Spark, Athena and Hive do not read: names that begin with `_` or `.`, other than folders of a
    partition column whose name does, and the empty objects that stand for folders.
    """
    return _visible(log, log.layout.table_prefix)


def visible_history(log: ChangeLog) -> list[ListedObject]:
    """What readers of the history's folder see, by key."""
    return _visible(log, log.layout.history_prefix)


def _visible(log: ChangeLog, prefix: str) -> list[ListedObject]:
    return [entry for entry in log.store.list(prefix) if not _is_hidden(entry.key[len(prefix) :])]


def compare(log: ChangeLog, files: Iterable[DataFile]) -> Differences:
    """Compare the folders of a table and its history with their live data files.

    The history's folder is looked at only if some of the files are the history's: before there is one, it is anybody's.

    Raises:
        ConfigurationError: The table's folder is that of another table's history.
    """
    _require_own_folder(log)
    known = {file.path: file.bytes for file in files}
    entries = visible_files(log)
    if any(path.startswith(HISTORY) for path in known):
        entries += visible_history(log)
    there = {log.layout.data_path_of(entry.key): entry.size_bytes for entry in entries}
    return Differences(
        foreign=tuple(sorted(there.keys() - known.keys())),
        vanished=tuple(sorted(known.keys() - there.keys())),
        replaced=tuple(sorted(path for path in known.keys() & there.keys() if known[path] != there[path])),
    )


def check_files(log: ChangeLog, snapshot: Snapshot, *, reloads: bool = False) -> None:
    """Refuse to go on from a table whose files are not those that the last change left.

    Args:
        log: The table's change log, rolled forward.
        snapshot: The table after its newest change.
        reloads: All files of the table are about to be replaced, so that it does not matter what became of them. Those
            of its history are not.

    Raises:
        LakeFilesError: Says which files appeared, vanished or were replaced, and what to do.
    """
    found = compare(log, snapshot.all_files)
    name = log.layout.name
    if found.foreign and not snapshot.exists:
        message = f"The lake folder of {name} holds files that cdclake did not write: {_names(found.foreign)}"
        remedy = f"cdclake adopt {name.typed} takes them over as the table; or empty the folder"
        raise LakeFilesError(message, remedy=remedy, folder=log.layout.table_prefix)
    if found.foreign:
        message = f"Files appeared in the lake folder of {name}: {_names(found.foreign)}"
        remedy = f"cdclake repair {name.typed} moves them out of readers' sight; nothing was changed"
        raise LakeFilesError(message, remedy=remedy, folder=log.layout.table_prefix)
    if reloads:
        found = Differences((), *(_of_history(paths) for paths in (found.vanished, found.replaced)))
    if found.vanished:
        message = f"Data files of {name} vanished from its lake folder: {_names(found.vanished)}"
        remedy = f"cdclake repair {name.typed} brings them back if they are still kept; otherwise load the table anew"
        raise LakeFilesError(message, remedy=remedy, folder=log.layout.table_prefix)
    if found.replaced:
        message = f"Data files of {name} were overwritten: {_names(found.replaced)}"
        remedy = "Bring their earlier versions back, or load the table anew"
        raise LakeFilesError(message, remedy=remedy, folder=log.layout.table_prefix)


def repair(log: ChangeLog, found: Differences, keep_alive: KeepAlive = no_lease) -> None:
    """Bring vanished data files back, and move foreign files out of readers' sight into the control area.

    Raises:
        IntegrityError: A vanished file is no longer kept; names it.
        LakeFilesError: A file was overwritten, which cannot be repaired here.
    """
    store, layout = log.store, log.layout
    if found.replaced:
        message = f"Data files of {layout.name} were overwritten: {_names(found.replaced)}"
        remedy = "Bring their earlier versions back, or load the table anew"
        raise LakeFilesError(message, remedy=remedy, folder=layout.table_prefix)
    in_parallel(lambda path: store.restore(layout.data_key(path), layout.retired_key(path)), found.vanished, keep_alive)
    for path in found.foreign:
        store.copy(layout.data_key(path), layout.foreign_key(path))
        store.delete([layout.data_key(path)])
        keep_alive()


def log_of_sibling(log: ChangeLog, table: str) -> ChangeLog:
    """Change log of another table of the same schema."""
    name = TableName(log.layout.name.schema, table)
    return ChangeLog(log.store, replace(log.layout, name=name))


def _require_own_folder(log: ChangeLog) -> None:
    name = log.layout.name
    other = name.table[: -len(HISTORY_SUFFIX)] if name.table.endswith(HISTORY_SUFFIX) else ""
    if not other:
        return
    its_log = log_of_sibling(log, other)
    if its_log.snapshot(its_log.head()).history:
        message = f"The folder of {name} is that of the history of {its_log.layout.name}"
        raise ConfigurationError(message, remedy="Have DMS rename the table by a mapping rule", table=name)


def _of_history(paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(path for path in paths if path.startswith(HISTORY))


def _is_hidden(relative: str) -> bool:
    parts = relative.split("/")
    return not parts[-1] or parts[-1].endswith(_HADOOP_FOLDER_MARK) or any(map(_is_hidden_name, parts))


def _is_hidden_name(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _names(paths: Sequence[str]) -> str:
    names = ", ".join(paths[:MOST_NAMES])
    return f"{names} and {len(paths) - MOST_NAMES} more" if len(paths) > MOST_NAMES else names
