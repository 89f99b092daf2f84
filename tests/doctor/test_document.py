"""The document names every finding, as the code does."""

from __future__ import annotations

import re

from cdclake.doctor.findings import KINDS, Code
from tests import ROOT

DOCUMENT = ROOT / "docs" / "doctor.md"


def test_the_table_of_findings_is_that_of_the_code() -> None:
    wanted = [
        f"| `{code.value}` | {KINDS[code].severity.value} | {KINDS[code].what} | {KINDS[code].why} |" for code in Code
    ]
    rows = re.findall(
        r"^\| `[a-z-]+` \| (?:error|warning|note) \|.*$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert rows == wanted


def test_every_code_has_a_sort() -> None:
    assert list(KINDS) == list(Code)
