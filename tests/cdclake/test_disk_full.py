"""The error of a full disk names the disk, what is free there, and what is needed."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

from cdclake.errors import disk_full

if TYPE_CHECKING:
    from pathlib import Path


class Disk(NamedTuple):
    f_frsize: int
    f_bavail: int
    f_files: int
    f_favail: int


ROOMY, FULL, MANY = Disk(4096, 10_000, 0, 0), Disk(4096, 10, 100, 50), Disk(4096, 10_000, 100, 0)


@pytest.fixture
def disks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Disk]:
    """Disks by folder; others are roomy."""
    found: dict[str, Disk] = {}
    monkeypatch.setattr(os, "statvfs", lambda folder: found.get(str(folder), ROOMY))
    for name in ("temporary", "one", "two", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path / 'one'},{tmp_path / 'two'}")
    monkeypatch.chdir(tmp_path / "work")
    return found


def test_a_full_disk_is_named_with_what_is_free_and_what_is_needed(disks: dict[str, Disk], tmp_path: Path):
    disks[str(tmp_path)] = FULL
    full = disk_full(OSError(errno.ENOSPC, "x"), tmp_path / "not yet", "a/b.parquet", 12_345_678)
    assert full
    assert full.details == {"folder": str(tmp_path / "not yet"), "file": "a/b.parquet"}
    assert "Free at least 12.3 MB of space or raise the quota on the disk of" in full.remedy
    assert f"{tmp_path / 'not yet'} (0.0 MB free)" in full.remedy
    disks[str(tmp_path)] = MANY
    assert "(no free inodes: there are too many files)" in str(disk_full(OSError(errno.ENOSPC, "x"), tmp_path))


def test_the_file_of_an_error_tells_the_folder(disks: dict[str, Disk], tmp_path: Path):
    for name in (str(tmp_path / "work" / "f"), "f"):
        full = disk_full(OSError(errno.EDQUOT, "x", name))
        assert full
        assert full.details == {"folder": str(tmp_path / "work"), "file": str(tmp_path / "work" / "f")}


def test_if_an_error_names_no_file_the_folders_without_room_are_named_or_else_all(
    disks: dict[str, Disk], tmp_path: Path
):
    text = str(disk_full(OSError(errno.ENOSPC, "x")))
    assert all(f"{tmp_path / name} (41.0 MB free)" in text for name in ("temporary", "one", "two", "work"))
    disks[str(tmp_path / "two")] = FULL
    full = disk_full(OSError(errno.ENOENT, "No usable temporary directory found in ['/tmp']"))
    assert full
    assert full.details["folder"] == str(tmp_path / "two")
    assert str(tmp_path / "one") not in str(full)


def test_the_disk_of_redirected_output_is_named(disks: dict[str, Disk], tmp_path: Path):
    code = "from cdclake.errors import disk_full; import sys; print(disk_full(OSError(28, 'x')), file=sys.stderr)"
    with (tmp_path / "output.txt").open("wb") as output:
        shown = subprocess.run([sys.executable, "-c", code], stdout=output, stderr=subprocess.PIPE, check=True)
    assert f"{tmp_path} (" in shown.stderr.decode()


def test_other_errors_are_no_full_disk():
    assert disk_full(OSError(errno.EACCES, "x")) is None
    assert disk_full(ValueError("No space left on device")) is None
