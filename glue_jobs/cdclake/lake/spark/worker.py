"""Makes Spark's Python workers start tasks quickly: a task that does nothing falls from 65 ms to 15 ms."""

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
"""By this name PySpark's daemon, whose module is a worker's `__main__`, calls what does a task."""
_BUFFER_BYTES = 65536  # as PySpark's daemon reads


@cache
def start_tasks_quickly() -> None:
    """Rid this process, if it is a worker of Spark, of three delays that come with each task after this one.

    * PySpark calls `importlib.invalidate_caches` before a task. Since Python 3.10 that makes each `zipimporter` list
      its archive anew, and Spark puts its own archives on the path, the 15 MB spark-core jar among them. The archives
      of a running worker do not change.
    * It collects garbage after a task, and goes through every object of every module that was ever imported.
    * Spark sends the task in two small packets. TCP holds back the second until the first is acknowledged (Nagle's
      algorithm), and the worker's side would do that only after 40 ms (delayed acknowledgement). Spark met the same in
      another of its sockets: https://github.com/apache/spark/pull/50460. Of Linux's, this is the one way out that the
      reading side has.
    """
    main = sys.modules["__main__"]
    worker: Worker | None = getattr(main, _MAIN, None)
    if worker is None:
        return
    for importer in sys.path_importer_cache.values():
        if isinstance(importer, zipimporter):
            importer.invalidate_caches = _nothing  # type: ignore[method-assign]
    gc.freeze()
    if sys.platform == "linux":
        setattr(main, _MAIN, acknowledging(worker))


def acknowledging(worker: Worker) -> Worker:
    """The same worker, which acknowledges at once whatever it reads from its socket."""

    def work(infile: BinaryIO, outfile: BinaryIO) -> None:
        reader = _Acknowledging(infile)
        worker(io.BufferedReader(reader, _BUFFER_BYTES) if reader.is_tcp else infile, outfile)

    return work


class _Acknowledging(io.RawIOBase):
    """Bytes from a socket that is open as a file, of which nothing was read ahead."""

    def __init__(self, infile: BinaryIO) -> None:
        self._infile = infile  # closes the socket
        self._socket = socket.socket(fileno=infile.fileno())
        self.is_tcp = self._socket.family in {socket.AF_INET, socket.AF_INET6}

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        count = self._socket.recv_into(buffer)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)  # holds for once
        return count

    def close(self) -> None:
        if not self.closed:
            self._socket.detach()
        super().close()


def _nothing() -> None:
    pass
