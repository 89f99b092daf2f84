"""The set-up works with each Python that it accepts: all pinned libraries have wheels for it.

The tests themselves run on Python 3.11.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests import ROOT

if TYPE_CHECKING:
    from pathlib import Path

EXCEPT = ("pyspark==", "awsgluedataplanepython==5.1.0 ; python_version < '3.12'")
"""pip builds PySpark, which is pure Python. The other is Glue's library, for the Python of Glue 5.1 alone."""


@pytest.mark.long
@pytest.mark.deployment
@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_every_pin_has_a_wheel(version: str, tmp_path: Path) -> None:
    lines = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if "==" in line and not line.startswith(EXCEPT)]
    assert len(pins) > 80
    wanted = tmp_path / "requirements.txt"
    wanted.write_text("\n".join(pins), encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--no-deps"]
    target = ["--python-version", version, "--only-binary=:all:", "--target", str(tmp_path / "target")]
    done = subprocess.run([*pip, *target, "--requirement", str(wanted)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
