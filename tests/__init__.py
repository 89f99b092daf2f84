"""Tests of cdclake. The folders mirror the code."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The root of the repository."""
CODE = ("glue_jobs", "cli", "devkit")
"""Its folders with one package each, lowest first."""
CODE_PATH = os.pathsep.join(str(ROOT / name) for name in CODE)
"""The path of a process that shall import the code beside these tests, wherever `.venv` was set up."""
