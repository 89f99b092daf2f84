"""Runs a process and watches the memory of everything it starts. Linux: it reads /proc."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SAMPLE_SECONDS = 0.1
_SAMPLES_PER_LOOK = 3
"""Processes come and go less often than their memory changes, and finding them costs more than reading it."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Sample(NamedTuple):
    """Resident memory of a process tree at a moment of `time.monotonic`; pages that processes share count for each."""

    at: float
    rss_bytes: int


class Finished(NamedTuple):
    """A process that ended.

    Attributes:
        code: Its exit code; None if it did not end in time and was killed.
        started: Moment it was started, of `time.monotonic`.
        samples: Memory from start to end.
    """

    code: int | None
    started: float
    samples: tuple[Sample, ...]

    def peak_rss_bytes(self, until: float) -> int:
        """The most memory at any moment up to a given one."""
        return max((sample.rss_bytes for sample in self.samples if sample.at <= until), default=0)


def run(command: Sequence[str], environment: Mapping[str, str], output: IO[str], timeout_seconds: float) -> Finished:
    """Run a command in a session of its own, and end what it leaves running.

    Args:
        output: Takes what it prints, errors as well.
    """
    started = time.monotonic()
    process = subprocess.Popen(
        command, env=dict(environment), stdout=output, stderr=subprocess.STDOUT, start_new_session=True
    )
    watch = _Watch(process.pid)
    watch.start()
    code: int | None
    try:
        code = process.wait(timeout_seconds)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        watch.ended.set()
        for pid in session_members(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        watch.join()
    return Finished(code, started, tuple(watch.samples))


class _Watch(threading.Thread):
    """Samples the memory of a session's processes until told that it ended."""

    def __init__(self, session: int) -> None:
        super().__init__(daemon=True)
        self.samples: list[Sample] = []
        self.ended = threading.Event()
        self._session = session

    def run(self) -> None:
        members: list[int] = []
        while not self.ended.wait(SAMPLE_SECONDS):
            if len(self.samples) % _SAMPLES_PER_LOOK == 0:
                members = session_members(self._session)
            self.samples.append(Sample(time.monotonic(), sum(map(_rss_bytes, members))))


def session_members(session: int) -> list[int]:
    """Ids of the processes in a session: the one that began it, and all their children, orphaned ones as well."""
    return [
        int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit() and _session(folder) == session
    ]


def _session(folder: Path) -> int | None:
    try:
        text = (folder / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(text.rpartition(")")[2].split()[3])  # proc(5): after the name come state, parent, group, session


def _rss_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except (FileNotFoundError, ProcessLookupError):
        return 0
