"""Writes a feed to the raw bucket, and the expected lake table to a folder."""

from __future__ import annotations

import json
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Callable, NamedTuple

import pyarrow.parquet as pq

from cdclake.errors import ConfigurationError
from cdclake_cli.dms.names import table_folder
from cdclake_devkit.feed.schedule import FileKind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from cdclake.ports import ObjectStore
    from cdclake_devkit.feed.feed import Feed
    from cdclake_devkit.feed.schedule import FeedFile

    Report = Callable[[str], None]

TABLE_JSON, FEED_JSON = "table.json", "feed.json"
TABLE_FOLDER, HISTORY_FOLDER = "table", "history"
_THREADS, _MAX_PENDING = 2, 3


@dataclass(frozen=True)
class FeedReport:
    """What was written.

    Attributes:
        files: Number of raw files, including repeated ones.
        rows: Number of rows in them.
        bytes: Size of the files.
        expected_rows: Number of rows that the lake table must contain.
        expected_versions: Number of versions that its history must contain; None without a history.
        faults: The injected faults, as in the manifest.
    """

    files: int
    rows: int
    bytes: int
    expected_rows: int
    expected_versions: int | None
    faults: tuple[dict[str, object], ...]


def write_feed(
    feed: Feed,
    raw: ObjectStore,
    prefix: str,
    expected: Path,
    only_round: int | None = None,
    report: Report = lambda _: None,
) -> FeedReport:
    """Write a feed, or one round of it.

    Args:
        feed: A feed from which no files were taken yet.
        prefix: The raw prefix; empty, or with a trailing slash.
        expected: Folder for the expectation, created if missing: `table/` and `history/` as Parquet, the table's
            attributes, and a manifest of files and faults.
        only_round: Write this round alone; the expectation is as of its end.
        report: Receives progress messages.

    Raises:
        ConfigurationError: The table's raw folder contains files of another feed, so the expectation would be wrong.
    """
    expected.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(_THREADS) as pool:
        written = _raw_files(feed, raw, prefix, only_round, pool, report)
        if only_round in {None, 1}:
            _check_alone(feed, raw, prefix, {prefix + file.key for file in written.files})
        report("Writing the expected table")
        rows = _parts(feed.expected_table(), expected / TABLE_FOLDER, pool)
        versions = _parts(feed.expected_history(), expected / HISTORY_FOLDER, pool) if feed.options.history else None
    (expected / TABLE_JSON).write_text(json.dumps(feed.attributes, indent=2) + "\n", encoding="utf-8")
    files = [
        {"round": file.round, "key": prefix + file.key, "rows": file.rows, "kind": file.kind.value}
        for file in written.files
    ]
    faults = [fault.to_json(prefix) for fault in feed.injected_faults if only_round in {None, fault.round}]
    manifest = {"table": str(feed.options.table), "seed": feed.options.seed, "files": files, "faults": faults}
    (expected / FEED_JSON).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    count = sum(file.kind is not FileKind.GONE for file in written.files)
    return FeedReport(count, sum(file.rows for file in written.files), written.bytes, rows, versions, tuple(faults))


class _WrittenFiles(NamedTuple):
    files: list[FeedFile]
    bytes: int


def _raw_files(
    feed: Feed, raw: ObjectStore, prefix: str, only_round: int | None, pool: ThreadPoolExecutor, report: Report
) -> _WrittenFiles:
    """Write the raw files, round by round."""
    written: list[FeedFile] = []
    size_bytes = 0
    for number, files in groupby(feed.files(only_round), key=lambda file: file.round):
        if only_round not in {None, number}:
            deque(files, maxlen=0)  # generating the files updates the expectation
            continue

        def writes(of_round: Iterator[FeedFile] = files, number: int = number) -> Iterator[Callable[[], int]]:
            for file in of_round:
                written.append(file._replace(content=None))  # `content` would keep the file's rows in memory
                report(f"Round {number}: {file.key}")
                yield partial(_put, raw, prefix, file)

        size_bytes += sum(_in_pool(pool, writes()))
    return _WrittenFiles(written, size_bytes)


def _check_alone(feed: Feed, raw: ObjectStore, prefix: str, ours: set[str]) -> None:
    folder = prefix + table_folder(feed.options.settings, feed.options.table)
    other = next((stored.key for stored in raw.list(folder) if stored.key not in ours), None)
    if other:
        message = "The table's raw folder contains a file of another feed or of a later round"
        remedy = "Delete the folder and generate the feed again, or choose another destination or --table"
        raise ConfigurationError(message, remedy=remedy, file=other)


def _put(raw: ObjectStore, prefix: str, file: FeedFile) -> int:
    """Write or delete an object; returns its size."""
    if file.content is None:
        raw.delete([prefix + file.key])
        return 0
    data = file.content()
    raw.put(prefix + file.key, data)
    return len(data)


def _parts(tables: Iterator[pa.Table], folder: Path, pool: ThreadPoolExecutor) -> int:
    """Write tables as the Parquet files of a folder, replacing earlier ones; returns the number of rows."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob("part-*.parquet"):
        old.unlink()

    writes = (partial(_write_part, table, folder / f"part-{n:05d}.parquet") for n, table in enumerate(tables))
    return sum(_in_pool(pool, writes))


def _write_part(table: pa.Table, path: Path) -> int:
    pq.write_table(table, path)
    rows: int = table.num_rows
    return rows


def _in_pool(pool: ThreadPoolExecutor, jobs: Iterator[Callable[[], int]]) -> Iterator[int]:
    """Results of the jobs, in order; at most `_MAX_PENDING` jobs are submitted ahead."""
    pending: deque[Future[int]] = deque()
    for job in jobs:
        if len(pending) == _MAX_PENDING:
            yield pending.popleft().result()
        pending.append(pool.submit(job))
    while pending:
        yield pending.popleft().result()
