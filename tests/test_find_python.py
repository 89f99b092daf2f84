"""The set-up finds a Python that can run cdclake, or says how to get one."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SCRIPT = ROOT / "tools" / "find-python.sh"
USABLE, TOO_NEW = "exit 0", "exit 1"


def write_commands(folder: Path, commands: Mapping[str, str]) -> None:
    """Write executables, given as shell code."""
    for name, code in commands.items():
        command = folder / name
        command.write_text(f"#!/bin/sh\n{code}\n", encoding="utf-8")
        command.chmod(0o755)


def find(folder: Path, commands: Mapping[str, str], *named: str) -> subprocess.CompletedProcess[str]:
    """Run the script with only these commands on PATH, given as shell code."""
    write_commands(folder, commands)
    return subprocess.run(
        ["/bin/sh", str(SCRIPT), *named],
        env={"PATH": str(folder), "PYENV_ROOT": str(folder / "pyenv")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_first_usable_python_is_taken(tmp_path: Path) -> None:
    found = find(tmp_path, {"python3.11": TOO_NEW, "python3.13": USABLE, "python3": USABLE})
    assert (found.returncode, found.stdout) == (0, "python3.13\n")


def test_a_python_of_pyenv_that_is_not_on_path_is_found(tmp_path: Path) -> None:
    installed = tmp_path / "pyenv" / "versions" / "3.13.0" / "bin"
    installed.mkdir(parents=True)
    write_commands(installed, {"python3.13": USABLE})
    found = find(tmp_path, {"python3.13": "exit 127", "python3.11": USABLE}, "python3.13", "python3.11")
    assert found.stdout == f"{installed}/python3.13\n"


def test_the_python_of_these_tests_is_usable(tmp_path: Path) -> None:
    assert find(tmp_path, {}, sys.executable).stdout == f"{sys.executable}\n"


def test_a_named_python_is_taken_or_refused(tmp_path: Path) -> None:
    found = find(tmp_path, {"python3.11": USABLE, "python3.14": TOO_NEW}, str(tmp_path / "python3.14"))
    assert (found.returncode, found.stdout) == (1, "")
    assert f"found: {tmp_path}/python3.14." in found.stderr


@pytest.mark.parametrize(
    ("commands", "remedy"),
    [
        ({"apt-cache": '[ "$2" = python3.12-venv ]'}, "sudo apt-get install -y python3.12-venv"),
        ({"apt-cache": "exit 100"}, "uv python install 3.13"),
        ({"dnf": USABLE}, "sudo dnf install -y python3.13"),
        ({"brew": USABLE}, "brew install python@3.13"),
        ({}, "uv python install 3.13"),
    ],
    ids=["Debian and Ubuntu", "Ubuntu with only newer ones", "Fedora", "macOS", "other"],
)
def test_without_one_the_message_has_the_command_that_helps(
    tmp_path: Path, commands: Mapping[str, str], remedy: str
) -> None:
    found = find(tmp_path, {"python3": TOO_NEW, **commands})
    assert (found.returncode, found.stdout) == (1, "")
    first, install, name = found.stderr.splitlines()
    assert first == "cdclake needs Python 3.11, 3.12 or 3.13 with the module venv; found: none on PATH."
    assert install.startswith("Install one:  ")
    assert remedy in install
    assert "make PYTHON=" in name
