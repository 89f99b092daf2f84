"""Lets benchmarks import functions like Lambda does, by their folder below `lambdas/`."""

from __future__ import annotations

import sys

from tests import ROOT

sys.path.append(str(ROOT / "lambdas"))
