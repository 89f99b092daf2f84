"""Makes Spark's Python workers start tasks faster: an empty task takes 15 ms instead of 65 ms."""

from __future__ import annotations

import gc
import io
import socket
import sys
from functools import cache
from typing import TYPE_CHECKING, BinaryIO
from zipimport import zipimporter

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import WriteableBuffer

    Worker = Callable[[BinaryIO, BinaryIO], None]

_MAIN = "worker_main"
"""Name of the function that runs a task. PySpark's daemon, the `__main__` of a worker, looks it up for each task."""
_BUFFER_BYTES = 65536  # the buffer of PySpark's daemon


@cache
def start_tasks_quickly() -> None:
    """If this process is a Spark worker, remove three delays from every later task.

    * PySpark calls `importlib.invalidate_caches` before a task. Since Python 3.10, each `zipimporter` then lists its
      archive again. Spark puts its own archives on the path, among them the 15 MB spark-core jar. The archives of a
      running worker do not change.
    * PySpark collects garbage after a task, and visits every object of every imported module.
    * Spark sends the task in two small packets. TCP holds back the second until the first is acknowledged (Nagle's
      algorithm), and the worker's side waits 40 ms before it acknowledges (delayed acknowledgement). Spark fixed the
      same problem in another of its sockets: https://github.com/apache/spark/pull/50460. On Linux, the reading side can
      only turn off the delayed acknowledgement.
    """
    main = sys.modules["__main__"]
    worker: Worker | None = getattr(main, _MAIN, None)
    if worker is None:
        return
    for importer in sys.path_importer_cache.values():
        if isinstance(importer, zipimporter):
            importer.invalidate_caches = _do_nothing  # type: ignore[method-assign]
    gc.freeze()
    if sys.platform == "linux":
        setattr(main, _MAIN, acknowledging(worker))


def acknowledging(worker: Worker) -> Worker:
    """Wrap a worker so that it acknowledges what it reads from its socket at once."""

    def work(infile: BinaryIO, outfile: BinaryIO) -> None:
        reader = _Acknowledging(infile)
        worker(io.BufferedReader(reader, _BUFFER_BYTES) if reader.is_tcp else infile, outfile)

    return work


class _Acknowledging(io.RawIOBase):
    """Reads a socket that is open as an unbuffered file."""

    def __init__(self, infile: BinaryIO) -> None:
        self._infile = infile  # closes the socket
        self._socket = socket.socket(fileno=infile.fileno())
        self.is_tcp = self._socket.family in {socket.AF_INET, socket.AF_INET6}

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        count = self._socket.recv_into(buffer)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)  # resets itself after each read
        return count

    def close(self) -> None:
        if not self.closed:
            self._socket.detach()
        super().close()


def _do_nothing() -> None:
    pass
