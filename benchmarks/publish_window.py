"""Measures how long old and new files of a change are both visible during publishing.

`.venv/bin/python -m benchmarks.publish_window` prints a line for each store and number of rewritten files. The stores
are a local folder, and a versioned bucket that answers each request after 30 ms, whatever it asks for.
"""

from __future__ import annotations

import sys
import tempfile
import time
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from cdclake.adapters.folder import FolderStore
from cdclake.adapters.s3 import S3Store
from cdclake.commit.log import ChangeLog
from cdclake.commit.publish import publish
from cdclake.model.change.books import Books
from cdclake.model.change.record import ChangeKind, ChangeRecord, StagedFile
from cdclake.model.layout import LakeLayout
from cdclake.model.table.name import TableName
from cdclake_devkit.versioned_bucket import VersionedBucket

if TYPE_CHECKING:
    from collections.abc import Callable

    from cdclake.ports import ObjectStore

FILE_COUNTS = (1, 8, 64, 512)
FILE_BYTES = 1 << 20
REQUEST_SECONDS = 0.03


class TimedStore:
    """A store that records the time of every copy and retirement."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.calls_at_once = store.calls_at_once
        self.times: list[float] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(self._store, name)
        if name == "copy":
            return partial(self._timed, found)
        if name == "begin_retiring":
            return lambda files: [partial(self._timed, move) for move in found(files)]
        return found

    def _timed(self, call: Callable[..., Any], *args: Any) -> None:  # noqa: ANN401 - forwards
        call(*args)
        self.times.append(time.perf_counter())


class SlowBucket:
    """A versioned bucket in memory, behind a slow network."""

    def __init__(self) -> None:
        self._bucket = VersionedBucket()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        time.sleep(REQUEST_SECONDS)
        found: Callable[..., Any] = getattr(self._bucket, name)
        return found


def window_seconds(store: ObjectStore, files: int, content: bytes) -> float:
    """Publish a change that replaces files; returns the seconds from the first copy to the last retirement."""
    layout = LakeLayout("lake", "", TableName("shop", "orders"))
    old = [layout.data_path(1, i, (), ()) for i in range(files)]
    staged = [f"{layout.staging_prefix(2, 'run')}{i}.parquet" for i in range(files)]
    for key in (*map(layout.data_key, old), *staged):
        store.put(key, content)
    record = ChangeRecord(
        change=2,
        kind=ChangeKind.INCREMENTAL,
        created_utc=datetime.now(timezone.utc).isoformat(),
        run_id="run",
        fencing_token=1,
        books=Books(),
        added=tuple(StagedFile(key, layout.data_path(2, i, (), ())) for i, key in enumerate(staged)),
        retired=tuple(old),
        snapshot_key="",
    )
    timed = TimedStore(store)
    publish(ChangeLog(cast("ObjectStore", timed), layout), record)
    return max(timed.times) - min(timed.times)


def main() -> None:
    """Measure and print a table."""
    print(f"{'store':<24}{'files rewritten':>16}{'window in s':>14}")
    for files in FILE_COUNTS:
        with tempfile.TemporaryDirectory() as folder:
            print(
                f"{'folder':<24}{files:>16}{window_seconds(FolderStore(Path(folder)), files, b'x' * FILE_BYTES):>14.3f}"
            )
        sys.stdout.flush()
        bucket = S3Store(cast("Any", SlowBucket()), "lake")
        print(f"{'30 ms per request':<24}{files:>16}{window_seconds(bucket, files, b''):>14.3f}")


if __name__ == "__main__":
    main()
