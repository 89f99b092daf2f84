"""Snapshots and change records of earlier versions stay readable; those of newer versions are refused."""

from __future__ import annotations

import cProfile
import gc
import gzip
import json
import pstats
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from cdclake.errors import ConfigurationError
from cdclake.model.change import ChangeRecord
from cdclake.model.schema import Column, Schema
from cdclake.model.snapshot import DataFile, Snapshot, TombstoneFile
from tests.builders import change_record

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_FORMAT: dict[str, Any] = {
    "format": 1,
    "change": 7,
    "schema": [["id", "int"], ["v", "string"]],
    "primary_key": ["id"],
    "partition_key": ["v"],
    "order_column": "",
    "watermark": "20240305-101500123.csv",
    "applied_files": ["20240305-101500123.csv"],
    "floor": "",
    "horizon": "20240303-101500",
    "tombstones": [{"key": "t", "rows": 2, "newest": "20240305-101500123.csv", "key_min": 1, "key_max": 5}],
    "full_load_files": ["LOAD00000001.csv"],
    "full_load_utc": "2024-03-05 10:00:00",
    "files": [
        {"path": "v=a/1.parquet", "rows": 3, "bytes": 9, "partition": ["a"], "key_min": 1, "key_max": 9, "deleted": 1}
    ],
    "history": None,
}
"""A snapshot as the first version of the format has it. It must stay readable."""


def stored(snapshot: dict[str, Any]) -> bytes:
    return gzip.compress(json.dumps(snapshot).encode())


def test_a_snapshot_of_the_first_format_is_read() -> None:
    snapshot = Snapshot.from_bytes(stored(FIRST_FORMAT))
    assert snapshot.schema == Schema((Column("id", "int"), Column("v", "string")))
    assert snapshot.files == (DataFile("v=a/1.parquet", 3, 9, ("a",), 1, 9, 1),)
    assert snapshot.tombstones == (TombstoneFile("t", 2, "20240305-101500123.csv", 1, 5),)
    assert Snapshot.from_bytes(snapshot.to_bytes()) == snapshot


def test_writing_a_snapshot_of_many_files_takes_few_calls_a_file() -> None:
    """A deep copy of the snapshot takes 128, which is seconds for 100,000 files."""
    files = tuple(DataFile(f"v=a/{number}.parquet", 3, 9, ("a",), number, number) for number in range(1000))
    snapshot = replace(Snapshot.from_bytes(stored(FIRST_FORMAT)), files=files)
    with cProfile.Profile() as profile:
        data = snapshot.to_bytes()
    assert Snapshot.from_bytes(data) == snapshot
    assert pstats.Stats(profile).total_calls < 3 * len(files)  # type: ignore[attr-defined]  # not in typeshed


@pytest.mark.parametrize("wrong", [{"hidden": True}, {"rows": None}])
def test_a_data_file_with_other_attributes_is_refused(wrong: dict[str, Any]) -> None:
    file = {**FIRST_FORMAT["files"][0], **wrong}
    file = {name: value for name, value in file.items() if name != "rows" or value is not None}
    with pytest.raises(TypeError, match=r"hidden|rows"):
        Snapshot.from_bytes(stored({**FIRST_FORMAT, "files": [file]}))


def test_reading_a_snapshot_of_many_files_takes_few_calls_a_file() -> None:
    """And leaves the garbage collector as it was, even if that fails."""
    files = tuple(DataFile(f"v=a/{number}.parquet", 3, 9, ("a",), number, number) for number in range(1000))
    data = replace(Snapshot.from_bytes(stored(FIRST_FORMAT)), files=files).to_bytes()
    with cProfile.Profile() as profile:
        Snapshot.from_bytes(data)
    assert pstats.Stats(profile).total_calls < 6 * len(files)  # type: ignore[attr-defined]  # not in typeshed
    with pytest.raises(ConfigurationError):
        Snapshot.from_bytes(stored({**FIRST_FORMAT, "format": 2}))
    assert gc.isenabled()


def change(data: bytes) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(data)
    return read


@pytest.mark.parametrize("newer", [{"format": 2}, {"format": "1b"}, {"columns_hidden": ["v"]}])
@pytest.mark.parametrize(
    ("read", "written"),
    [
        (lambda data: Snapshot.from_bytes(stored(data)), FIRST_FORMAT),
        (lambda data: ChangeRecord.from_bytes(json.dumps(data).encode()), change(change_record().to_bytes())),
    ],
)
def test_what_a_newer_version_wrote_is_refused(
    read: Callable[[dict[str, Any]], object], written: dict[str, Any], newer: dict[str, Any]
) -> None:
    read(written)
    with pytest.raises(ConfigurationError, match=r"newer version of cdclake .*Deploy"):
        read({**written, **newer})
