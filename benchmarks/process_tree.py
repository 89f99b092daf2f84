"""Runs a process and samples the memory of all its descendants. Linux only: it reads /proc."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SAMPLE_SECONDS = 0.1
_SAMPLES_PER_SEARCH = 3
"""Finding processes costs more than reading their memory, and they start and end less often than it changes."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Sample(NamedTuple):
    """Resident memory of a process tree at a `time.monotonic` time, see `resident_bytes`."""

    at: float
    rss_bytes: int


class FinishedProcess(NamedTuple):
    """A process that ended.

    Attributes:
        code: Exit code; None if the process was killed after the timeout.
        started: `time.monotonic` at the start.
        samples: Memory from start to end.
    """

    code: int | None
    started: float
    samples: tuple[Sample, ...]

    def peak_rss_bytes(self, until: float) -> int:
        """The peak memory up to a `time.monotonic` time."""
        return max((sample.rss_bytes for sample in self.samples if sample.at <= until), default=0)


def run(
    command: Sequence[str], environment: Mapping[str, str], output: IO[str], timeout_seconds: float
) -> FinishedProcess:
    """Run a command in a new session, and kill everything it leaves running.

    Args:
        command: Program and arguments.
        output: File for standard output and standard error.
        timeout_seconds: When to kill the process.
    """
    started = time.monotonic()
    process = subprocess.Popen(
        command, env=dict(environment), stdout=output, stderr=subprocess.STDOUT, start_new_session=True
    )
    sampler = _MemorySampler(process.pid)
    sampler.start()
    code: int | None
    try:
        code = process.wait(timeout_seconds)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        sampler.ended.set()
        for pid in session_members(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        sampler.join()
    return FinishedProcess(code, started, tuple(sampler.samples))


class _MemorySampler(threading.Thread):
    """Samples the memory of a session's processes until `ended` is set."""

    def __init__(self, session: int) -> None:
        super().__init__(daemon=True)
        self.samples: list[Sample] = []
        self.ended = threading.Event()
        self._session = session

    def run(self) -> None:
        members: list[int] = []
        while not self.ended.wait(SAMPLE_SECONDS):
            if len(self.samples) % _SAMPLES_PER_SEARCH == 0:
                members = session_members(self._session)
            self.samples.append(Sample(time.monotonic(), resident_bytes(members)))


def session_members(session: int) -> list[int]:
    """Ids of the processes in a session, including orphaned descendants."""
    return [
        int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit() and _session(folder) == session
    ]


def _session(folder: Path) -> int | None:
    try:
        text = (folder / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(text.rpartition(")")[2].split()[3])  # proc(5): the name is followed by state, parent, group, session


def resident_bytes(pids: Iterable[int]) -> int:
    """Resident memory of processes. What processes of one program have of files, such as its libraries, counts once.

    These share the pages, and the process that has most of them has nearly all. The exact sum, `Pss` in
    `/proc/<pid>/smaps_rollup`, takes 90 ms for Spark's five processes with 1.6 GB.
    """
    own_pages, file_pages = 0, Counter[str]()
    for pid in pids:
        folder = Path(f"/proc/{pid}")
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            _, resident, shared, *_ = map(int, (folder / "statm").read_text().split())
            own_pages += resident - shared
            program = str((folder / "exe").readlink())
            file_pages[program] = max(file_pages[program], shared)
    return (own_pages + file_pages.total()) * _PAGE_BYTES
