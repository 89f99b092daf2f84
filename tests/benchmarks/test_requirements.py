"""The environment of the benchmarks can be set up, beside the versions that the product is pinned to."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests import ROOT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.thorough
def test_the_contestants_can_be_installed(tmp_path: Path) -> None:
    make = [
        "make",
        f"VENV={sys.prefix}",
        f"BENCH_VENV={tmp_path}",
        "PIP=-m pip install --quiet --dry-run",
        f"{tmp_path}/.ready",
    ]
    done = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "pyarrow==" in (tmp_path / "constraints.txt").read_text(encoding="utf-8")
