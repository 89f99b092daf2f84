"""The documents name files and targets that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_make_targets_and_links_in_a_document_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    paths = re.findall(r"`((?:tests|docs|benchmarks|infra|sample_db|glue_jobs|lambdas)/[\w./-]+)`", text)
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    targets = re.findall(r"`make ([a-z0-9-]+)`", text)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert [link for link in links if not (document.parent / link).exists()] == []
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []
