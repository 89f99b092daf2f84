"""A file that a verb writes has the whole text, or stays as it was."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest

from cdclake.errors import ConfigurationError
from cdclake_cli.errors import explain_file
from cdclake_cli.named_files import check_writable, write_text

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_is_written_and_replaced_with_its_permissions_and_through_a_link(tmp_path: Path) -> None:
    file, link = tmp_path / "cdclake.yml", tmp_path / "link.yml"
    write_text(file, "tables: {é: 1}\n", force=False)
    new = tmp_path / "new"
    new.touch()
    assert file.stat().st_mode == new.stat().st_mode
    file.chmod(0o640)
    link.symlink_to(file)
    write_text(link, "other", force=True)
    assert (file.read_text(), file.stat().st_mode & 0o777, link.is_symlink()) == ("other", 0o640, True)
    assert {one.name for one in tmp_path.iterdir()} == {"cdclake.yml", "link.yml", "new"}


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_what_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def full(*arguments: Any, **_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(arguments[0]))

    file = tmp_path / "cdclake.yml"
    file.write_text("mine")
    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space left") as failed:
        write_text(file, "other" * 1000, force=True)
    explained = explain_file(failed.value)
    assert explained is not None
    assert (type(explained).__name__, explained.details["file"]) == ("DiskFullError", str(file))
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == {"cdclake.yml": "mine"}


def test_what_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    file = tmp_path / "cdclake.yml"
    check_writable(file, force=False)
    file.touch()
    check_writable(file, force=True)
    with pytest.raises(ConfigurationError, match="The file exists"):
        check_writable(file, force=False)
    with pytest.raises(ConfigurationError, match="no such folder"):
        check_writable(tmp_path / "nowhere" / "cdclake.yml", force=True)
