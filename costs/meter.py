"""Counts the requests that AWS bills, as the embedded AWS gets them: those of boto3 and of Arrow alike."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING
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


class Meter:
    """A middleware of the embedded AWS.

    Args:
        folder: The table's. Listings of other folders are for all tables.

    Attributes:
        requests: Number of requests by what is billed: S3's classes, or `<service> <operation>`.
    """

    def __init__(self, app: WSGIApplication, folder: str) -> None:
        self._app, self._folder = app, folder
        self._paused = False
        self.requests: Counter[str] = Counter()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Count a request, and answer it."""
        if not self._paused:
            self.requests[billed_as(environ, self._folder)] += 1
        return self._app(environ, start_response)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Count nothing in the block: what others do to the bucket."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False


def billed_as(environ: WSGIEnvironment, folder: str) -> str:
    """What a request is billed as, see `Meter`."""
    call = call_of_environ(environ)
    if call.service != "s3":
        return f"{call.service} {call.operation}"
    prefix = parse_qs(environ.get("QUERY_STRING", "")).get("prefix", [""])[0]
    if call.operation.startswith("List") and folder not in prefix:
        return SHARED
    return FREE if call.operation.startswith(_DELETES) else PUT if call.operation.startswith(_WRITES) else GET
