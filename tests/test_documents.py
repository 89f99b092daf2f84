"""Files, links, make targets, functions and figures in the documents exist."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from tests import ROOT

if TYPE_CHECKING:
    from pathlib import Path

ARCHITECTURE = ROOT / "docs" / "architecture.md"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_make_targets_and_links_in_a_document_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert "<<<<<<<" not in text, "a conflict of a merge is left"
    paths = re.findall(r"`((?:tests|docs|benchmarks|infra|sample_db|glue_jobs|lambdas)/[\w./-]+)`", text)
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    targets = re.findall(r"(?:`|^)make ([a-z0-9-]+)", text, re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert [link for link in links if not (document.parent / link).exists()] == []
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []


def test_where_is_what_lists_27_existing_functions() -> None:
    _, _, section = ARCHITECTURE.read_text(encoding="utf-8").partition("## Where is what\n")
    rows = re.findall(r"^\| .+ \| `([\w/]+\.py)` \| `([\w.]+)` \|$", section.partition("\n## ")[0], re.MULTILINE)
    assert len(rows) == len(set(rows)) == 27
    assert [row for row in rows if row[1] not in functions_of(ROOT / "glue_jobs" / "cdclake" / row[0])] == []


def functions_of(module: Path) -> set[str]:
    """Functions of a module, and methods as `Class.method`; none if there is no such file."""
    if not module.is_file():
        return set()
    body = ast.parse(module.read_text(encoding="utf-8")).body
    scopes = [("", body), *((f"{node.name}.", node.body) for node in body if isinstance(node, ast.ClassDef))]
    return {prefix + node.name for prefix, nodes in scopes for node in nodes if isinstance(node, ast.FunctionDef)}
