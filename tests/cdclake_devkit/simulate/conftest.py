"""Makes the Lambda functions importable by their folders below `lambdas/`."""

from __future__ import annotations

import sys

from tests import ROOT

sys.path.append(str(ROOT / "lambdas"))
