"""The mutants quote code, and a simulation finds them. `make simulate-mutants` looks for all."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cdclake_devkit.simulate.mutants import MUTANTS, Mutant
from tests import CODE_PATH, ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_mutant_quotes_code_that_occurs_once(mutant: Mutant) -> None:
    text = (ROOT / "glue_jobs" / f"{mutant.full_module.replace('.', '/')}.py").read_text(encoding="utf-8")
    assert text.count(mutant.before) == 1
    assert mutant.before != mutant.after


@pytest.mark.slow
def test_a_mutant_is_found() -> None:
    name = "files are retired before new ones are there"
    command = [sys.executable, "-m", "cdclake_devkit.simulate", "--mutants", name, "--seeds", "20"]
    path = os.pathsep.join([CODE_PATH, str(ROOT / "lambdas")])
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "1 of 1 mutants found" in done.stdout
