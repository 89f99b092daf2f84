"""Measures what a change costs besides its rows, where readers open an Iceberg table.

`PYTHONPATH=glue_jobs .venv-bench/bin/python -m benchmarks.metadata` prints both parts:

* The commit of a change of 100 files of a table with 10,000 and 100,000: manifests, snapshot, change record and
  publishing, on a folder. Data files do not exist, except for one, whose footer all new files have.
* The requests to S3 of publishing a change of 1,000 files, until its readers see it and in all.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bench import ROOT, product_digest
from benchmarks.data import cached_folder
from benchmarks.s3_server import s3_server
from cdclake.adapters import aws
from cdclake.adapters.filesystem import lake_filesystem
from cdclake.adapters.s3 import S3Store
from cdclake.adapters.stores import open_store
from cdclake.commit.log import ChangeLog
from cdclake.commit.publish import publish
from cdclake.concurrency import in_parallel
from cdclake.lake.storage.iceberg_manifests import ManifestWriting
from cdclake.model.change.books import Books
from cdclake.model.change.record import ChangeKind, ChangeRecord, StagedFile
from cdclake.model.iceberg.field_ids import FieldIds
from cdclake.model.iceberg.table import IcebergFiles, Readers
from cdclake.model.layout import LakeLayout
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.schema import OP_COLUMN, Column, Schema
from cdclake.model.snapshot import DataFile, Snapshot
from cdclake.model.table.name import TableName

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mypy_boto3_s3.client import S3Client

    from benchmarks.s3_server import S3Request

TABLE_FILES = (10_000, 100_000)
CHANGED_FILES = 100
PUBLISHED_FILES = 1_000
TOGETHER, SPREAD = "together", "spread"
_ROWS = 100
_FOOTER = "footer.parquet"
_LAYOUT = LakeLayout("lake", "", TableName("bench", "orders"))
_VALUES = {
    "bigint": pa.scalar(1 << 40, pa.int64()),
    "string": pa.scalar("about as long as an address", pa.string()),
    "int": pa.scalar(5, pa.int32()),
    "timestamp": pa.scalar(datetime(2024, 3, 5, tzinfo=timezone.utc), pa.timestamp("us", "UTC")),
    "double": pa.scalar(1.5, pa.float64()),
}
_SCHEMA = Schema(tuple(Column(f"c{i}", [*_VALUES][i % len(_VALUES)]) for i in range(30)))
"""30 columns; the first is the key."""
_IN_FILES = (*_SCHEMA, Column(OP_COLUMN, "string"), Column(POSITION, "string"))
_FIELD_IDS = FieldIds({column.name.lower(): i for i, column in enumerate(_IN_FILES, 1)}, len(_IN_FILES))


class Commit(NamedTuple):
    """Commits of changes of the same kind.

    Attributes:
        table_files: Number of live files.
        where: Whether the changed files are together or spread over the table.
        seconds: Of each commit.
        median_s: Their median.
        median_cpu_s: Median of the CPU time.
        manifests_s: Median of the time for manifests.
    """

    table_files: int
    where: str
    seconds: list[float]
    median_s: float
    median_cpu_s: float
    manifests_s: float


class Publishing(NamedTuple):
    """Requests to S3 after a commit.

    Attributes:
        readers: The table's setting `Readers`.
        files: Number of new files, and of replaced ones.
        until_visible: Until readers of the Iceberg table see the change; None for `folder`, whose files appear and
            disappear one by one.
        requests: In all.
    """

    readers: str
    files: int
    until_visible: int | None
    requests: int


def measure(cache: Path, rounds: int, table_files: Sequence[int] = TABLE_FILES) -> dict[str, Any]:
    """Measure both parts; returns JSON."""
    commits = [_commits(cache, number, where, rounds) for number in table_files for where in (TOGETHER, SPREAD)]
    with TemporaryDirectory() as folder:
        publishing = _publishing(Path(folder))
    return {"commits": [one._asdict() for one in commits], "publishing": [one._asdict() for one in publishing]}


@dataclass(frozen=True)
class _Table:
    """A table in a folder."""

    root: Path

    @property
    def log(self) -> ChangeLog:
        return ChangeLog(open_store(self.root.as_uri()), _LAYOUT)

    def create(self, files: int) -> None:
        """Commit a full load of files with ascending keys."""
        pq.write_table(_one_file(), self.root / _FOOTER)
        empty = Snapshot(schema=_SCHEMA, primary_key=("c0",), field_ids=_FIELD_IDS)
        self.commit(empty, replace(empty, change=1, files=tuple(self.file(1, number) for number in range(files))))

    def file(self, change: int, number: int) -> DataFile:
        path = _LAYOUT.data_path_of(f"{_LAYOUT.iceberg_data_prefix(change, 'bench')}part-{number:06d}.parquet")
        first = number * _ROWS
        return DataFile(path, _ROWS, self._bytes, key_min=first, key_max=first + _ROWS - 1, has_field_ids=True)

    @property
    def _bytes(self) -> int:
        return (self.root / _FOOTER).stat().st_size

    def change(self, before: Snapshot, numbers: set[int]) -> Snapshot:
        """The table after a change that replaces files, given their numbers by key."""
        change = before.change + 1
        by_key = enumerate(sorted(before.files, key=lambda file: cast("int", file.key_min)))
        files = tuple(self.file(change, number) if number in numbers else file for number, file in by_key)
        return replace(before, change=change, files=files, iceberg=None)

    def commit(self, before: Snapshot, after: Snapshot) -> float:
        """Commit and publish a change; returns the seconds for manifests."""
        known = {file.path for file in before.files}
        added = [file.path for file in after.files if file.path not in known]
        started = time.perf_counter()
        log = self.log
        sources = dict.fromkeys(added, _FOOTER)
        fs = lake_filesystem(self.root.as_uri()).open()
        writing = ManifestWriting(log.store, fs, _LAYOUT, "bench", sources, in_folder=False)
        after = writing.snapshot_with_manifests(before, after)
        manifests_s = time.perf_counter() - started
        record = _record(log, before, after, tuple(StagedFile(_LAYOUT.data_key(path), path) for path in added))
        log.commit(record)
        publish(log, record, snapshot=after)
        return manifests_s


def _commits(cache: Path, table_files: int, where: str, rounds: int) -> Commit:
    """Measure commits of consecutive changes. The table has always the same path, because manifests contain it."""
    root = cache / "work" / "metadata"
    shutil.rmtree(root, ignore_errors=True)

    def create(folder: Path) -> None:
        root.mkdir(parents=True)
        _Table(root).create(table_files)
        shutil.copytree(root, folder, dirs_exist_ok=True)

    built = cached_folder(cache / f"metadata-{product_digest()}" / str(table_files), create)
    shutil.copytree(built, root, dirs_exist_ok=True)
    table, measured = _Table(root), []
    before = table.log.snapshot(1)
    chance = random.Random(table_files)
    for _ in range(rounds):
        start = chance.randrange(table_files - CHANGED_FILES)
        numbers = range(start, start + CHANGED_FILES)
        after = table.change(before, set(numbers if where == TOGETHER else chance.sample(range(table_files), 100)))
        started, cpu_started = time.perf_counter(), time.process_time()
        manifests_s = table.commit(before, after)
        measured.append((time.perf_counter() - started, time.process_time() - cpu_started, manifests_s))
        before = table.log.snapshot(after.change)
    shutil.rmtree(root)
    seconds, cpu_s, manifests = zip(*measured, strict=True)
    rounded = [round(one, 3) for one in seconds]
    return Commit(table_files, where, rounded, *(round(median(one), 3) for one in (seconds, cpu_s, manifests)))


def _publishing(folder: Path) -> list[Publishing]:
    """Publish a change that replaces all files of a table, on a real S3 server, for each kind of readers."""
    with ExitStack() as stack:
        server = stack.enter_context(s3_server(folder / "s3", folder / "s3.log", 0))
        stack.enter_context(patch.dict(os.environ, server.environment))
        client = stack.enter_context(closing(aws.client("s3")))
        return [_requests(client, readers, server.requests) for readers in Readers]


def _requests(client: S3Client, readers: Readers, requests: list[S3Request]) -> Publishing:
    bucket = f"bench-{readers.value}"
    client.create_bucket(Bucket=bucket)
    log = ChangeLog(S3Store(client, bucket), replace(_LAYOUT, bucket=bucket))
    before, _ = _publish(log, readers, Snapshot(), requests)
    _, own = _publish(log, readers, before, requests)
    puts = [number for number, one in enumerate(own, 1) if one.method == "PUT"]
    hint = [number for number in puts if _LAYOUT.version_hint_key in own[number - 1].path]
    return Publishing(readers.value, PUBLISHED_FILES, hint[0] if hint else None, len(own))


def _publish(
    log: ChangeLog, readers: Readers, before: Snapshot, requests: list[S3Request]
) -> tuple[Snapshot, list[S3Request]]:
    """Commit and publish a change; returns the table after it, and the requests since the commit."""
    change = before.change + 1
    staged = _LAYOUT.staging_prefix(change, "bench")
    if not readers.list_folder:
        staged = _LAYOUT.iceberg_data_prefix(change, "bench")
    keys = [f"{staged}part-{number:05d}.parquet" for number in range(PUBLISHED_FILES)]
    paths = [_LAYOUT.data_path_of(key) for key in keys]
    if readers.list_folder:
        paths = [_LAYOUT.data_path(change, number, (), ()) for number in range(PUBLISHED_FILES)]
    in_parallel(lambda key: log.store.put(key, b""), keys, log.store.calls_at_once)
    files = tuple(DataFile(path, 0, 0, has_field_ids=True) for path in paths)
    listed = IcebergFiles(f"{_LAYOUT.manifest_prefix(change, 'bench')}.avro", (), 1, 1, readers.list_folder, "")
    after = replace(
        before,
        change=change,
        schema=_SCHEMA,
        field_ids=_FIELD_IDS,
        files=files,
        iceberg=listed if readers.open_iceberg else None,
    )
    record = _record(log, before, after, tuple(map(StagedFile, keys, paths)))
    log.commit(record)
    del requests[:]
    publish(log, record, snapshot=after)
    return after, list(requests)


def _record(log: ChangeLog, before: Snapshot, after: Snapshot, added: tuple[StagedFile, ...]) -> ChangeRecord:
    """A change that is not committed yet; its snapshot is stored."""
    remaining = {file.path for file in after.files}
    return ChangeRecord(
        change=after.change,
        kind=ChangeKind.INCREMENTAL,
        created_utc=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        run_id="bench",
        fencing_token=1,
        books=Books(rows_before=before.rows, replaced=before.rows, restored=after.rows, rows_after=after.rows),
        added=added,
        retired=tuple(file.path for file in before.files if file.path not in remaining),
        snapshot_key=log.write_snapshot(after, "bench"),
    ).with_iceberg(before, after)


def _one_file() -> pa.Table:
    """The content of every data file: its footer has statistics of each column."""
    fields = [
        pa.field(column.name, _VALUES[column.type].type, metadata={"PARQUET:field_id": str(number)})
        for number, column in enumerate(_IN_FILES, 1)
    ]
    columns = [pa.repeat(_VALUES[column.type], _ROWS) for column in _IN_FILES]
    return pa.table(columns, schema=pa.schema(fields))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="*", default=TABLE_FILES, help="files of the tables")
    parser.add_argument("--rounds", type=int, default=3, help="commits of each kind (default: %(default)s)")
    parser.add_argument("--cache", type=Path, default=ROOT / ".bench", help="folder for the tables (default: .bench)")
    options = parser.parse_args()
    print(table(measure(options.cache.resolve(), options.rounds, options.files)))


def table(content: Mapping[str, Any]) -> str:
    """The measurements as text."""
    commits = (
        f"among {one['table_files']:>13,}  {one['where']:<8}  {one['median_s']:>7.2f}  {one['median_cpu_s']:>11.2f}"
        f"  {one['manifests_s']:>9.2f}"
        for one in content["commits"]
    )
    publishing = (
        f"{one['readers']:<22}  {one['until_visible'] or '-':>13}  {one['requests']:>15,}"
        for one in content["publishing"]
    )
    lines = (
        f"\ncommit of {CHANGED_FILES} files  where     seconds  CPU seconds  manifests",
        *commits,
        f"\npublishing {PUBLISHED_FILES:,} files  until visible  requests in all",
        *publishing,
    )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
