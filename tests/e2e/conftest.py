"""Makes the Lambda functions importable by their folders below `lambdas/`, and the infrastructure code."""

from __future__ import annotations

import sys

from tests import ROOT

sys.path += [str(ROOT / "lambdas"), str(ROOT / "infra")]
