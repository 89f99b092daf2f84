"""Lets the tests import the functions as Lambda does, by their folder below `lambdas/`, and what deploys them."""

from __future__ import annotations

import sys

from tests import ROOT

sys.path += [str(ROOT / "lambdas"), str(ROOT / "infra")]
