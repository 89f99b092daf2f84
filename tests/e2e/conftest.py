"""Lets the tests import the functions as Lambda does: by their folder below `lambdas/`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent.parent / "lambdas"))
