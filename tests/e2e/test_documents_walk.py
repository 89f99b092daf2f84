"""Runs the commands of README and tutorial as written, in order, in a fresh folder.

Only two things differ: the port, which may be in use, and `make` targets, which CI runs separately.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests import CODE_PATH, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.aws, pytest.mark.timeout(600)]

PORT = "5555"
END_SECONDS, WALK_SECONDS = 30, 540
HAS_AWS_CLI = shutil.which("aws") is not None


class Block(NamedTuple):
    """A block of commands in a document."""

    language: str
    text: str

    @property
    def make_targets(self) -> list[str]:
        return re.findall(r"^make ([\w-]+)$", self.text, re.MULTILINE)

    @property
    def serves(self) -> bool:
        return "cdclake local serve" in self.text

    @property
    def needs_the_aws_cli(self) -> bool:
        return self.text.startswith("aws ")

    @property
    def script(self) -> str:
        """The shell script."""
        return f"python - <<'END_OF_BLOCK'\n{self.text}END_OF_BLOCK\n" if self.language == "python" else self.text


def blocks(document: str) -> list[Block]:
    text = (ROOT / document).read_text(encoding="utf-8")
    return [Block(*found) for found in re.findall(r"^```(bash|python)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)]


class Walk:
    """A reader with two terminals in a fresh folder, with `.venv` set up."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = str(free.getsockname()[1])
        self._folder = folder
        (folder / ".venv").symlink_to(ROOT / ".venv")
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CDCLAKE_"))},
            "PYTHONPATH": CODE_PATH,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }

    @contextmanager
    def first_terminal(self, script: str) -> Iterator[None]:
        """Run a script that serves, and stop it with Ctrl-C at the end."""
        with subprocess.Popen(
            ["bash", "-euc", self._on_free_port(script)],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                assert process.stdout is not None
                assert json.loads(process.stdout.readline())["raw_bucket"] == "cdclake-raw"
                yield
            finally:
                os.killpg(process.pid, signal.SIGINT)
                process.wait(END_SECONDS)

    def second_terminal(self, script: str) -> str:
        """Run a script; returns its output."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self._on_free_port(script)],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
            timeout=WALK_SECONDS,
        )
        assert done.returncode == 0, done.stdout[-5000:]
        return done.stdout

    def _on_free_port(self, script: str) -> str:
        return script.replace(PORT, self._port)


def walk(document: str, folder: Path, *afterwards: str) -> tuple[str, list[dict[str, object]]]:
    """Run every block of a document, then more commands; returns what the document prints, and their JSON lines."""
    reader = Walk(folder)
    blocks_to_run = [block for block in blocks(document) if not block.make_targets]
    (serving,) = [block for block in blocks_to_run if block.serves]
    others = [block for block in blocks_to_run if block is not serving]
    if not HAS_AWS_CLI:
        print("skipped without an AWS CLI:", *(block.text for block in others if block.needs_the_aws_cli))
        others = [block for block in others if not block.needs_the_aws_cli]
    assert len(others) > 3
    with reader.first_terminal(serving.script):
        script = "\n".join([*(block.script for block in others), "echo afterwards", *afterwards])
        output = reader.second_terminal(script)
    printed, _, records = output.rpartition("afterwards\n")
    return printed, [json.loads(line) for line in records.splitlines() if line.startswith("{")]


@pytest.mark.long
def test_the_readme_brings_the_sample_orders_to_the_lake(tmp_path: Path) -> None:
    _, (loaded,) = walk("README.md", tmp_path, "cdclake changes shop.productorder --output json")
    assert (loaded["kind"], loaded["inserted"]) == ("full load", 10_000)


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
        for document in ("README.md", "docs/tutorial.md")
        for block in blocks(document)
        for target in block.make_targets
    }
    assert "test-all" in run_by_ci
    assert targets - run_by_ci == {"demo", "test"}, "`make test-all` runs the tests of both"
