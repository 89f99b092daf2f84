"""Lets the simulation import functions like Lambda does, by their folder below `lambdas/`, and tests also `infra`."""

from __future__ import annotations

import sys

from tests import ROOT

sys.path.extend(str(ROOT / folder) for folder in ("lambdas", "infra"))
