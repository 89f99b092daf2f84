"""A reader lists and reads a table while changes are published."""

from __future__ import annotations

from io import BytesIO
from threading import Event, Thread
from time import sleep
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdclake.errors import CommitConflictError
from tests.builders import LAYOUT, LakeBuilder

if TYPE_CHECKING:
    from cdclake.adapters.memory import ManualClock
    from cdclake.ports import ObjectStore

FILES, ROWS_PER_FILE, CHANGES = 6, 10, 3


def parquet_file(key: str) -> bytes:
    """Ten rows, with enough bytes to notice a torn file."""
    sink = BytesIO()
    pq.write_table(pa.table({"id": range(ROWS_PER_FILE), "text": [key * 50] * ROWS_PER_FILE}), sink)
    return sink.getvalue()


class Reader(Thread):
    """Repeatedly lists the table's folder and reads every file in it.

    Attributes:
        views: Number of rows of each listing whose files could all be read.
        errors: Files that could not be read.
    """

    def __init__(self, store: ObjectStore) -> None:
        super().__init__()
        self._store = store
        self._stopped = Event()
        self.views: list[int] = []
        self.errors: list[str] = []

    def run(self) -> None:
        while not self._stopped.is_set():
            rows = [self._rows(entry.key) for entry in self._store.list(LAYOUT.table_prefix)]
            if None not in rows:
                self.views.append(sum(count or 0 for count in rows))

    def _rows(self, key: str) -> int | None:
        data = self._store.get(key)
        if data is None:
            return None  # retired after it was listed
        try:
            return int(pq.read_table(BytesIO(data)).num_rows)
        except pa.ArrowInvalid as error:
            self.errors.append(f"{key}: {error}")
            return 0

    def wait_for_a_view(self) -> None:
        """Wait until the reader has seen the table once more: other threads may leave it little time."""
        seen = len(self.views)
        while len(self.views) == seen and self.is_alive():
            sleep(0.001)

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def test_a_reader_never_sees_a_half_written_file_nor_misses_a_row(store: ObjectStore, clock: ManualClock) -> None:
    lake = LakeBuilder(store, clock, content=parquet_file)
    lake.change(files=FILES)
    reader = Reader(store)
    reader.start()
    for _ in range(CHANGES):
        lake.change(files=FILES, retired=[file.path for file in lake.snapshot.files])
        lake.rollback()
        lake.reapply()
        reader.wait_for_a_view()
    reader.stop()
    assert reader.errors == []
    assert len(reader.views) > 1
    assert min(reader.views) >= FILES * ROWS_PER_FILE
    assert max(reader.views) <= 2 * FILES * ROWS_PER_FILE


def test_a_listed_file_never_changes(store: ObjectStore, clock: ManualClock) -> None:
    """Not after undone changes either, nor if another run had files for the number of a change."""
    lake = LakeBuilder(store, clock)
    contents: dict[str, set[bytes]] = {}

    def look() -> None:
        for path, content in lake.contents().items():
            contents.setdefault(path, set()).add(content)

    for _ in range(2):
        loser = lake.stage(files=2, run_id="loser")
        lake.change(files=2, retired=[file.path for file in lake.snapshot.files[:1]])
        with pytest.raises(CommitConflictError):
            lake.log.commit(loser)
        look()
        lake.rollback()
        look()
        lake.reapply()
        look()
        lake.rollback()
        lake.change(files=2)  # a new branch
        look()
    assert len(contents) == 8
    assert {len(one) for one in contents.values()} == {1}
