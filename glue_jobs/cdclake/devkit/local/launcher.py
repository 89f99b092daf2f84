"""Runs one command, and ends it with everything it started when the process that asked for it is gone.

Run by path, in a process of its own: `python launcher.py <descriptor> <command...>`. The descriptor is the reading end
of a pipe whose writing end the asker alone holds and never writes to: it reads as closed when the asker closes it,
exits, or is killed, whichever way. Nothing of the package is imported here, so that it starts fast.

Exit code: the command's own; 128 + n if signal n ended it.
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
    _end_what_is_left(child.pid)
    return code if code >= 0 else 128 - code


def _kill_when_closed(lifeline: int, child: subprocess.Popen[bytes]) -> None:
    while os.read(lifeline, 1):
        pass
    child.kill()  # main() then sees its end, and ends the rest


def _adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies, so that none can get out of reach (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _end_what_is_left(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    while children := _children():  # killing them makes us the parent of theirs
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _children() -> list[int]:
    """Processes whose parent this one is, by Linux's /proc; empty elsewhere."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            # `pid (name) state parent ...`; the name may hold blanks and brackets
            fields = stat.read_bytes().rpartition(b")")[2].split()
            if int(fields[1]) == os.getpid():
                found.append(int(stat.parent.name))
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
