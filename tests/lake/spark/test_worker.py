"""Spark's Python workers acknowledge at once what Spark sends in two packets."""

from __future__ import annotations

import socket
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, BinaryIO

import pytest

from cdclake.lake.spark.worker import acknowledging

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake.lake.spark.worker import Worker

ROUNDS = 30
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
