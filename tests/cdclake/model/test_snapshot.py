"""Snapshots and change records are read as they were written; other versions and damaged ones are refused."""

from __future__ import annotations

import cProfile
import gc
import gzip
import json
import pstats
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Union

import pytest

from cdclake.errors import ConfigurationError, IntegrityError
from cdclake.model.change.record import ChangeRecord, StagedFile
from cdclake.model.drift import ColumnDrift
from cdclake.model.iceberg.field_ids import FieldIds
from cdclake.model.iceberg.table import IcebergFiles, Manifest
from cdclake.model.raw.ledger import Entry, Ledger, Segment
from cdclake.model.schema import Column, Schema
from cdclake.model.snapshot import DataFile, ErasedKeys, History, Snapshot, TombstoneFile
from tests.builders import change_record

if TYPE_CHECKING:
    from collections.abc import Callable

SNAPSHOT = Snapshot(
    change=7,
    schema=Schema((Column("id", "int"), Column("v", "string"))),
    primary_key=("id",),
    partition_key=("v",),
    watermark="20240305-101500123.csv",
    horizon="20240303-101500",
    tombstones=(TombstoneFile("t", 2, "20240305-101500123.csv", 1, 5, ("int",), "a position"),),
    full_load_utc="2024-03-05 10:00:00",
    ledger=Ledger(
        {"LOAD00000001.csv": "9-abc"},
        1,
        {"20240305-101500123.csv": Entry("8-def", 7)},
        (Segment("segment", "20240304-101500123.csv", "20240304-101500123.csv", 1, "digest"),),
        covers_floor=True,
    ),
    files=(DataFile("v=a/1.parquet", 3, 9, ("a",), 1, 9, 1),),
    history=History(Schema((Column("id", "int"),)), ("id",), loads=(1,), since=1),
    field_ids=FieldIds({"id": 1, "v": 2}, 2),
    iceberg=IcebergFiles("list.avro", (Manifest("manifest.avro", 1),), 1, 1, in_folder=True, lake_url="s3://lake/"),
    erased=(ErasedKeys(6, "2024-03-05T12:00:00", ("id",), "secret", ("hash",), "", "", ""),),
)
RECORD = change_record(added=(StagedFile("staged", "path"),), drift=(ColumnDrift("added", "v", "int"),))
KEY = "_cdclake/shop/orders/7.json"


def read_snapshot(data: dict[str, Any]) -> Snapshot:
    return Snapshot.from_bytes(gzip.compress(json.dumps(data).encode()), KEY)


def read_record(data: dict[str, Any]) -> ChangeRecord:
    return ChangeRecord.from_bytes(json.dumps(data).encode(), KEY)


def stored() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(gzip.decompress(SNAPSHOT.to_bytes()))
    return read


def stored_record() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(RECORD.to_bytes())
    return read


def test_what_is_written_is_read() -> None:
    assert read_snapshot(stored()) == SNAPSHOT
    assert read_record(stored_record()) == RECORD


def test_writing_a_snapshot_of_many_files_takes_few_calls_a_file() -> None:
    """A deep copy of the snapshot takes 128, which is seconds for 100,000 files."""
    files = tuple(DataFile(f"v=a/{number}.parquet", 3, 9, ("a",), number, number) for number in range(1000))
    snapshot = replace(SNAPSHOT, files=files)
    with cProfile.Profile() as profile:
        data = snapshot.to_bytes()
    assert Snapshot.from_bytes(data, KEY) == snapshot
    assert pstats.Stats(profile).total_calls < 3 * len(files)  # type: ignore[attr-defined]  # not in typeshed


def test_reading_a_snapshot_of_many_files_takes_few_calls_a_file() -> None:
    """And leaves the garbage collector as it was, even if that fails."""
    files = tuple(DataFile(f"v=a/{number}.parquet", 3, 9, ("a",), number, number) for number in range(1000))
    data = replace(SNAPSHOT, files=files).to_bytes()
    with cProfile.Profile() as profile:
        Snapshot.from_bytes(data, KEY)
    assert pstats.Stats(profile).total_calls < 6 * len(files)  # type: ignore[attr-defined]  # not in typeshed
    with pytest.raises(ConfigurationError):
        read_snapshot({**stored(), "format": 2})
    assert gc.isenabled()


Path = tuple[Union[str, int], ...]


def part_of(data: Any, path: Path) -> dict[str, Any]:
    for step in path:
        data = data[step]
    found: dict[str, Any] = data
    return found


PARTS: list[Path] = [
    (),
    ("files", 0),
    ("tombstones", 0),
    ("history",),
    ("history", "field_ids"),
    ("field_ids",),
    ("iceberg",),
    ("iceberg", "manifests", 0),
    ("erased", 0),
]
RECORD_PARTS: list[Path] = [(), ("books",), ("added", 0), ("drift", 0)]
READERS = [
    *((read_snapshot, stored, path) for path in PARTS),
    *((read_record, stored_record, path) for path in RECORD_PARTS),
]


@pytest.mark.parametrize(("read", "written", "path"), READERS)
def test_what_a_newer_version_wrote_is_refused(
    read: Callable[[Any], object], written: Callable[[], Any], path: Path
) -> None:
    data = written()
    part_of(data, path)["hidden"] = ["v"]
    with pytest.raises(ConfigurationError, match=r"newer version of cdclake .*Deploy") as refused:
        read(data)
    assert refused.value.details["file"] == KEY


@pytest.mark.parametrize("number", [2, "1b", None])
@pytest.mark.parametrize(("read", "written"), [(read_snapshot, stored), (read_record, stored_record)])
def test_an_unknown_format_is_refused(
    read: Callable[[Any], object], written: Callable[[], Any], number: object
) -> None:
    with pytest.raises(ConfigurationError, match=r"newer version of cdclake .*Deploy"):
        read({**written(), "format": number})


@pytest.mark.parametrize(("read", "written", "path"), READERS)
def test_what_lacks_a_field_is_refused(read: Callable[[Any], object], written: Callable[[], Any], path: Path) -> None:
    for name in part_of(written(), path):
        data = written()
        del part_of(data, path)[name]
        with pytest.raises(
            IntegrityError, match=r"is damaged, or a version before the first release.*Restore"
        ) as refused:
            read(data)
        assert refused.value.details["file"] == KEY


@pytest.mark.parametrize(
    "wrong", [{"files": None}, {"files": [None]}, {"field_ids": []}, {"schema": 7}, {"history": {"schema": 7}}]
)
def test_values_of_other_types_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError, match="is damaged"):
        read_snapshot({**stored(), **wrong})


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"{}", b"\xff", SNAPSHOT.to_bytes()[:-9]])
def test_what_is_damaged_is_refused(data: bytes) -> None:
    for read in (
        lambda: Snapshot.from_bytes(data, KEY),
        lambda: Snapshot.from_bytes(gzip.compress(data), KEY),
        lambda: ChangeRecord.from_bytes(data, KEY),
    ):
        with pytest.raises(IntegrityError, match="is damaged") as refused:
            read()
        assert refused.value.details["file"] == KEY
