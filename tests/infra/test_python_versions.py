"""The set-up works with each Python that it accepts: all pinned libraries take it, and have wheels for it.

The tests themselves run on Python 3.11.
"""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import distribution
from typing import TYPE_CHECKING

import pytest
from packaging.specifiers import SpecifierSet

from tests import ROOT

if TYPE_CHECKING:
    from pathlib import Path

OF_ONE_PYTHON = re.compile(r"^Tag: cp\d+-cp", re.MULTILINE)
"""The tag of a wheel that only one version of Python can install; others are checked by what they require."""


def pins() -> dict[str, str]:
    """Versions of the libraries by name, without those that only some versions of Python get."""
    lines = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if "==" in line and ";" not in line)


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_every_pin_takes_the_python(version: str) -> None:
    required = {name: distribution(name).metadata["Requires-Python"] or "" for name in pins()}
    assert len(required) > 80
    assert [name for name, text in required.items() if not SpecifierSet(text).contains(f"{version}.0")] == []


@pytest.mark.thorough
@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_every_compiled_pin_has_a_wheel(version: str, tmp_path: Path) -> None:
    compiled = {
        name: pin for name, pin in pins().items() if OF_ONE_PYTHON.search(distribution(name).read_text("WHEEL") or "")
    }
    assert {"numpy", "pyarrow", "duckdb"} <= compiled.keys()
    wanted = [f"{name}=={pin}" for name, pin in compiled.items()]
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--no-deps"]
    target = ["--python-version", version, "--only-binary=:all:", "--target", str(tmp_path / "target")]
    done = subprocess.run([*pip, *target, *wanted], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
