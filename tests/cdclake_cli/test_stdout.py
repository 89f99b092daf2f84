"""Output that cannot be written ends a command with one line on stderr, whatever the command."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import pytest

from cdclake_cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable

COMMANDS = [
    (),
    ("--help",),
    ("--version",),
    ("dms", "settings", "--source", "mysql"),
    ("dms", "settings", "--source", "mysql", "--output", "json"),
]


def full_device() -> TextIO:
    return Path("/dev/full").open("w", encoding="utf-8")


def closed_pipe() -> TextIO:
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "w", encoding="utf-8")


def full_ascii_device() -> TextIO:
    return Path("/dev/full").open("w", encoding="ascii")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("device", [full_device, closed_pipe, full_ascii_device, lambda: None])
def test_lost_output_is_one_line_and_a_status(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], device: Callable[[], TextIO | None]
) -> None:
    stdout, stderr = device(), io.StringIO()
    monkeypatch.setattr(sys, "argv", ["cdclake", *command])
    monkeypatch.setattr(sys, "stderr", stderr)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stdout)
        with pytest.raises(SystemExit) as end:
            main()
        assert sys.stdout is stdout
    if stdout:
        stdout.close()  # writes what is buffered, as the end of the process does
    assert end.value.code == 1
    assert stderr.getvalue().startswith("Error: The output cannot be written: ")
    assert stderr.getvalue().count("\n") == 1


def test_output_that_is_written_ends_as_before(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for command, status in (("--version", 0), ("--no-such-option", 2)):
        monkeypatch.setattr(sys, "argv", ["cdclake", command])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == status
    assert capsys.readouterr().out.startswith("cdclake ")


@pytest.mark.slow
def test_a_process_says_it_once_also_at_its_end() -> None:
    code = "from cdclake_cli.main import main; main()"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code, "--version"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
