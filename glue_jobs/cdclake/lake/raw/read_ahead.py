"""Reads many small raw files at once: DMS writes up to one a minute, and each S3 request takes time."""

from __future__ import annotations

from collections import Counter, deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from cdclake.adapters.filesystem import FetchedFile, calls_at_once
from cdclake.concurrency import executor
from cdclake.errors import CdclakeError
from cdclake.lake.raw.reader import convert, is_convertible_with, joined, read_errors_reported, read_raw

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyarrow.fs import FileSystem

    from cdclake.lake.limits import EngineLimits
    from cdclake.lake.raw.rows import RawRows, ReadBatch, Slice
    from cdclake.lake.raw.suppression import Suppression
    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.raw.files import RawFile
    from cdclake.model.table.name import TableName
    from cdclake.model.table.settings import TableSettings

Item = TypeVar("Item")


def one_ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The same items; a thread computes the next one while the caller uses one."""
    iterator = iter(items)
    with ThreadPoolExecutor(1) as pool:
        upcoming = pool.submit(list, islice(iterator, 1))
        while item := upcoming.result():
            upcoming = pool.submit(list, islice(iterator, 1))
            yield item.pop()


def read_all(
    fs: FileSystem,
    parts: Iterable[Slice],
    shape: TableShape,
    settings: TableSettings,
    table: TableName,
    suppression: Suppression | None = None,
) -> Iterator[ReadBatch]:
    """Read slices in order, see `reader.read`, which raises the same errors.

    Adjacent row groups of a file count as one slice. At most `reads_ahead` small files are in memory besides the
    current batch. Threads only fetch them: each call of Arrow waits until other threads let go of Python's lock.

    Args:
        suppression: Which rows to leave out; None for none.
    """
    rows = _read_raw_all(fs, parts, settings, table, shape.limits)
    for group in _groups(rows, shape.limits.together_bytes):
        by_file = _rows_by_file(group)
        for converted in convert(group, shape, settings):
            batch = replace(converted, by_file=by_file)
            by_file = {}
            yield suppression.kept(batch, group[0][0], shape.schema) if suppression else batch


def _rows_by_file(group: Iterable[tuple[Slice, RawRows]]) -> Mapping[str, int]:
    counts = Counter[str]()
    for part, rows in group:
        counts[part.file.relative] += rows.columns.num_rows + len(rows.bad_rows)
    return counts


def _groups(rows: Iterable[tuple[Slice, RawRows]], max_bytes: int) -> Iterator[list[tuple[Slice, RawRows]]]:
    """The same rows, in groups to convert together."""
    group: list[tuple[Slice, RawRows]] = []
    size_bytes = 0
    try:
        for read in rows:
            read_bytes = read[1].columns.nbytes
            if group and (size_bytes + read_bytes > max_bytes or not is_convertible_with(group[-1], read)):
                yield group
                group, size_bytes = [], 0
            group.append(read)
            size_bytes += read_bytes
            if size_bytes >= max_bytes:  # so that the next batch is not read before these rows are used
                yield group
                group, size_bytes = [], 0
    except CdclakeError:  # rows before a damaged file come before the error
        yield group
        raise
    yield group


def _read_raw_all(
    fs: FileSystem, parts: Iterable[Slice], settings: TableSettings, table: TableName, limits: EngineLimits
) -> Iterator[tuple[Slice, RawRows]]:
    """The rows of each slice, in order."""
    pool = executor(calls_at_once(fs))
    pending: deque[tuple[Slice, Future[FetchedFile] | None]] = deque()
    remaining = _joined(parts)
    try:
        while True:
            for part in islice(remaining, limits.reads_ahead - len(pending)):
                fetches = part.file.size_bytes <= limits.small_file_bytes and not part.fetched
                pending.append((part, pool.submit(_fetched, fs, part.file) if fetches else None))
            if not pending:
                return
            part, fetched = pending.popleft()
            source = fetched.result() if fetched else part.fetched or fs
            for raw in read_raw(source, part, settings, table, limits):
                yield part, raw
    finally:
        pool.shutdown(cancel_futures=True)


def _joined(parts: Iterable[Slice]) -> Iterator[Slice]:
    """The same slices, but adjacent row groups of a file as one, so that a task reads the file's footer once."""
    adjacent: list[Slice] = []
    for part in parts:
        if adjacent and not adjacent[-1].ends_before(part):
            yield joined(adjacent)
            adjacent.clear()
        adjacent.append(part)
    if adjacent:
        yield joined(adjacent)


def _fetched(fs: FileSystem, file: RawFile) -> FetchedFile:
    with read_errors_reported(file):
        return FetchedFile.of(fs, file.key)
