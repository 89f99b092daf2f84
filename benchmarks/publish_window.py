"""How long old and new files of one change are both visible, while it is published.

`.venv/bin/python benchmarks/publish_window.py` prints a line for each store and number of rewritten files:
a plain folder on this disk, and a store that answers each request after 30 ms, as S3 does, where a copy is one request
and a retire two (a look and a delete).
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


class Watched:
    """A store that notes when the first copy and the last retire were done."""

    def __init__(self, store: ObjectStore, request_seconds: float) -> None:
        self._store, self._request_seconds = store, request_seconds
        self.moments: list[float] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - passes on
            time.sleep(self._request_seconds * REQUESTS.get(name, 1))
            answer = getattr(self._store, name)(*given, **named)
            if name in REQUESTS:
                self.moments.append(time.perf_counter())
            return answer

        return call


def window_seconds(store: ObjectStore, files: int, request_seconds: float) -> float:
    """Publish a change that replaces so many files of 1 MiB; seconds from the first new one to the last old one."""
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
    watched = Watched(store, request_seconds)
    publish(ChangeLog(watched, layout), record)
    return max(watched.moments) - min(watched.moments)


def main() -> None:
    """Measure, and print a table."""
    print(f"{'store':<24}{'files rewritten':>16}{'window in s':>14}")
    for files in FILE_COUNTS:
        with tempfile.TemporaryDirectory() as folder:
            print(f"{'folder':<24}{files:>16}{window_seconds(FolderStore(Path(folder)), files, 0):>14.3f}")
        sys.stdout.flush()
        print(f"{'30 ms a request':<24}{files:>16}{window_seconds(MemoryStore(), files, REQUEST_SECONDS):>14.3f}")


if __name__ == "__main__":
    main()
