"""Finds rows in the data files and remembered deletes of a table's present and past, and writes files without them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from cdclake.commit.erasure import Replacement, retained_snapshots
from cdclake.commit.publish import in_parallel
from cdclake.errors import IntegrityError, PastRetentionError
from cdclake.lake.read.as_of import RetainedFile
from cdclake.lake.read.retained_files import RetainedFileReader
from cdclake.lake.scd2.versions import file_shape, keyed_shape
from cdclake.lake.storage.keys import KEY
from cdclake.lake.storage.shape import TableShape
from cdclake.lake.storage.tombstones import read_tombstone_file, write_tombstone_file
from cdclake.lake.storage.writer import DataFileWriter
from cdclake.model.layout import HISTORY
from cdclake.model.versions import MONTH, YEAR

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

    from cdclake.commit.log import ChangeLog
    from cdclake.lake.operations.erase.progress import Progress
    from cdclake.lake.read.as_of import TableLocation
    from cdclake.lake.read.key_filter import KeyFilter, RowKeys
    from cdclake.model.snapshot import DataFile, Snapshot, TombstoneFile


@dataclass(frozen=True)
class MatchedFile:
    """A data file that holds rows to erase, or may.

    Attributes:
        kept: The file.
        live: Whether it is one of the table as it is now, or of its history.
        shape: Shape to write its rows with.
        wanted: What to look for in it.
        rows: How many of its rows are to be erased.
    """

    kept: RetainedFile
    live: bool
    shape: TableShape
    wanted: KeyFilter
    rows: int = 0

    @property
    def path(self) -> str:
        """Its path."""
        return self.kept.file.path

    @property
    def of_history(self) -> bool:
        """Whether it is one of the history's."""
        return self.path.startswith(HISTORY)


@dataclass(frozen=True)
class MatchedTombstones:
    """A file of remembered deletes that holds some to erase, or may."""

    file: TombstoneFile
    wanted: KeyFilter
    rows: int = 0


@dataclass
class Matches:
    """Everything in which rows to erase were found.

    Attributes:
        files: Data files.
        gone: Data files of earlier changes that are no longer kept, of which snapshots tell the bounds of the keys.
        tombstones: Files of remembered deletes.
        unlike: Paths of data files that lack a column of the key, so that nothing can be found in them.
    """

    files: list[MatchedFile] = field(default_factory=list)
    gone: list[DataFile] = field(default_factory=list)
    tombstones: list[MatchedTombstones] = field(default_factory=list)
    unlike: list[str] = field(default_factory=list)


def search(place: TableLocation, log: ChangeLog, head: int, keys: RowKeys, progress: Progress) -> Matches:
    """Look for rows in every data file and remembered delete of the changes that one can go back to.

    Retired files may be gone already, by a rule of the bucket for example.

    Raises:
        LakeFilesError: A live file vanished or was overwritten.
    """
    may_hold = _that_may_hold(log, head, keys)
    held = Matches(unlike=may_hold.unlike)
    kept, lock = RetainedFileReader(place), Lock()
    fs = place.fs.open()

    def look(one: MatchedFile) -> None:
        try:
            source = kept.open(one.kept)
        except PastRetentionError:
            if one.kept.file.key_min is not None:
                with lock:
                    held.gone.append(one.kept.file)
            return
        with source:
            rows = one.wanted.count(source, one.kept.file.partition)
        if rows:
            with lock:
                held.files.append(replace(one, rows=rows))

    progress.expect("Looking through data files", len(may_hold.files))
    in_parallel(look, may_hold.files, progress.step)
    held.files.sort(key=lambda one: one.path)
    for tombstones in may_hold.tombstones:
        found = tombstones.wanted.are_tombstones(read_tombstone_file(fs, tombstones.file.key)[KEY])
        if rows := pc.sum(found).as_py() or 0:
            held.tombstones.append(replace(tombstones, rows=rows))
    return held


def _that_may_hold(log: ChangeLog, head: int, keys: RowKeys) -> Matches:
    """By what the snapshots say of files."""
    found, seen = Matches(), set[str]()
    for record, snapshot in retained_snapshots(log, head):
        staged = {file.path: file.staged_key for file in record.added}
        table = TableShape(snapshot.schema, snapshot.primary_key, snapshot.partition_key)
        kinds: list[tuple[tuple[DataFile, ...], TableShape, KeyFilter | None]] = [
            (snapshot.files, table, keys.wanted(table))
        ]
        if snapshot.history:
            versions = TableShape(snapshot.history.schema, snapshot.history.primary_key, ())
            kinds.append((snapshot.history.files, file_shape(versions), keys.wanted(keyed_shape(versions))))
        for files, shape, wanted in kinds:
            for file in files:
                if file.path in seen:
                    continue
                seen.add(file.path)
                if wanted is None:
                    found.unlike.append(file.path)
                elif wanted.may_be_in(file):
                    kept = RetainedFile(file, staged.get(file.path, "") if record.change == head else "")
                    found.files.append(MatchedFile(kept, record.change == head, shape, wanted))
        wanted = kinds[0][2]
        for tombstones in snapshot.tombstones:
            if tombstones.key not in seen and wanted and wanted.may_be_in(tombstones):
                found.tombstones.append(MatchedTombstones(tombstones, wanted))
            seen.add(tombstones.key)
    return found


def rewrite(
    place: TableLocation, before: Snapshot, held: Matches, staging: str, tombstones: str, progress: Progress
) -> Replacement:
    """Write each of the files anew without the rows: what takes the place of live ones is staged.

    Args:
        before: The table after its newest change.
        staging: Folder to stage files in.
        tombstones: What the keys of new files of remembered deletes begin with.

    Raises:
        As `search`.
    """
    fs, kept, layout = place.fs.open(), RetainedFileReader(place), place.layout
    files: dict[str, DataFile | None] = {file.path: replace(file, key_min=None, key_max=None) for file in held.gone}
    staged: dict[str, str] = {}
    progress.expect("Writing data files without the rows", len(held.files))
    for number, one in enumerate(held.files, 1):
        old = one.kept.file
        columns = (YEAR, MONTH) if one.of_history else one.shape.partition_key
        path = layout.data_path(before.change + 1, number, columns, old.partition)
        path = HISTORY + path if one.of_history else path
        target = f"{staging}{number:05d}.parquet" if one.live else layout.retired_key(path)
        new = _without_rows(fs, kept, one, target)
        files[old.path] = replace(new, path=path) if new else None
        if new and one.live:
            staged[path] = target
        progress.step()
    buried = {
        one.file.key: _without_tombstones(fs, one, f"{tombstones}-erased-{number:05d}.parquet")
        for number, one in enumerate(held.tombstones, 1)
    }
    return Replacement(files, buried, staged)


def _without_rows(fs: FileSystem, kept: RetainedFileReader, one: MatchedFile, target: str) -> DataFile | None:
    """The new file, if a row is left; its path is where it was written."""
    old = one.kept.file
    shape = replace(one.shape, soft_delete=bool(old.deleted))  # so that deleted rows that stay are counted as such
    writer = DataFileWriter(fs, [target], shape, old.partition, old.rows)
    with kept.open(one.kept) as source:
        for rows in one.wanted.left(source, one.shape, old.partition):
            writer.write(rows)
    writer.close()
    left = sum(file.rows for file in writer.written)
    if left != old.rows - one.rows:
        message = f"Of {old.rows} rows of a data file {one.rows} were to be erased, and {left} are left"
        raise IntegrityError(message, remedy="Nothing was changed. Report this", file=one.path)
    return writer.written[0] if writer.written else None


def _without_tombstones(fs: FileSystem, one: MatchedTombstones, key: str) -> TombstoneFile | None:
    rows = read_tombstone_file(fs, one.file.key)
    rows = rows.filter(pc.invert(one.wanted.are_tombstones(rows[KEY])))
    if not rows.num_rows:
        return None
    return write_tombstone_file(fs, key, rows, one.file.newest)
