"""Runs the commands of two documents as written, in order, in a fresh folder.

Only two things differ: `cdclake` is that of this checkout, and `make` targets are left out, which CI runs separately.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import CODE_PATH, ROOT

pytestmark = [pytest.mark.spark, pytest.mark.aws, pytest.mark.timeout(600)]

INSTALLED, SHELL = "uvx --from . cdclake", "cdclake local shell"
WALK_SECONDS = 540


class Block(NamedTuple):
    """A block of commands in a document."""

    language: str
    text: str

    @property
    def make_targets(self) -> list[str]:
        return re.findall(r"^make ([\w-]+)$", self.text, re.MULTILINE)

    @property
    def opens_a_shell(self) -> bool:
        return self.text == f"{INSTALLED} local shell\n"

    @property
    def script(self) -> str:
        """The shell script."""
        return f"python - <<'END_OF_BLOCK'\n{self.text}END_OF_BLOCK\n" if self.language == "python" else self.text


def blocks(document: str) -> list[Block]:
    text = (ROOT / document).read_text(encoding="utf-8")
    return [Block(*found) for found in re.findall(r"^```(bash|python)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)]


def walk(document: str, folder: Path, *afterwards: str) -> tuple[str, list[dict[str, object]]]:
    """Run every block of a document, then more commands; returns what the document prints, and their JSON lines."""
    opening, *others = [block for block in blocks(document) if not block.make_targets]
    assert opening.opens_a_shell
    assert len(others) > 3
    script = "\n".join([*(block.script for block in others), "echo afterwards", *afterwards])
    done = subprocess.run(
        [*SHELL.split(), "bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": CODE_PATH,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
        timeout=WALK_SECONDS,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    printed, _, records = done.stdout.rpartition("afterwards\n")
    return printed, [json.loads(line) for line in records.splitlines() if line.startswith("{")]


@pytest.mark.long
def test_the_page_of_the_first_own_table_leads_to_a_query_a_change_and_its_undo(tmp_path: Path) -> None:
    printed, records = walk(
        "docs/your-first-table.md",
        tmp_path,
        "cdclake changes my.rides --output json",
        'cdclake local query --output json "select id, rider, fare, zip from my.rides order by id"',
    )
    page = (ROOT / "docs" / "your-first-table.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```\n(┌.*?┘)\n^```", page, re.DOTALL | re.MULTILINE)
    assert shown in printed
    changes = [(one["kind"], one["rows"]) for one in records if "kind" in one]
    assert changes == [("full load", 6), ("incremental", 6), ("rollback", 6), ("reapply", 6)]
    rides = [(one["id"], one["rider"], one["fare"], one["zip"]) for one in records if "rider" in one]
    assert rides == [
        (1, "Ada", "9.50", "04103"),
        (2, "Ben", "28.00", "02139"),
        (3, "Cleo", "7.25", "10001"),
        (4, "Ada", "9.50", "04103"),
        (5, "Dan", "19.00", "10001"),
        (7, "Eve", "15.00", "60601"),
    ]


@pytest.mark.long
def test_the_tutorial_covers_changes_undo_time_travel_in_iceberg_history_and_a_bad_row(tmp_path: Path) -> None:
    printed, records = walk(
        "docs/tutorial.md",
        tmp_path,
        "cdclake changes shop.product --output json",
        "cdclake changes shop.store --output json",
        "cdclake status --output json",
    )
    changes = [(one["kind"], one["rows"]) for one in records if "kind" in one]
    products, stores = changes[:4], changes[4:]
    assert "orders: 3345, 1345 of the newest day\norders after change 1: 2000\n" in printed
    assert [kind for kind, _ in products] == ["full load", "incremental", "rollback", "reapply"]
    assert products[2][1] == products[0][1]
    assert products[3][1] == products[1][1]
    assert [kind for kind, _ in stores] == ["full load", "incremental", "incremental", "release"]
    assert stores[3][1] == int(str(stores[1][1])) + 1
    standing = {one["table"]: one["standing"] for one in records if "standing" in one}
    assert standing == dict.fromkeys(("shop.product", "shop.productorder", "shop.store"), "up to date")


def test_the_make_targets_of_the_documents_are_run_by_ci() -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    run_by_ci = {word for line in lines for word in line.split()[1:] if line.startswith("make ")}
    targets = {
        target
        for document in ("README.md", "docs/quickstart.md", "docs/tutorial.md", "docs/your-first-table.md")
        for block in blocks(document)
        for target in block.make_targets
    }
    assert "test-all" in run_by_ci
    assert targets - run_by_ci == {"test"}, "`make test-all` runs its tests"
