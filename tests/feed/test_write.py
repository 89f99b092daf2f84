"""A feed is written as it is made: what is held does not grow with it."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pyarrow as pa

from cdclake.adapters.memory import MemoryStore
from cdclake.feed.options import FeedOptions
from cdclake.feed.stream import Feed
from cdclake.feed.write import write_feed

if TYPE_CHECKING:
    from pathlib import Path


class Watched(MemoryStore):
    """Looks how much Arrow holds whenever a file is written."""

    def __init__(self) -> None:
        super().__init__(lambda: datetime(2024, 3, 5, tzinfo=timezone.utc))
        self.held_bytes: list[int] = []

    def put(self, key: str, data: bytes) -> None:
        self.held_bytes.append(pa.total_allocated_bytes())
        super().put(key, data)


def test_rows_are_let_go_once_they_are_written(tmp_path: Path) -> None:
    raw, options = Watched(), FeedOptions(rows=60_000, load_files=30, changes=60_000, change_files=30)
    before = pa.total_allocated_bytes()
    report = write_feed(Feed(options), raw, "", tmp_path)
    assert report.files == len(raw.held_bytes) == 60
    rows_bytes = 250 * 2_000  # of a file, in memory
    assert max(raw.held_bytes) - before < 10 * rows_bytes
