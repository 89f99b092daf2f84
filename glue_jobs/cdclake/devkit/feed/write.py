"""Writes a feed to where DMS would, and beside it what a table must hold after it."""

from __future__ import annotations

import json
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Callable, NamedTuple

import pyarrow.parquet as pq

from cdclake.devkit.dms.names import table_folder
from cdclake.devkit.feed.schedule import Kind
from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from cdclake.devkit.feed.schedule import FeedFile
    from cdclake.devkit.feed.stream import Feed
    from cdclake.ports import ObjectStore

    Progress = Callable[[str], None]

TABLE_JSON, FEED_JSON = "table.json", "feed.json"
TABLE_FOLDER, HISTORY_FOLDER = "table", "history"
_THREADS, _UNDER_WAY = 2, 3


@dataclass(frozen=True)
class FeedReport:
    """What was written.

    Attributes:
        files: Raw files, those that came again included.
        rows: Rows in them.
        bytes: Their size.
        expected_rows: Rows that the lake table must hold.
        expected_versions: Versions that its history must hold; None if it keeps none.
        faults: What is wrong on purpose, as in the list of files.
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
    say: Progress = lambda _: None,
) -> FeedReport:
    """Write a feed, or one round of it.

    Args:
        feed: A feed of which no file was taken yet.
        raw: Where DMS writes.
        prefix: Key prefix of all that it writes; empty, or with a trailing slash.
        expected: Folder for the expectation, made if it is not there: `table/` and `history/` as Parquet, the table's
            attributes, and a list of files and faults.
        only_round: Write this round alone; what is expected is as of its end.
        say: Is told how far it is.

    Raises:
        ConfigurationError: The table's raw folder holds files of another feed, so that nobody could say what comes of
            them together.
    """
    expected.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(_THREADS) as pool:
        came = _raw_files(feed, raw, prefix, only_round, pool, say)
        if only_round in {None, 1}:
            _check_alone(feed, raw, prefix, {prefix + one.key for one in came.files})
        say("Writing what must come of it")
        rows = _parts(feed.expected_table(), expected / TABLE_FOLDER, pool)
        versions = _parts(feed.expected_history(), expected / HISTORY_FOLDER, pool) if feed.options.history else None
    (expected / TABLE_JSON).write_text(json.dumps(feed.attributes, indent=2) + "\n", encoding="utf-8")
    files = [
        {"round": one.round, "key": prefix + one.key, "rows": one.rows, "kind": one.kind.value} for one in came.files
    ]
    faults = [one.to_json(prefix) for one in feed.planted if only_round in {None, one.round}]
    told = {"table": str(feed.options.table), "seed": feed.options.seed, "files": files, "faults": faults}
    (expected / FEED_JSON).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    count = sum(one.kind is not Kind.GONE for one in came.files)
    return FeedReport(count, sum(one.rows for one in came.files), came.bytes, rows, versions, tuple(faults))


class _Came(NamedTuple):
    files: list[FeedFile]
    bytes: int


def _raw_files(
    feed: Feed, raw: ObjectStore, prefix: str, only_round: int | None, pool: ThreadPoolExecutor, say: Progress
) -> _Came:
    """Write the raw files, those of a round before any of the next."""
    came: list[FeedFile] = []
    size_bytes = 0
    for number, files in groupby(feed.files(only_round), key=lambda file: file.round):
        if only_round not in {None, number}:
            deque(files, maxlen=0)  # only what comes of them counts
            continue

        def written(of_round: Iterator[FeedFile] = files, number: int = number) -> Iterator[Callable[[], int]]:
            for file in of_round:
                came.append(file._replace(content=None))  # which holds the file's rows
                say(f"Round {number}: {file.key}")
                yield partial(_put, raw, prefix, file)

        size_bytes += sum(_in_pool(pool, written()))
    return _Came(came, size_bytes)


def _check_alone(feed: Feed, raw: ObjectStore, prefix: str, ours: set[str]) -> None:
    folder = prefix + table_folder(feed.options.settings, feed.options.table)
    other = next((found.key for found in raw.list(folder) if found.key not in ours), None)
    if other:
        message = "The table's raw folder holds a file that is not of this feed, or of a later round of it"
        remedy = "Remove the folder and make the feed again, or choose another place or --table"
        raise ConfigurationError(message, remedy=remedy, file=other)


def _put(raw: ObjectStore, prefix: str, file: FeedFile) -> int:
    """Write or delete an object; its size."""
    if file.content is None:
        raw.delete([prefix + file.key])
        return 0
    data = file.content()
    raw.put(prefix + file.key, data)
    return len(data)


def _parts(tables: Iterator[pa.Table], folder: Path, pool: ThreadPoolExecutor) -> int:
    """Write tables as the files of a folder that holds no others of the kind; their rows."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob("part-*.parquet"):
        old.unlink()

    def written() -> Iterator[Callable[[], int]]:
        for number, table in enumerate(tables):
            yield partial(_write_part, table, folder / f"part-{number:05d}.parquet")

    return sum(_in_pool(pool, written()))


def _write_part(table: pa.Table, path: Path) -> int:
    pq.write_table(table, path)
    rows: int = table.num_rows
    return rows


def _in_pool(pool: ThreadPoolExecutor, works: Iterator[Callable[[], int]]) -> Iterator[int]:
    """What each piece of work gives, in order; a few are under way while the next ones are made."""
    under_way: deque[Future[int]] = deque()
    for work in works:
        if len(under_way) == _UNDER_WAY:
            yield under_way.popleft().result()
        under_way.append(pool.submit(work))
    while under_way:
        yield under_way.popleft().result()
