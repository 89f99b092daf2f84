"""`cdclake export` copies the files of any retained state, from a folder or a bucket."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from cdclake.adapters import aws as aws_clients
from cdclake.lake.operations.export import export_table
from cdclake.model.retained import Retained
from tests.cdclake.lake.over_time import TABLE, TableOverTime, digest, versioned_bucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

COLUMNS = pa.schema([("id", pa.int64()), ("city", pa.string()), ("n", pa.int32())])
ITEM = {"PrimaryKey": "id", "PartitionKey": "city"}
CITIES = ("a/b", "100%", "né ü", None)


def fill(table: TableOverTime) -> dict[int, dict[str, str]]:
    """Make three changes; returns the hashes of the visible files after each, by number."""
    rows: list[dict[str, Any]] = [{"id": i, "city": city, "n": i} for i, city in enumerate(CITIES)]
    table.load(rows)
    found = {1: table.hashes()}
    table.apply(("U", {"id": 0, "city": "a/b", "n": 7}), ("D", rows[1]))
    found[2] = table.hashes()
    table.apply(("U", {"id": 0, "city": "Ulm", "n": 8}))
    return {**found, 3: table.hashes()}


def hashes(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): digest(path.read_bytes()) for path in files}


@pytest.fixture
def table(tmp_path: Path) -> TableOverTime:
    return TableOverTime(tmp_path / "source", COLUMNS, ITEM)


@pytest.fixture
def export(cdclake: Any, table: TableOverTime) -> Callable[..., Any]:
    """The command, for this table."""
    return lambda *arguments: cdclake("export", TABLE, "--lake-bucket", table.location, *arguments)


@pytest.fixture
def refused(cdclake: Any, table: TableOverTime) -> Callable[..., str]:
    """The message of the command, which refuses this table."""
    return lambda *arguments: cdclake.refused("export", TABLE, "--lake-bucket", table.location, *arguments)


def test_each_of_several_tables_gets_its_folder_and_an_error_stops_no_other(
    table: TableOverTime, export: Callable[..., Any], tmp_path: Path
) -> None:
    fill(table)
    result = export("shop.none", "--to", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert "1 of 2 tables failed: shop.none" in result.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["shop"]
    assert list((tmp_path / "out" / "shop" / "orders").rglob("*.parquet"))


def test_each_state_is_exported_byte_for_byte(table: TableOverTime, export: Callable[..., Any], tmp_path: Path) -> None:
    then = fill(table)
    now = table.hashes()
    for change in (1, 2, 3):
        result = export("--as-of", str(change), "--to", str(tmp_path / f"{change}"), "--output", "json")
        assert result.exit_code == 0, result.output
        assert hashes(tmp_path / f"{change}") == then[change]
        answer = json.loads(result.stdout)
        assert (answer["table"], answer["change"], answer["files"]) == (TABLE, change, len(then[change]))
        assert answer["rows"] == table.log.snapshot(change).rows
        assert answer["bytes"] == sum(path.stat().st_size for path in (tmp_path / f"{change}").rglob("*.parquet"))
    assert table.hashes() == now
    assert sorted(ds.dataset(tmp_path / "1", partitioning="hive").to_table()["n"].to_pylist()) == [0, 1, 2, 3]


def test_a_time_or_the_default_names_a_state(table: TableOverTime, export: Callable[..., Any], tmp_path: Path) -> None:
    then = fill(table)
    assert export("--as-of", "2024-03-05T12:30:00Z", "--to", str(tmp_path / "at")).exit_code == 0
    assert hashes(tmp_path / "at") == then[2]
    assert "shop.orders" in export("--to", str(tmp_path / "now")).stdout
    assert hashes(tmp_path / "now") == then[3]


def test_only_an_empty_folder_is_written_to(
    table: TableOverTime, export: Callable[..., Any], refused: Callable[..., str], tmp_path: Path
) -> None:
    then = fill(table)
    target = tmp_path / "out"
    target.mkdir()
    assert export("--as-of", "1", "--to", str(target)).exit_code == 0
    assert "not empty" in refused("--as-of", "2", "--to", str(target))
    assert hashes(target) == then[1]


def test_an_export_that_fails_leaves_nothing(table: TableOverTime, refused: Callable[..., str], tmp_path: Path) -> None:
    fill(table)
    next((table.lake / table.layout.control_prefix / "retired").rglob("000000000001-*")).unlink()
    (tmp_path / "place").mkdir()
    assert "no longer exists" in refused("--as-of", "1", "--to", str(tmp_path / "place" / "out"))
    assert list((tmp_path / "place").iterdir()) == []


@pytest.mark.parametrize("inside", ["shop/orders/copy", "_cdclake/copy", "shop/orders"])
def test_the_lakes_own_folders_are_refused(table: TableOverTime, refused: Callable[..., str], inside: str) -> None:
    fill(table)
    before = table.hashes()
    assert "Export to a" in refused("--as-of", "1", "--to", str(table.lake / inside))
    assert table.hashes() == before


@pytest.mark.parametrize(
    ("as_of", "words"),
    [
        ("0", "no change 0"),
        ("4", "no change 4"),
        ("soon", "not a time"),
        ("2024-03-05", "no changes yet"),
        ("1", "retained"),
    ],
)
def test_an_unavailable_state_is_a_clear_error(
    table: TableOverTime, refused: Callable[..., str], tmp_path: Path, as_of: str, words: str
) -> None:
    fill(table)
    table.log.mark_retained(Retained(1))
    assert words in refused("--as-of", as_of, "--to", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_progress_reaches_the_last_file(table: TableOverTime, tmp_path: Path) -> None:
    fill(table)
    seen: list[tuple[int, int]] = []
    export_table(
        table.location, TABLE, str(tmp_path / "out"), change=1, progress=lambda done, count: seen.append((done, count))
    )
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.fixture
def lake_bucket(monkeypatch: pytest.MonkeyPatch, cdclake: object) -> Iterator[str]:
    """A versioned bucket and another one, in an embedded AWS that the environment names."""
    with versioned_bucket(monkeypatch, "lake", "elsewhere"):
        yield "lake"


def test_a_retired_state_is_exported_from_a_versioned_bucket_byte_for_byte(
    cdclake: Any, tmp_path: Path, lake_bucket: str
) -> None:
    table = TableOverTime(tmp_path / "source", COLUMNS, ITEM, bucket=lake_bucket)
    then = fill(table)
    arguments = ("export", TABLE, "--as-of", "1", "--lake-bucket", lake_bucket, "--to")
    cdclake.ok(*arguments, str(tmp_path / "out"))
    assert hashes(tmp_path / "out") == then[1]

    cdclake.ok(*arguments, "s3://elsewhere/orders as of/1")
    client = aws_clients.client("s3")
    objects = client.list_objects_v2(Bucket="elsewhere")["Contents"]
    contents = {o["Key"]: client.get_object(Bucket="elsewhere", Key=o["Key"])["Body"].read() for o in objects}
    assert {key: digest(content) for key, content in contents.items()} == {
        f"orders as of/1/{path}": content for path, content in then[1].items()
    }
    assert "not empty" in cdclake(*arguments, "s3://elsewhere/orders as of/1").stderr
    assert "lake's own folder" in cdclake(*arguments, "s3://lake/shop/orders/copy").stderr


def test_an_export_to_a_bucket_that_fails_leaves_nothing(cdclake: Any, tmp_path: Path, lake_bucket: str) -> None:
    table = TableOverTime(tmp_path / "source", COLUMNS, ITEM, bucket=lake_bucket)
    fill(table)
    path = table.log.record(1).added[-1].path
    client = aws_clients.client("s3")
    key = table.layout.data_key(path)
    client.put_object(Bucket=lake_bucket, Key=key, Body=b"overwritten")
    result = cdclake("export", TABLE, "--as-of", "1", "--lake-bucket", lake_bucket, "--to", "s3://elsewhere/x")
    assert result.exit_code == 5
    assert "orders was overwritten" in result.stderr
    assert client.list_objects_v2(Bucket="elsewhere")["KeyCount"] == 0
