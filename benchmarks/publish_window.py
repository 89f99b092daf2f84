"""Measures how long old and new files of a change are both visible during publishing.

`.venv/bin/python benchmarks/publish_window.py` prints a line for each store and number of rewritten files. The stores
are a local folder, and a store that answers each request after 30 ms, as S3 does; there a copy takes one request, and a
retire takes two (a check and a delete).
"""

from __future__ import annotations

import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdclake.adapters.folder import FolderStore
from cdclake.adapters.memory import MemoryStore
from cdclake.commit.log import ChangeLog
from cdclake.commit.publish import publish
from cdclake.concurrency import CALLS_AT_ONCE
from cdclake.model.change import Books, ChangeKind, ChangeRecord, StagedFile
from cdclake.model.layout import LakeLayout
from cdclake.model.table import TableName

if TYPE_CHECKING:
    from collections.abc import Callable

    from cdclake.ports import ObjectStore

FILE_COUNTS = (1, 8, 64, 512)
FILE_BYTES = 1 << 20
REQUEST_SECONDS = 0.03
REQUESTS = {"copy": 1, "retire": 2}


class TimedStore:
    """A store that records the time of every copy and retire."""

    def __init__(self, store: ObjectStore, request_seconds: float) -> None:
        self._store, self._request_seconds = store, request_seconds
        self.calls_at_once = CALLS_AT_ONCE if request_seconds else store.calls_at_once
        self.times: list[float] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - forwards
            time.sleep(self._request_seconds * REQUESTS.get(name, 1))
            result = getattr(self._store, name)(*args, **kwargs)
            if name in REQUESTS:
                self.times.append(time.perf_counter())
            return result

        return call


def window_seconds(store: ObjectStore, files: int, request_seconds: float) -> float:
    """Publish a change that replaces files of 1 MiB; returns the seconds from the first copy to the last retire."""
    layout = LakeLayout("lake", "", TableName("shop", "orders"))
    old = [layout.data_path(1, i, (), ()) for i in range(files)]
    staged = [f"{layout.staging_prefix(2, 'run')}{i}.parquet" for i in range(files)]
    for key in (*map(layout.data_key, old), *staged):
        store.put(key, b"x" * FILE_BYTES)
    record = ChangeRecord(
        change=2,
        kind=ChangeKind.INCREMENTAL,
        created_utc=datetime.now(timezone.utc).isoformat(),
        run_id="run",
        fencing_token=1,
        raw_files=(),
        books=Books(),
        added=tuple(StagedFile(key, layout.data_path(2, i, (), ())) for i, key in enumerate(staged)),
        retired=tuple(old),
        snapshot_key="",
    )
    timed = TimedStore(store, request_seconds)
    publish(ChangeLog(timed, layout), record)
    return max(timed.times) - min(timed.times)


def main() -> None:
    """Measure and print a table."""
    print(f"{'store':<24}{'files rewritten':>16}{'window in s':>14}")
    for files in FILE_COUNTS:
        with tempfile.TemporaryDirectory() as folder:
            print(f"{'folder':<24}{files:>16}{window_seconds(FolderStore(Path(folder)), files, 0):>14.3f}")
        sys.stdout.flush()
        print(f"{'30 ms per request':<24}{files:>16}{window_seconds(MemoryStore(), files, REQUEST_SECONDS):>14.3f}")


if __name__ == "__main__":
    main()
