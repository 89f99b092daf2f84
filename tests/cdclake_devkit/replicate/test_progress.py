"""The saved progress of a replication."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from cdclake.errors import IntegrityError
from cdclake.model.raw.files import is_data_folder
from cdclake_cli.sources.positions import BinlogPosition
from cdclake_devkit.memory import MemoryStore
from cdclake_devkit.replicate.progress import ProgressFile, ReplicationProgress

NOON = datetime(2024, 3, 5, 12, 0, 0, 1000, tzinfo=timezone.utc)
PROGRESS = ReplicationProgress(BinlogPosition("binlog.000007", 1234), 42, NOON, NOON, "here")


@pytest.mark.parametrize("progress", [PROGRESS, ReplicationProgress(None)])
def test_written_progress_is_read_back(progress: ReplicationProgress):
    store = MemoryStore()
    assert ProgressFile(store, "raw/", "shop").read() is None
    ProgressFile(store, "raw/", "shop").write(progress)
    assert ProgressFile(store, "raw/", "shop").read() == progress
    assert ProgressFile(store, "raw/", "other").read() is None


def test_the_progress_file_is_not_in_a_data_folder():
    file = ProgressFile(MemoryStore(), "raw/", "shop")
    folder = file.key.removeprefix("raw/").partition("/")[0]
    assert not is_data_folder(f"{folder}/")


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"binlog": {"file": "a"}}'])
def test_malformed_progress_is_an_error_and_starts_no_full_load(content: bytes):
    store = MemoryStore()
    file = ProgressFile(store, "", "shop")
    store.put(file.key, content)
    with pytest.raises(IntegrityError, match="saved position cannot be read"):
        file.read()


def test_positions_are_ordered_across_files():
    pairs = [("binlog.000001", 900), ("binlog.000002", 4), ("binlog.999999", 4), ("binlog.1000000", 4)]
    positions = [BinlogPosition(*pair) for pair in pairs]
    for earlier, later in zip(positions, positions[1:], strict=False):
        assert earlier.is_before(later)
        assert not later.is_before(earlier)
        assert not later.is_before(later)
