"""Partition values that are too long for the key of a data file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cdclake.adapters.folder import FolderStore
from cdclake.errors import InputError
from cdclake.model.change.record import StagedFile
from cdclake.model.layout import LakeLayout
from cdclake_devkit.memory import MemoryStore
from tests.builders import LAYOUT, LakeBuilder

if TYPE_CHECKING:
    from pathlib import Path


def path_of(value: str) -> str:
    return LakeLayout.data_path(2, 1, ("day", "city"), ("2024-03-05", value))


@pytest.mark.parametrize("value", ["x" * 1000, "ü" * 500, "%" * 330, "/" * 330])
def test_a_key_of_more_than_1024_bytes_is_refused_before_the_commit(value: str) -> None:
    lake = LakeBuilder(MemoryStore())
    with pytest.raises(InputError, match=r"too long for the name of a data file: a key of .* 1024 in S3") as caught:
        lake.change(added=(StagedFile("staged", path_of(value)),))
    assert caught.value.details["column"] == "city"
    assert value[:5] not in str(caught.value)
    assert "PartitionKey" in caught.value.remedy
    assert lake.log.head() == 0


def test_the_longest_key_that_a_file_may_ever_have_counts() -> None:
    lake = LakeBuilder(MemoryStore())
    room = 1024 - len(LAYOUT.retired_key(path_of("")).replace("__HIVE_DEFAULT_PARTITION__", ""))
    with pytest.raises(InputError, match="a key of 1025 bytes"):
        lake.change(added=(StagedFile("staged", path_of("x" * (room + 1))),))
    lake.store.put("staged", b"rows")
    lake.log.commit(lake.stage(added=(StagedFile("staged", path_of("x" * room)),)))


def test_a_file_system_limits_each_name(tmp_path: Path) -> None:
    lake = LakeBuilder(FolderStore(tmp_path))
    with pytest.raises(InputError, match="a name of 256 bytes, of at most 255 in a file system"):
        lake.change(added=(StagedFile("staged", path_of("x" * 251)),))
    assert not lake.store.key_fault(path_of("x" * 250))
