"""Finds rows in a table's raw files and removes them: change files are rewritten, full loads are deleted.

A full load cannot be rewritten, because new file times would mean that the source was loaded again. Once it is in the
lake, a full load is needed only to roll back to a change before it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.adapters.filesystem import FetchedFile
from cdclake.commit.erasure import overtaken, replace_object
from cdclake.commit.ledger import recorded
from cdclake.errors import InputError
from cdclake.lake.operations.erase.quarantine import has_key
from cdclake.lake.raw.formats import format_of
from cdclake.lake.raw.reader import read, read_errors_reported
from cdclake.lake.raw.rows import Slice
from cdclake.lake.storage.keys import KEY, row_keys
from cdclake.lake.storage.shape import TableShape
from cdclake.model.due_files import is_contained, pending_changes
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.position import MARKS, ROW_DIGITS
from cdclake.model.raw.files import (
    TRANSACTIONS_NAME,
    ListedObject,
    RawFile,
    RawKind,
    parse_raw_file,
    transactions_prefix,
)
from cdclake.raw_listing import list_raw_files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Sequence

    from pyarrow.fs import FileSystem

    from cdclake.adapters.filesystem import FileSystemSpec
    from cdclake.commit.log import ChangeLog
    from cdclake.lake.operations.erase.progress import Progress
    from cdclake.lake.read.key_filter import RowKeys
    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table.name import TableName
    from cdclake.model.table.settings import TableSettings
    from cdclake.ports import ObjectStore, OldVersion


@dataclass(frozen=True)
class RawLocation:
    """Where a table's raw files are, and how to read them.

    Attributes:
        store: The raw bucket.
        fs: The raw bucket for pyarrow.
        prefix: Key prefix of the table's folder, with a trailing slash.
        table: The source table.
    """

    store: ObjectStore
    fs: FileSystemSpec
    prefix: str
    table: TableName
    settings: TableSettings


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
        in_lake: Relative keys of the change files, of all, that are in the lake.
        pending: Relative keys of files that contain a row and are not in the lake yet.
        renamed: Number of rows that stay because they change the key of a row to another one.
        unread_rows: Number of rows that stay although their key cannot be read, by relative key of the file.
        versions: Earlier versions, and versions of deleted files, that contain rows.
        version_rows: Number of rows to erase in them.
        unreadable: Relative keys of files that cannot be read; of an older version, also the version id.
        unknown: Keys of objects, and of versions, that are no raw files by their names.
    """

    full_load: list[RawFile] = field(default_factory=list)
    full_load_rows: int = 0
    changes: list[MatchedRawFile] = field(default_factory=list)
    in_lake: Collection[str] = frozenset()
    pending: list[str] = field(default_factory=list)
    renamed: int = 0
    unread_rows: Counter[str] = field(default_factory=Counter)
    versions: list[OldVersion] = field(default_factory=list)
    version_rows: int = 0
    unreadable: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    @property
    def affected(self) -> tuple[str, ...]:
        """Relative keys of the files to rewrite or delete."""
        return (*(file.relative for file in self.full_load), *(match.file.relative for match in self.changes))

    @property
    def applied(self) -> tuple[str, ...]:
        """Relative keys of the change files to rewrite that are in the lake."""
        return tuple(match.file.relative for match in self.changes if match.file.relative in self.in_lake)


class _FileMatches(NamedTuple):
    """Rows of a raw file: numbers of those to erase, and counts, see `RawMatches`."""

    rows: set[int]
    renamed: int
    unread: int


def search(
    raw: RawLocation, log: ChangeLog, lake: Snapshot, keys: RowKeys, progress: Progress, *, unread_too: bool
) -> RawMatches:
    """Search all raw files of the table, and their earlier versions.

    Args:
        log: The table's change log.
        lake: Its newest snapshot.
        unread_too: Whether to erase rows whose key cannot be read.
    """
    files = list_raw_files(raw.store, raw.prefix, raw.settings)
    full_load = [*files.full_load, *(file for file in files.ignored if file.kind is RawKind.FULL_LOAD)]
    changes = files.all_changes
    seen = recorded(log, lake.ledger, changes)
    due = pending_changes(lake, files.changes, raw.settings.late_window_hours, seen).due
    not_in_lake = {file.relative for file in due}
    if not all(is_contained(lake, file) for file in files.full_load):  # they are deleted together
        not_in_lake.update(file.relative for file in full_load)
    matches, fs = RawMatches(in_lake=seen.names), raw.fs.open()
    find = partial(_matching_rows, raw, lake, keys, unread_too=unread_too)
    progress.expect("Searching raw files", len(full_load) + len(changes))
    for file in (*full_load, *changes):
        file.identity  # noqa: B018 - where listings lack ETags, computed once, here, before the file is read
        try:
            rows, renamed, unread = find(fs, file)
        except InputError:
            matches.unreadable.append(file.relative)
            progress.step()
            continue
        matches.renamed += renamed
        matches.unread_rows.update({file.relative: unread} if unread else {})
        if rows and file.relative in not_in_lake:
            matches.pending.append(file.relative)
        if rows and file.kind is RawKind.FULL_LOAD:
            matches.full_load, matches.full_load_rows = full_load, matches.full_load_rows + len(rows)
        elif rows:
            matches.changes.append(MatchedRawFile(file, frozenset(rows)))
        progress.step()
    _search_versions(raw, fs, find, matches)
    listed = chain.from_iterable(map(raw.store.list, _prefixes(raw)))
    matches.unknown += [one.key for one in listed if one.size_bytes and parse_raw_file(one, raw.prefix) is None]
    return matches


def _prefixes(raw: RawLocation) -> list[str]:
    """Prefixes of all objects with rows of the table."""
    cdc_path = raw.settings.cdc_path
    transactions = [transactions_prefix(raw.prefix, cdc_path).removesuffix(TRANSACTIONS_NAME)] if cdc_path else []
    return [raw.prefix, *transactions]


def _search_versions(
    raw: RawLocation, fs: FileSystem, find: Callable[[FileSystem, RawFile], _FileMatches], matches: RawMatches
) -> None:
    """Search earlier versions of raw files, and versions of deleted ones, but not of files that are rewritten."""
    replaced = {file.key for file in (*matches.full_load, *(match.file for match in matches.changes))}
    for version in chain.from_iterable(map(raw.store.old_versions, _prefixes(raw))):
        if version.key in replaced or not version.size_bytes:
            continue
        entry = ListedObject(version.key, version.size_bytes, datetime.now(timezone.utc))
        file = parse_raw_file(entry, raw.prefix)
        name = f"{version.key} (version {version.id})"
        content = raw.store.get_version(version) if file else None
        if file is None:
            matches.unknown.append(name)
        elif content is not None:
            try:
                rows, _, unread = find(FetchedFile(fs, content), file)
            except InputError:
                matches.unreadable.append(name)
                continue
            matches.unread_rows.update({name: unread} if unread else {})
            if rows:
                matches.versions.append(version)
                matches.version_rows += len(rows)


def _matching_rows(
    raw: RawLocation, lake: Snapshot, keys: RowKeys, fs: FileSystem, file: RawFile, *, unread_too: bool
) -> _FileMatches:
    spelled, settings = lake.schema.spelled, raw.settings
    shape = TableShape(lake.schema, spelled(settings.primary_key), spelled(settings.partition_key))
    key_filter = keys.filter_for(shape)
    if key_filter is None:
        return _FileMatches(set(), 0, 0)
    matching, others, unread = set[int](), set[int](), 0
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
        for bad in batch.bad_rows:
            found = has_key(bad.content, keys, lake.schema) if bad.content else None
            if bad.row is not None and (found or (found is None and unread_too)):
                matching.add(bad.row)
            elif found is not False:
                unread += 1
    return _FileMatches(matching - others, len(matching & others), unread)


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
    raw.store.delete_versions(matches.versions)


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
        return format_of(file).without_rows(fs, file, settings, excluded)
