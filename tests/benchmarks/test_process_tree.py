"""Memory of several processes."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from benchmarks.process_tree import resident_bytes

if TYPE_CHECKING:
    from pathlib import Path

MB = 1_000_000
HOLD = """
import mmap, sys
with open(sys.argv[1], "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
own = bytearray(30_000_000)
own[::4096], touched = b"x" * len(own[::4096]), mapped[::4096]
print("ready", flush=True)
input()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_file_that_processes_have_mapped_counts_once(tmp_path: Path) -> None:
    file = tmp_path / "library"
    file.write_bytes(b"x" * 50 * MB)
    with ExitStack() as stack:
        pids = []
        for _ in range(2):
            command = [sys.executable, "-c", HOLD, str(file)]
            process = stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            stack.callback(process.kill)
            assert process.stdout
            assert process.stdout.readline() == b"ready\n"
            pids.append(process.pid)
        alone = resident_bytes(pids[:1])
        assert alone > 80 * MB
        assert alone + 30 * MB < resident_bytes(pids) < alone + 50 * MB
        assert resident_bytes([*pids, 2**22 + 1]) == pytest.approx(resident_bytes(pids), rel=0.01)  # none such
