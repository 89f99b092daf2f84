"""Writing a feed takes constant memory, and never mixes two feeds in one folder."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from cdclake.errors import ConfigurationError
from cdclake.model.table.name import TableName
from cdclake_cli.main import assembled
from cdclake_devkit.feed.feed import Feed
from cdclake_devkit.feed.options import FeedOptions
from cdclake_devkit.feed.write import write_feed
from cdclake_devkit.memory import MemoryStore


class MeasuringStore(MemoryStore):
    """Records Arrow's memory whenever a file is written."""

    def __init__(self) -> None:
        super().__init__(lambda: datetime(2024, 3, 5, tzinfo=timezone.utc))
        self.held_bytes: list[int] = []

    def put(self, key: str, data: bytes) -> None:
        self.held_bytes.append(pa.total_allocated_bytes())
        super().put(key, data)


@pytest.mark.slow
def test_memory_is_released_after_each_write(tmp_path: Path) -> None:
    raw, options = MeasuringStore(), FeedOptions(rows=60_000, load_files=30, changes=60_000, change_files=30)
    before = pa.total_allocated_bytes()
    assert write_feed(Feed(options), raw, "", tmp_path).files == len(raw.held_bytes) == 60
    rows_bytes = 250 * 2_000  # of a file, in memory
    assert max(raw.held_bytes) - before < 10 * rows_bytes


def test_a_folder_with_files_of_another_feed_is_refused(tmp_path: Path) -> None:
    raw, options = MemoryStore(), FeedOptions(rows=10, changes=20, change_files=4, rounds=2)
    for only_round in (1, 2):
        write_feed(Feed(options), raw, "dms/", tmp_path, only_round)
    write_feed(Feed(options), raw, "dms/", tmp_path)  # writing the same feed again is allowed
    fewer = replace(options, change_files=2)
    with pytest.raises(ConfigurationError, match="a file of another feed") as caught:
        write_feed(Feed(fewer), raw, "dms/", tmp_path)
    assert str(caught.value.details["file"]).startswith("dms/shop/orders/20240305-")
    write_feed(Feed(replace(fewer, table=TableName("shop", "orders2"))), raw, "dms/", tmp_path)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--partition-key", "colour"), "'colour' is not a column"),
        (("--columns", "id bigint, op int"), "a column op, and a setting adds another"),
        (("--columns", "id bigint, TS int", "--set", "TimestampColumnName=ts"), "a column TS, and a setting"),
        (("--columns", "id bigint, BI_id int", "--set", "BeforeImages=all"), "a column BI_id, and a setting"),
        (("--table", "shop/a/b"), "'shop/a/b' is not a table name"),
        (("--table", "shop/.."), "'..' cannot be the name of a folder"),
        (("--schema", "bytes"), "cannot be read as text"),
        (("--expected", "bytes/below"), "cannot be used: Not a directory"),
    ],
)
def test_invalid_options_are_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bytes").write_bytes(b"\xff\xfe")
    size = ("--rows", "5", "--changes", "5", "--files", "1")
    done = CliRunner().invoke(assembled(), ("local", "feed", "raw", *size, *arguments))
    assert done.exit_code == ConfigurationError.exit_code
    assert why in done.output
    assert not list(Path().rglob("*.parquet"))
