"""Runs one command, and kills it with all its descendants when the parent process ends.

It is run by path in a separate process: `python launcher.py <descriptor> <command...>`. The descriptor is the read end
of a pipe. Only the parent holds the write end, and never writes to it. So the pipe closes when the parent closes it,
exits or is killed. This module imports nothing of the package, so that it starts fast.

Exit code: the command's; 128 + n if signal n ended it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def main(arguments: list[str]) -> int:
    """Run the command and wait for it."""
    lifeline = int(arguments[0])
    _adopt_orphans()
    child = subprocess.Popen(arguments[1:], start_new_session=True)
    signal.signal(signal.SIGTERM, lambda *_: child.kill())
    threading.Thread(target=_kill_when_closed, args=(lifeline, child), daemon=True).start()
    code = child.wait()
    _kill_descendants(child.pid)
    return code if code >= 0 else 128 - code


def _kill_when_closed(lifeline: int, child: subprocess.Popen[bytes]) -> None:
    while os.read(lifeline, 1):
        pass
    child.kill()  # main() then continues, and kills the descendants


def _adopt_orphans() -> None:
    """Become the parent of every descendant whose parent ends, so that none escapes (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _kill_descendants(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    while children := _children():  # their children become this process's children
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _children() -> list[int]:
    """Child processes of this process, from Linux's /proc; empty on other systems."""
    children = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has just ended
            # `pid (name) state parent ...`; the name may contain spaces and parentheses
            fields = stat.read_bytes().rpartition(b")")[2].split()
            if int(fields[1]) == os.getpid():
                children.append(int(stat.parent.name))
    return children


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
