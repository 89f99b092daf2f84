"""README, CONTRIBUTING and the Makefile promise no shorter times than those measured last."""

from __future__ import annotations

import json
import re

import pytest

from tests import ROOT
from tests.seconds import KEPT

MEASURED = json.loads(KEPT.read_text(encoding="utf-8"))
PROMISES = {
    "Makefile": r"^{target}: .*## .*\((?:under )?(\d+) (seconds|minutes)\)$",
    "CONTRIBUTING.md": r"^\| `make {target}` \|.*\| (?:under )?(\d+) (seconds|minutes) \|$",
}


def promised_seconds(document: str, pattern: str) -> int:
    """The time that a document promises."""
    text = (ROOT / document).read_text(encoding="utf-8")
    ((number, unit),) = re.findall(pattern, text, re.MULTILINE)
    return int(number) * (60 if unit == "minutes" else 1)


@pytest.mark.parametrize("target", MEASURED)
@pytest.mark.parametrize("document", PROMISES)
def test_a_tier_takes_no_longer_than_its_documents_say(document: str, target: str) -> None:
    assert promised_seconds(document, PROMISES[document].format(target=target)) >= max(MEASURED[target]["seconds"])


def test_readmes_test_command_takes_no_longer_than_it_says() -> None:
    promised = promised_seconds("README.md", r"^runs lint, type checks and tests in under (\d+) (minutes)\.")
    assert promised >= max(MEASURED.get("test", MEASURED["quick"])["seconds"])
