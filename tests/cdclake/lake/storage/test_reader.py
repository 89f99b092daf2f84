"""Data files are fetched whole if they are small, and opened in place otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem

from cdclake.errors import LakeFilesError
from cdclake.lake.limits import EngineLimits
from cdclake.lake.storage.reader import fetched_together, lake_file, open_parquet
from cdclake.model.snapshot import DataFile

if TYPE_CHECKING:
    from pathlib import Path

FS = LocalFileSystem()


@pytest.fixture
def files(tmp_path: Path) -> list[DataFile]:
    paths = [tmp_path / f"{number}.parquet" for number in range(20)]
    for number, path in enumerate(paths):
        pq.write_table(pa.table({"id": [number]}), path)
    return [DataFile(str(path), 1, path.stat().st_size, ()) for path in paths]


def test_small_files_are_fetched_once_and_in_any_number(files: list[DataFile], tmp_path: Path) -> None:
    fetched = fetched_together(FS, files)
    for path in tmp_path.iterdir():
        path.unlink()
    for _ in range(2):
        for number, file in enumerate(files):
            with open_parquet(fetched, file.path) as parquet:
                assert parquet.read()["id"].to_pylist() == [number]


def test_large_files_are_not_fetched(files: list[DataFile]) -> None:
    size_bytes = sum(file.bytes for file in files)
    assert fetched_together(FS, files, EngineLimits(fetched_bytes=size_bytes - 1)) is FS
    assert fetched_together(FS, files, EngineLimits(fetched_bytes=size_bytes)) is not FS


def test_a_task_without_data_files_fetches_nothing() -> None:
    assert fetched_together(FS, []) is FS


def test_a_file_that_vanished_before_it_was_fetched_is_named_when_it_is_opened(files: list[DataFile]) -> None:
    FS.delete_file(files[3].path)
    fetched = fetched_together(FS, files)
    with pytest.raises(LakeFilesError, match="vanished") as caught, lake_file(fetched, files[3].path):
        pass
    assert caught.value.details["file"] == files[3].path


def test_a_fetched_file_of_another_size_than_in_the_snapshot_is_refused(files: list[DataFile]) -> None:
    fetched = fetched_together(FS, files)
    with pytest.raises(LakeFilesError, match="overwritten"), lake_file(fetched, files[0].path, files[0].bytes + 1):
        pass
