"""Finds rows in the data files and tombstones of all retained changes, and writes files without them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING
from zlib import crc32

import pyarrow.compute as pc

from cdclake.commit.erasure import Replacement, retained_snapshots
from cdclake.concurrency import CALLS_AT_ONCE, in_parallel
from cdclake.errors import IntegrityError, PastRetentionError
from cdclake.lake.read.as_of import RetainedFile
from cdclake.lake.read.retained_files import RetainedFileReader
from cdclake.lake.scd2.versions import file_shape, keyed_shape
from cdclake.lake.storage.reader import parquet_file
from cdclake.lake.storage.shape import TableShape
from cdclake.lake.storage.tombstones import read_tombstone_file, write_tombstone_file
from cdclake.lake.storage.writer import DataFileWriter
from cdclake.model.iceberg.field_ids import NO_FIELD_IDS
from cdclake.model.layout import HISTORY, is_in_history, is_in_iceberg
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.position import MARKS
from cdclake.model.versions import MONTH, YEAR

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

    from cdclake.commit.log import ChangeLog
    from cdclake.lake.operations.erase.progress import Progress
    from cdclake.lake.read.as_of import TableLocation
    from cdclake.lake.read.key_filter import KeyFilter, RowKeys
    from cdclake.model.snapshot import DataFile, Snapshot, TombstoneFile
_NUMBERS_OF_A_RUN = 1_000_000
"""More than a change has files."""


@dataclass(frozen=True)
class MatchedFile:
    """A data file that contains, or may contain, rows to erase.

    Attributes:
        retained: The file.
        live: Whether the newest snapshot has it, as a file of the table or of its history.
        shape: Shape to write its rows with.
        key_filter: Selects the rows to erase.
        comparable: Whether its positions compare with the positions of changes to come: it is a file of the table, and
            of no change before the last full load.
        rows: Number of rows to erase.
    """

    retained: RetainedFile
    live: bool
    shape: TableShape
    key_filter: KeyFilter
    comparable: bool = False
    rows: int = 0

    @property
    def path(self) -> str:
        """Its path in the table's folder."""
        return self.retained.file.path

    @property
    def in_history(self) -> bool:
        """Whether it is a file of the history."""
        return is_in_history(self.path)


@dataclass(frozen=True)
class MatchedTombstones:
    """A file of tombstones that contains, or may contain, some to erase; `comparable` as for `MatchedFile`."""

    file: TombstoneFile
    key_filter: KeyFilter
    comparable: bool = False
    rows: int = 0


@dataclass
class Matches:
    """Files that contain rows to erase.

    Attributes:
        files: Data files.
        missing: Retired data files that no longer exist, but whose key bounds are still in snapshots.
        tombstones: Files of tombstones.
        without_key: Paths of data files that lack a key column and cannot be searched.
        last: See `ErasedKeys.last`.
    """

    files: list[MatchedFile] = field(default_factory=list)
    missing: list[DataFile] = field(default_factory=list)
    tombstones: list[MatchedTombstones] = field(default_factory=list)
    without_key: list[str] = field(default_factory=list)
    last: str = ""

    def reach(self, position: str) -> None:
        """Note the position of a row to erase."""
        self.last = max(self.last, position.rstrip(MARKS))


def search(location: TableLocation, log: ChangeLog, head: int, keys: RowKeys, progress: Progress) -> Matches:
    """Search the data files and tombstones of all retained changes.

    Retired files may be missing, for example because of a lifecycle rule of the bucket.

    Raises:
        LakeFilesError: A live file vanished or was overwritten.
    """
    candidates = _candidates(log, head, keys)
    matches = Matches(without_key=candidates.without_key)
    reader, lock = RetainedFileReader(location), Lock()
    fs = location.fs.open()

    def search_file(candidate: MatchedFile) -> None:
        file = candidate.retained.file
        try:
            with reader.open(candidate.retained) as source:
                rows = candidate.key_filter.count(source, file.partition)
                is_wanted = rows and candidate.comparable
                last = candidate.key_filter.last_position(source, file) if is_wanted else ""
        except PastRetentionError:
            if file.key_min is not None:
                with lock:
                    matches.missing.append(file)
            return
        if rows:
            with lock:
                matches.files.append(replace(candidate, rows=rows))
                matches.reach(last)

    progress.expect("Searching data files", len(candidates.files))
    in_parallel(search_file, candidates.files, CALLS_AT_ONCE, progress.step)
    matches.files.sort(key=lambda match: match.path)
    for tombstones in candidates.tombstones:
        remembered = read_tombstone_file(fs, tombstones.file.key)
        mask = tombstones.key_filter.tombstone_mask(tombstones.file, remembered)
        if rows := pc.sum(mask).as_py() or 0:
            matches.tombstones.append(replace(tombstones, rows=rows))
            if tombstones.comparable:
                matches.reach(pc.max(remembered[POSITION].filter(mask)).as_py() or "")
    return matches


def _candidates(log: ChangeLog, head: int, keys: RowKeys) -> Matches:
    """Files that may contain rows to erase, according to the snapshots."""
    candidates, seen, newest = Matches(), set[str](), log.snapshot(head)
    for record, snapshot in retained_snapshots(log, head):
        comparable = (snapshot.ordering, snapshot.full_load_utc) == (newest.ordering, newest.full_load_utc)
        staged = {file.path: file.staged_key for file in record.added}
        table = TableShape(snapshot.schema, snapshot.primary_key, snapshot.partition_key, field_ids=snapshot.field_ids)
        kinds: list[tuple[tuple[DataFile, ...], TableShape, KeyFilter | None]] = [
            (snapshot.files, table, keys.filter_for(table))
        ]
        if snapshot.history:
            versions = TableShape(snapshot.history.schema, snapshot.history.primary_key, ())
            shape = replace(file_shape(versions), field_ids=snapshot.history.field_ids)
            kinds.append((snapshot.history.files, shape, keys.filter_for(keyed_shape(versions))))
        for files, shape, key_filter in kinds:
            for file in files:
                if file.path in seen:
                    continue
                seen.add(file.path)
                if key_filter is None:
                    candidates.without_key.append(file.path)
                elif key_filter.may_match(file):
                    retained = RetainedFile(file, staged.get(file.path, "") if record.change == head else "")
                    is_own = comparable and files is snapshot.files
                    candidates.files.append(MatchedFile(retained, record.change == head, shape, key_filter, is_own))
        key_filter = kinds[0][2]
        for tombstones in snapshot.tombstones:
            if tombstones.key not in seen and key_filter and key_filter.may_match(tombstones):
                candidates.tombstones.append(MatchedTombstones(tombstones, key_filter, comparable))
            seen.add(tombstones.key)
    return candidates


def rewrite(
    location: TableLocation, before: Snapshot, matches: Matches, run_id: str, progress: Progress
) -> Replacement:
    """Write each file again without the rows. Replacements of live files are staged, unless readers list no folder.

    Args:
        before: The table after its newest change.
        run_id: The run that erases.

    Raises:
        As `search`.
    """
    fs, reader, layout = location.fs.open(), RetainedFileReader(location), location.layout
    without_bounds = (replace(file, key_min=None, key_max=None) for file in matches.missing)
    files: dict[str, DataFile | None] = {file.path: file for file in without_bounds}
    staged: dict[str, str] = {}
    change = before.change + 1
    staging = layout.staging_prefix(change, run_id)
    progress.expect("Rewriting data files", len(matches.files))
    for number, match in enumerate(matches.files, _first_number(run_id)):
        old = match.retained.file
        columns = (YEAR, MONTH) if match.in_history else match.shape.partition_key
        path = layout.data_path(change, number, columns, old.partition)
        path = HISTORY + path if match.in_history else path
        target = f"{staging}{number:05d}.parquet" if match.live else layout.retired_key(path)
        if is_in_iceberg(old.path):
            own_layout = layout.history if match.in_history else layout
            target = f"{own_layout.iceberg_data_prefix(change, run_id)}{number:05d}.parquet"
            path = layout.data_path_of(target)
        new = _without_rows(fs, reader, match, target)
        files[old.path] = replace(new, path=path) if new else None
        if new and match.live:
            staged[path] = target
        progress.step()
    new_tombstones = {
        match.file.key: _without_tombstones(
            fs, match, f"{layout.tombstones_key(change, run_id)}-erased-{number:05d}.parquet"
        )
        for number, match in enumerate(matches.tombstones, 1)
    }
    return Replacement(files, new_tombstones, staged)


def _first_number(run_id: str) -> int:
    """The number of the first file that an erasure writes: no other run gives it to a file.

    Replacements of retired files are in their place before the commit. If that fails, another run makes the change of
    this number, and its files must not have the names of those.
    """
    return (1 + crc32(run_id.encode())) * _NUMBERS_OF_A_RUN


def _without_rows(fs: FileSystem, reader: RetainedFileReader, match: MatchedFile, target: str) -> DataFile | None:
    """The new file, whose path is the target key; None if no rows remain."""
    old = match.retained.file
    with reader.open(match.retained) as source:
        names = {name.lower() for name in parquet_file(source).schema_arrow.names}
        shape = replace(
            match.shape,
            soft_delete=bool(old.deleted),  # makes the writer count remaining soft-deleted rows
            partitions_inside=any(name.lower() in names for name in match.shape.partition_key),
            # Earlier states that have an adopted file, too, know no ids of its columns, or other ones.
            field_ids=match.shape.field_ids if old.has_field_ids else NO_FIELD_IDS,
        )
        writer = DataFileWriter(fs, [target], shape, old.partition, old.rows)
        for rows in match.key_filter.other_rows(source, match.shape, old.partition):
            writer.write(rows)
    writer.close()
    remaining = sum(file.rows for file in writer.written)
    if remaining != old.rows - match.rows:
        message = f"Erasing {match.rows} of {old.rows} rows of a data file would leave {remaining} rows"
        raise IntegrityError(message, remedy="Nothing was changed. Report this", file=match.path)
    return writer.written[0] if writer.written else None


def _without_tombstones(fs: FileSystem, match: MatchedTombstones, key: str) -> TombstoneFile | None:
    rows = read_tombstone_file(fs, match.file.key)
    rows = rows.filter(pc.invert(match.key_filter.tombstone_mask(match.file, rows)))
    if not rows.num_rows:
        return None
    return write_tombstone_file(fs, key, rows, match.file.newest, match.file.key_types)
