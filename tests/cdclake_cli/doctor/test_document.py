"""docs/doctor.md lists every finding with the texts of the code."""

from __future__ import annotations

import re

from cdclake_cli.doctor.findings import KINDS, Code
from tests import ROOT

DOCUMENT = ROOT / "docs" / "doctor.md"


def test_the_documented_findings_equal_those_of_the_code() -> None:
    expected = [
        f"| `{code.value}` | {KINDS[code].severity.value} | {KINDS[code].title} | {KINDS[code].why} |" for code in Code
    ]
    rows = re.findall(
        r"^\| `[a-z-]+` \| (?:error|warning|note) \|.*$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert rows == expected


def test_every_code_has_a_kind() -> None:
    assert list(KINDS) == list(Code)
