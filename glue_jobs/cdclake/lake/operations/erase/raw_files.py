"""Finds rows in a table's raw files and removes them: change files are rewritten, full loads are deleted.

A full load cannot be rewritten, because new file times would mean that the source was loaded again. Once it is in the
lake, a full load is needed only to roll back to a change before it.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdclake.adapters.filesystem import open_input
from cdclake.commit.erasure import overtaken, replace_object
from cdclake.errors import InputError
from cdclake.lake.operations.erase.quarantine import has_key
from cdclake.lake.raw import csv
from cdclake.lake.raw.parquet import open_parquet
from cdclake.lake.raw.reader import Slice, read, read_errors_reported
from cdclake.lake.storage.keys import KEY, row_keys
from cdclake.lake.storage.parquet.footer import footer_of
from cdclake.lake.storage.shape import TableShape
from cdclake.model.due_files import is_loaded, pending_changes
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.position import MARKS, ROW_DIGITS
from cdclake.model.rawfiles import RawFile, RawFormat, RawKind
from cdclake.raw_listing import list_raw_files

if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from datetime import datetime

    from pyarrow.fs import FileSystem

    from cdclake.adapters.filesystem import FileSystemSpec
    from cdclake.lake.operations.erase.progress import Progress
    from cdclake.lake.read.key_filter import RowKeys
    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table import TableName, TableSettings
    from cdclake.ports import ObjectStore


@dataclass(frozen=True)
class RawLocation:
    """Where a table's raw files are, and how to read them.

    Attributes:
        store: The raw bucket.
        fs: The raw bucket for pyarrow.
        prefix: Key prefix of the table's folder, with a trailing slash.
        table: The source table.
        last_listed_utc: See `TableState.last_listed_utc`.
    """

    store: ObjectStore
    fs: FileSystemSpec
    prefix: str
    table: TableName
    settings: TableSettings
    last_listed_utc: datetime | None = None


@dataclass(frozen=True)
class MatchedRawFile:
    """A raw file that contains rows to erase.

    Attributes:
        rows: Numbers of the rows to erase.
    """

    file: RawFile
    rows: frozenset[int]


@dataclass
class RawMatches:
    """Raw files that contain rows to erase.

    Attributes:
        full_load: All files of the full load if at least one of them contains a row; else empty.
        full_load_rows: Number of rows to erase in them.
        changes: Change files that contain rows.
        left_out: Relative keys of all change files that are not in the lake and will not be: they arrived behind the
            late window since the last run, or `IgnoreFiles` covers them.
        pending: Relative keys of files that contain a row and are not in the lake yet.
        renamed: Number of rows that stay because they change the key of a row to another one.
        unreadable: Relative keys of files that cannot be read.
    """

    full_load: list[RawFile] = field(default_factory=list)
    full_load_rows: int = 0
    changes: list[MatchedRawFile] = field(default_factory=list)
    left_out: frozenset[str] = frozenset()
    pending: list[str] = field(default_factory=list)
    renamed: int = 0
    unreadable: list[str] = field(default_factory=list)

    @property
    def affected(self) -> tuple[str, ...]:
        """Relative keys of the files to rewrite or delete."""
        return (*(file.relative for file in self.full_load), *(match.file.relative for match in self.changes))

    @property
    def applied(self) -> tuple[str, ...]:
        """Relative keys of the change files to rewrite that are in the lake."""
        return tuple(match.file.relative for match in self.changes if match.file.relative not in self.left_out)


def search(raw: RawLocation, lake: Snapshot, keys: RowKeys, progress: Progress) -> RawMatches:
    """Search all raw files of the table.

    Args:
        lake: The table's newest snapshot.
    """
    files = list_raw_files(raw.store, raw.prefix, raw.settings)
    full_load = [*files.full_load, *(file for file in files.ignored if file.kind is RawKind.FULL_LOAD)]
    ignored = [file for file in files.ignored if file.kind is RawKind.CHANGE]
    changes = [*files.changes, *ignored]
    due, too_late, _ = pending_changes(lake, files.changes, raw.settings.late_window_hours, raw.last_listed_utc)
    not_in_lake = {file.relative for file in due}
    if files.full_load and not is_loaded(lake, files.full_load):
        not_in_lake.update(file.relative for file in full_load)
    left_out = frozenset(file.relative for file in (*too_late, *ignored)) - {lake.watermark, *lake.applied_files}
    matches, fs = RawMatches(left_out=left_out), raw.fs.open()
    progress.expect("Searching raw files", len(full_load) + len(changes))
    for file in (*full_load, *changes):
        file.identity  # noqa: B018 - where listings lack ETags, computed once, here, before the file is read
        try:
            rows, renamed = _matching_rows(fs, raw, file, lake, keys)
        except InputError:
            matches.unreadable.append(file.relative)
            progress.step()
            continue
        matches.renamed += renamed
        if rows and file.relative in not_in_lake:
            matches.pending.append(file.relative)
        if rows and file.kind is RawKind.FULL_LOAD:
            matches.full_load, matches.full_load_rows = full_load, matches.full_load_rows + len(rows)
        elif rows:
            matches.changes.append(MatchedRawFile(file, frozenset(rows)))
        progress.step()
    return matches


def _matching_rows(
    fs: FileSystem, raw: RawLocation, file: RawFile, lake: Snapshot, keys: RowKeys
) -> tuple[set[int], int]:
    """Numbers of the rows that have one of the keys, and the number of rows that change one of them to another key."""
    spelled, settings = lake.schema.spelled, raw.settings
    shape = TableShape(lake.schema, spelled(settings.primary_key), spelled(settings.partition_key))
    key_filter = keys.filter_for(shape)
    if key_filter is None:
        return set(), 0
    matching, others = set[int](), set[int]()
    for batch in read(fs, Slice(file, file.size_bytes), shape, raw.settings, raw.table):
        if KEY in batch.rows.schema.names and shape.primary_key == keys.names:
            batch_keys = batch.rows[KEY]
        else:
            _, batch_keys = row_keys([batch.rows[name].combine_chunks() for name in keys.names])
        mask = pc.fill_null(pc.is_in(batch_keys, value_set=key_filter.keys), False)
        numbers = _numbers(batch.rows[POSITION])
        matching.update(numbers.filter(mask).to_pylist())
        # An update of a key yields a delete of the old key and an insert of the new one, both with the same number.
        others.update(numbers.filter(pc.invert(mask)).to_pylist())
        bad_rows = (bad for bad in batch.bad_rows if has_key(bad.content, keys, lake.schema))
        matching.update(bad.row for bad in bad_rows if bad.row is not None)
    return matching - others, len(matching & others)


def _numbers(positions: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.utf8_slice_codeunits(pc.utf8_rtrim(positions, MARKS), -ROW_DIGITS).cast(pa.int64())


def rewrite(raw: RawLocation, matches: RawMatches, progress: Progress) -> None:
    """Rewrite the change files without the rows and delete the full load, including all earlier object versions.

    A CSV file without any rows left is deleted, because an empty one cannot be read.

    Raises:
        CommitConflictError: A file changed since it was searched, so its rows may have other numbers.
    """
    fs = raw.fs.open()
    progress.expect("Rewriting raw files", len(matches.changes))
    for match in matches.changes:
        file = match.file
        old = raw.store.get(file.key) or b""
        rest = without_rows(fs, file, raw.settings, match.rows)
        _require_unchanged(raw.store, [file])
        if rest:
            replace_object(raw.store, file.key, rest, old)
        else:
            raw.store.delete([file.key])
        _purge(raw.store, file.key)
        progress.step()
    _require_unchanged(raw.store, matches.full_load)
    raw.store.delete([file.key for file in matches.full_load])
    for file in matches.full_load:
        _purge(raw.store, file.key)


def _require_unchanged(store: ObjectStore, files: Sequence[RawFile]) -> None:
    for file in files:
        listed = (entry for entry in store.list(file.key) if entry.key == file.key)
        now = [replace(file, size_bytes=entry.size_bytes, etag=entry.etag).identity for entry in listed]
        if now != [file.identity]:
            raise overtaken(file.key)


def _purge(store: ObjectStore, key: str) -> None:
    store.purge(key, lambda other: other != key)


def without_rows(fs: FileSystem, file: RawFile, settings: TableSettings, excluded: Container[int]) -> bytes:
    """Return a raw file's content without some rows; empty if a CSV file has no others.

    Args:
        excluded: Numbers of these rows, as in `RawRows.numbers`.

    Raises:
        InputError: The file cannot be read.
    """
    with read_errors_reported(file):
        if file.format is RawFormat.PARQUET:
            return _parquet_without_rows(fs, file, excluded)
        rest = csv.without_rows(fs, file, settings, excluded)
    if not rest.strip():
        return b""
    return gzip.compress(rest, mtime=0) if file.format is RawFormat.CSV_GZ else rest


def _parquet_without_rows(fs: FileSystem, file: RawFile, excluded: Container[int]) -> bytes:
    with open_input(fs, file.key) as source:
        footer = footer_of(source)
        codec = footer.row_groups[0].columns[0].codec
        rows = open_parquet(source, footer.arrow).read(use_threads=False)
    rest = pa.array(number not in excluded for number in range(rows.num_rows))
    sink = pa.BufferOutputStream()
    pq.write_table(
        rows.filter(rest),
        sink,
        compression="none" if codec == "UNCOMPRESSED" else codec,
        store_schema=False,
        use_dictionary=False,
    )
    return bytes(sink.getvalue())
