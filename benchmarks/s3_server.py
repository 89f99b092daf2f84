"""A real S3 server, SeaweedFS, behind a proxy that delays each request, as a network does, and counts it."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Callable, Iterable, Iterator, Sequence

DELAY_S = 0.03
_HOST = "127.0.0.1"
_KEY = "benchmarks"
_START_SECONDS = 60
_COPY_BYTES = 1 << 18
_IDENTITY = {"name": _KEY, "credentials": [{"accessKey": _KEY, "secretKey": _KEY}], "actions": ["Admin"]}


@dataclass
class S3Request:
    """A request.

    Attributes:
        at: Its arrival, in `time.monotonic`.
        method: Its HTTP method.
        path: Its path with the query.
        answered: When the last byte of the response arrived; `at` until then.
    """

    at: float
    method: str
    path: str
    answered: float


class S3Server(NamedTuple):
    """A running server.

    Attributes:
        environment: The AWS SDKs' variables with which a process uses it.
        requests: All requests so far.
    """

    environment: dict[str, str]
    requests: list[S3Request]


def in_sequence(requests: Iterable[S3Request]) -> int:
    """The greatest number of requests of which each began after the one before was answered."""
    count, end = 0, 0.0
    for request in sorted(requests, key=attrgetter("answered")):
        if request.at >= end:
            count, end = count + 1, request.answered
    return count


@contextmanager
def s3_server(folder: Path, log: Path, delay_s: float = DELAY_S) -> Iterator[S3Server]:
    """Run an S3 server on the data in a folder.

    Args:
        folder: Created if it does not exist.
        log: File for the server's output.
        delay_s: Time that passes between the arrival of a request and its arrival at the server.

    Raises:
        RuntimeError: The server does not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "s3.json"
    config.write_text(json.dumps({"identities": [_IDENTITY]}), encoding="utf-8")
    names = ("master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc")
    ports = dict(zip((*names, "s3.port", "s3.port.grpc"), _free_ports(len(names) + 2), strict=True))
    flags = {
        "dir": folder,
        "ip": _HOST,
        "ip.bind": _HOST,
        "master.volumeSizeLimitMB": 1024,
        "volume.max": 100,
        "volume.preStopSeconds": 0,
        "s3": "true",
        "s3.config": config,
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
        **ports,
    }
    program = Path(sys.executable).with_name("weed")
    command = [str(program), "server", *(f"-{name}={value}" for name, value in flags.items())]
    with ExitStack() as stack:
        output = stack.enter_context(log.open("w", encoding="utf-8"))
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        stack.callback(process.wait)
        stack.callback(process.terminate)
        # The master assigns a place for an object only when it knows the volume server.
        _wait_for(process, f"http://{_HOST}:{ports['master.port']}/dir/assign", log)
        _wait_for(process, f"http://{_HOST}:{ports['s3.port']}/healthz", log)
        requests: list[S3Request] = []
        endpoint = stack.enter_context(delaying_proxy(ports["s3.port"], delay_s, requests))
        environment = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _KEY,
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        yield S3Server(environment, requests)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((_HOST, 0))
        return [one.getsockname()[1] for one in sockets]


def _wait_for(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with suppress(URLError, ConnectionError), urlopen(url, timeout=5):
            return
        time.sleep(0.1)
    message = f"the S3 server does not start; see {log}"
    raise RuntimeError(message)


@contextmanager
def delaying_proxy(port: int, delay_s: float, requests: list[S3Request]) -> Iterator[str]:
    """Forward HTTP requests to a port of this machine, each after a delay, and record them; returns the proxy's URL."""

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection(_HOST, port)
        own: list[S3Request] = []
        answers = asyncio.create_task(_copy_answers(upstream_reader, writer, own))
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                method, path, _ = head.decode("latin-1").split(" ", 2)
                own.append(S3Request(now := time.monotonic(), method, path, now))
                requests.append(own[-1])
                await asyncio.sleep(delay_s)
                upstream_writer.write(head)
                await _copy_body(head, reader, upstream_writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client closed its connection, or the proxy stops
        finally:
            upstream_writer.close()
            with suppress(asyncio.CancelledError):
                await answers

    async def run() -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(serve, _HOST)
        started.set_result((server.sockets[0].getsockname()[1], lambda: loop.call_soon_threadsafe(stop.set)))
        await stop.wait()
        server.close()

    started: Future[tuple[int, Callable[[], object]]] = Future()
    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    own_port, stop_server = started.result()
    try:
        yield f"http://{_HOST}:{own_port}"
    finally:
        stop_server()
        thread.join()


async def _copy_answers(reader: StreamReader, writer: StreamWriter, requests: Sequence[S3Request]) -> None:
    """Copy the responses of a connection; each follows its request, which is the last one then."""
    try:
        while data := await reader.read(_COPY_BYTES):
            writer.write(data)
            await writer.drain()
            requests[-1].answered = time.monotonic()
    except ConnectionError:
        pass  # one side closed its connection
    finally:
        writer.close()


async def _copy_body(head: bytes, reader: StreamReader, writer: StreamWriter) -> None:
    """Copy the body of a request with a length, or in chunks."""
    lines = (line.partition(b":") for line in head.lower().split(b"\r\n")[1:])
    headers = {name: value.strip() for name, _, value in lines}
    if headers.get(b"transfer-encoding") != b"chunked":
        await _copy_bytes(int(headers.get(b"content-length", 0)), reader, writer)
        return
    while True:
        line = await reader.readuntil(b"\r\n")
        writer.write(line)
        size = int(line.partition(b";")[0], 16)
        if not size:
            break
        await _copy_bytes(size + 2, reader, writer)
    while line.strip():  # trailers end with an empty line
        line = await reader.readuntil(b"\r\n")
        writer.write(line)
    await writer.drain()


async def _copy_bytes(count: int, reader: StreamReader, writer: StreamWriter) -> None:
    while count:
        data = await reader.read(min(count, _COPY_BYTES))
        if not data:
            raise asyncio.IncompleteReadError(data, count)
        writer.write(data)
        await writer.drain()
        count -= len(data)
