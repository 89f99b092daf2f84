"""Spark's Python workers start tasks quickly if PySpark is as expected, and as before if it is not."""

from __future__ import annotations

import gc
import importlib
import io
import os
import socket
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO
from zipfile import ZipFile
from zipimport import zipimporter

import pyarrow as pa
import pyspark
import pytest
from pyspark import daemon
from pyspark import worker as pyspark_worker

from cdclake.lake.spark import worker as worker_module
from cdclake.lake.spark.spark_backend import SparkBackend
from cdclake.lake.spark.task_errors import SparkTask
from cdclake.lake.spark.worker import VARIABLE, acknowledging, is_known_daemon, remove_delays, start_tasks_quickly
from tests.cdclake.lake.table import Table, by_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from pyspark import SparkContext

    from cdclake.lake.spark.worker import Worker
    from cdclake_devkit.oracle import LakeRow

ROUNDS = 11
DELAYED_ACKNOWLEDGEMENT_S = 0.04

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this socket option")


@pytest.fixture
def connection() -> Iterator[tuple[socket.socket, socket.socket]]:
    with ExitStack() as opened:
        listener = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        sender = opened.enter_context(socket.create_connection(listener.getsockname()))
        yield sender, opened.enter_context(listener.accept()[0])


def answer(infile: BinaryIO, outfile: BinaryIO) -> None:
    """Stands in for PySpark's worker: reads head and body, and answers."""
    assert infile.read(4) + infile.read(4) == b"headbody"
    outfile.write(b"done")
    outfile.flush()


def median_seconds(sender: socket.socket, receiver: socket.socket, worker: Worker) -> float:
    """Median duration of a round that sends head and body one after the other."""

    def work() -> None:
        for _ in range(ROUNDS):
            number = receiver.fileno()
            with open(number, "rb", closefd=False) as infile, open(number, "wb", closefd=False) as outfile:
                worker(infile, outfile)

    took = []
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        for _ in range(ROUNDS):
            started = time.perf_counter()
            sender.sendall(b"head")
            sender.sendall(b"body")
            assert sender.recv(4) == b"done"
            took.append(time.perf_counter() - started)
        working.result()
    return statistics.median(took)


@linux
def test_a_second_packet_does_not_wait_for_a_delayed_acknowledgement(
    connection: tuple[socket.socket, socket.socket],
) -> None:
    assert median_seconds(*connection, acknowledging(answer)) < DELAYED_ACKNOWLEDGEMENT_S / 2


@pytest.mark.slow
@linux
def test_without_the_wrapper_every_round_waits(connection: tuple[socket.socket, socket.socket]) -> None:
    assert median_seconds(*connection, answer) > DELAYED_ACKNOWLEDGEMENT_S / 2


def test_a_connection_without_tcp_works_as_before() -> None:
    sender, receiver = socket.socketpair()
    with sender, receiver:
        assert median_seconds(sender, receiver, acknowledging(answer)) < 1


def greeting_in(infile: BinaryIO) -> bytes:
    """What a wrapped worker reads from this file; it must be given the file itself."""
    read = []

    def work(given: BinaryIO, _outfile: BinaryIO) -> None:
        assert given is infile
        read.append(given.read(5))

    acknowledging(work)(infile, io.BytesIO())
    return read[0]


def test_what_the_file_has_read_ahead_is_not_lost(connection: tuple[socket.socket, socket.socket]) -> None:
    sender, receiver = connection
    sender.sendall(b"secrethello")
    with open(receiver.fileno(), "rb", closefd=False) as infile:
        assert infile.read(6) == b"secret"
        assert greeting_in(infile) == b"hello"


def test_a_connection_that_has_ended_ends_the_file(connection: tuple[socket.socket, socket.socket]) -> None:
    sender, receiver = connection
    sender.close()
    with open(receiver.fileno(), "rb", closefd=False) as infile:
        assert greeting_in(infile) == b""


def test_the_connection_stays_open_for_the_next_task(connection: tuple[socket.socket, socket.socket]) -> None:
    sender, receiver = connection
    for _ in range(2):
        sender.sendall(b"hello")
        with os.fdopen(os.dup(receiver.fileno()), "rb") as infile:
            assert greeting_in(infile) == b"hello"


def test_a_default_timeout_leaves_the_connection_blocking(connection: tuple[socket.socket, socket.socket]) -> None:
    sender, receiver = connection
    sender.sendall(b"hello")
    socket.setdefaulttimeout(5)
    try:
        with open(receiver.fileno(), "rb", closefd=False) as infile:
            assert greeting_in(infile) == b"hello"
    finally:
        socket.setdefaulttimeout(None)
    assert os.get_blocking(receiver.fileno())


class RecordingReader(io.BufferedReader):
    """Knows whether anybody has waited for its first bytes."""

    waited = False

    def peek(self, size: int = 0, /) -> bytes:
        self.waited = True
        return super().peek(size)


def pipe() -> io.RawIOBase:
    reading, writing = os.pipe()
    os.write(writing, b"hello")
    os.close(writing)
    return io.FileIO(reading, "rb")


def raw_file(family: int) -> io.RawIOBase:
    """A connection as PySpark's daemon opens it."""
    return io.FileIO(connected(family).detach(), "rb")


def connected(family: int) -> socket.socket:
    """A connection that has brought a greeting."""
    with socket.socket(family) as listener:
        listener.bind(("127.0.0.1", 0) if family == socket.AF_INET else "")  # "": Linux chooses a name
        listener.listen()
        with socket.socket(family) as sender:
            sender.connect(listener.getsockname())
            sender.sendall(b"hello")
        return listener.accept()[0]


def timed_file() -> io.RawIOBase:
    """A file of Python's own for a connection: after a timeout it cannot be read again."""
    with connected(socket.AF_INET) as receiver:
        return receiver.makefile("rb", buffering=0)


@linux
@pytest.mark.parametrize(
    ("opened", "acknowledged"),
    [
        (lambda: raw_file(socket.AF_INET), True),
        (lambda: raw_file(socket.AF_UNIX), False),
        (timed_file, False),
        (pipe, False),
        (lambda: io.BytesIO(b"hello"), False),
    ],
    ids=["tcp", "unix domain", "socket file", "pipe", "memory"],
)
def test_only_a_raw_file_of_a_tcp_connection_is_acknowledged(
    opened: Callable[[], io.RawIOBase], acknowledged: bool
) -> None:
    with RecordingReader(opened()) as infile:
        assert greeting_in(infile) == b"hello"
        assert infile.waited == acknowledged


def test_the_worker_itself_reports_a_file_that_cannot_be_read() -> None:
    infile = io.BufferedReader(pipe())
    infile.close()
    with pytest.raises(ValueError, match="closed file"):
        greeting_in(infile)


def test_an_error_of_the_task_passes() -> None:
    def work(_infile: BinaryIO, _outfile: BinaryIO) -> None:
        sys.exit(3)

    with pytest.raises(SystemExit):
        acknowledging(work)(io.BytesIO(), io.BytesIO())


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """PySpark's daemon as the main module of this process."""
    module = ModuleType("__main__")
    vars(module).update({**vars(daemon), "__name__": "__main__"})
    monkeypatch.setitem(sys.modules, "__main__", module)
    monkeypatch.setattr(sys, "path_importer_cache", {})
    monkeypatch.delenv(VARIABLE, raising=False)
    gc.unfreeze()
    yield module
    gc.freeze()  # as it is between tests: see `tests/conftest.py`


def other_program(main: ModuleType, _patch: pytest.MonkeyPatch) -> None:
    main.__spec__ = None


def worker_without_daemon(main: ModuleType, _patch: pytest.MonkeyPatch) -> None:
    main.__spec__ = pyspark_worker.__spec__


def no_function(main: ModuleType, _patch: pytest.MonkeyPatch) -> None:
    del main.worker_main


def replaced_function(main: ModuleType, _patch: pytest.MonkeyPatch) -> None:
    setattr(main, "worker_main", lambda infile, outfile: None)  # noqa: B010 - mypy knows no such attribute


def other_parameters(main: ModuleType, patch: pytest.MonkeyPatch) -> None:
    replaced_in_both(main, patch, lambda infile, outfile, profile: None)


def not_callable(main: ModuleType, patch: pytest.MonkeyPatch) -> None:
    replaced_in_both(main, patch, "main")


def replaced_in_both(main: ModuleType, patch: pytest.MonkeyPatch, value: object) -> None:
    patch.setattr(pyspark_worker, "main", value)
    patch.setattr(main, "worker_main", value)


def unknown_version(_main: ModuleType, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pyspark, "__version__", "5.0.0")


def no_version(_main: ModuleType, patch: pytest.MonkeyPatch) -> None:
    patch.delattr(pyspark, "__version__")


def no_worker_module(_main: ModuleType, patch: pytest.MonkeyPatch) -> None:
    patch.delitem(sys.modules, "pyspark.worker")


@pytest.mark.parametrize(
    "change",
    [
        other_program,
        worker_without_daemon,
        no_function,
        replaced_function,
        other_parameters,
        not_callable,
        unknown_version,
        no_version,
        no_worker_module,
    ],
)
def test_nothing_changes_in_a_process_that_looks_different(
    change: Callable[[ModuleType, pytest.MonkeyPatch], None],
    main: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert is_known_daemon(main)
    change(main, monkeypatch)
    before = dict(vars(main))
    start_tasks_quickly.__wrapped__()
    assert vars(main) == before
    assert gc.get_freeze_count() == 0
    assert not caplog.records


@pytest.mark.parametrize(("value", "quick"), [(None, True), ("true", True), ("false", False), ("0", False)])
def test_the_variable_switches_it(
    value: str | None, quick: bool, main: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is not None:
        monkeypatch.setenv(VARIABLE, value)
    start_tasks_quickly.__wrapped__()
    assert (gc.get_freeze_count() > 0) == quick
    assert (main.worker_main is not pyspark_worker.main) == (quick and sys.platform == "linux")


def test_a_failure_does_not_reach_the_task(
    main: ModuleType, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_main: ModuleType) -> None:
        raise RuntimeError

    monkeypatch.setattr(worker_module, "remove_delays", fail)
    start_tasks_quickly.__wrapped__()
    assert "tasks do not start quickly" in caplog.text


def test_only_a_changed_archive_is_listed_again(tmp_path: Path, main: ModuleType) -> None:
    archive = str(tmp_path / "modules.zip")
    write_modules(archive, ["first"])
    importer = sys.path_importer_cache[archive] = zipimporter(archive)
    listings: list[None] = []
    list_again = importer.invalidate_caches
    importer.invalidate_caches = lambda: listings.append(list_again())  # type: ignore[method-assign]
    remove_delays(main)

    importlib.invalidate_caches()
    assert not listings
    write_modules(archive, ["first", "second"])
    for _ in range(2):
        importlib.invalidate_caches()
    assert len(listings) == 1
    assert importer.find_spec("second")


def write_modules(archive: str, names: Iterable[str]) -> None:
    with ZipFile(archive, "w") as opened:
        for name in names:
            opened.writestr(f"{name}.py", "")


@pytest.mark.long
def test_spark_computes_the_same_with_and_without(
    tmp_path: Path, spark: SparkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def has_frozen(_number: int) -> bool:
        return gc.get_freeze_count() > 0

    def computed(value: str) -> tuple[bool, list[LakeRow]]:
        # What PySpark takes from spark.executorEnv when it starts.
        monkeypatch.setitem(spark.environment, VARIABLE, value)
        table = Table(tmp_path / value, pa.schema([("id", pa.int64()), ("n", pa.int64())]), {"PrimaryKey": "id"})
        table.spark = SparkBackend(spark)
        table.load([{"id": number, "n": number} for number in range(100)])
        table.apply_file("20240305-100000000.parquet", [("U", {"id": 7, "n": 0}), ("D", {"id": 8, "n": 8})])
        quick = spark.parallelize(range(8), 8).map(SparkTask(has_frozen)).collect()
        return any(quick), by_key(table.rows(), ("id",))

    (quick, rows), (slow, same_rows) = computed("true"), computed("false")
    assert (quick, slow) == (True, False)
    assert rows == same_rows
    assert len(rows) == 99
