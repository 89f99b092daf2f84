"""Counts the requests that AWS bills, as the embedded AWS gets them: those of boto3 and of Arrow alike."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs

from cdclake_devkit.strict_aws.calls import call_of_environ

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

PUT, GET, FREE = "S3 put", "S3 get", "S3 free"
"""S3's price classes: PUT, COPY, POST and LIST; GET and all others; DELETE. https://aws.amazon.com/s3/pricing/"""
SHARED = "S3 list for all tables"
"""Of the class PUT: the Controller lists the folders of all tables."""
_DELETES = ("Delete", "Abort")
_WRITES = ("Put", "Copy", "Post", "Create", "Upload", "Complete", "List")


class Request(NamedTuple):
    """One request.

    Attributes:
        billed: What it is billed as: S3's classes, or `<service> <operation>`.
        operation: Its name.
        key: Bucket and key of an object, as in its address.
        sent_bytes: Size of its body.
        begin: When it came, in seconds by the monotonic clock.
        end: When it was answered.
        cpu_seconds: The CPU time of the embedded AWS.
    """

    billed: str
    operation: str
    key: str
    sent_bytes: int
    begin: float
    end: float
    cpu_seconds: float


class Meter:
    """A middleware of the embedded AWS.

    Args:
        folder: The table's. Listings of other folders are for all tables.
        request_seconds: How long each request waits, as it does in a network.

    Attributes:
        requests: All requests, as they were answered.
    """

    def __init__(self, app: WSGIApplication, folder: str, request_seconds: float = 0.0) -> None:
        self._app, self._folder, self._request_seconds = app, folder, request_seconds
        self._paused = False
        self.requests: list[Request] = []

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Note a request, and answer it."""
        if self._paused:
            return self._app(environ, start_response)
        begin, cpu = time.perf_counter(), time.thread_time()
        time.sleep(self._request_seconds)
        answer = list(self._app(environ, start_response))
        request = Request(
            billed_as(environ, self._folder),
            call_of_environ(environ).operation,
            environ.get("PATH_INFO", "").strip("/"),
            int(environ.get("HTTP_X_AMZ_DECODED_CONTENT_LENGTH") or environ.get("CONTENT_LENGTH") or 0),
            begin,
            time.perf_counter(),
            time.thread_time() - cpu,
        )
        self.requests.append(request)
        return answer

    @property
    def billed(self) -> Counter[str]:
        """Number of requests by what is billed."""
        return Counter(request.billed for request in self.requests)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Count nothing in the block: what others do to the bucket."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False


def in_sequence(requests: Iterable[Request]) -> int:
    """The largest number of these requests of which each began after the one before it was answered."""
    count, answered = 0, float("-inf")
    for request in sorted(requests, key=lambda one: one.end):
        if request.begin >= answered:
            count, answered = count + 1, request.end
    return count


def billed_as(environ: WSGIEnvironment, folder: str) -> str:
    """What a request is billed as, see `Meter`."""
    call = call_of_environ(environ)
    if call.service != "s3":
        return f"{call.service} {call.operation}"
    prefix = parse_qs(environ.get("QUERY_STRING", "")).get("prefix", [""])[0]
    if call.operation.startswith("List") and folder not in prefix:
        return SHARED
    return FREE if call.operation.startswith(_DELETES) else PUT if call.operation.startswith(_WRITES) else GET
