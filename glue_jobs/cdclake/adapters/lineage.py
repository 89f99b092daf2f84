"""Sends OpenLineage events over HTTP."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import urllib3

from cdclake import logs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SECONDS = 2.0
"""The run holds its table's lease meanwhile, so an endpoint that hangs must not cost much time."""
_PAUSE_SECONDS = 60.0
"""An endpoint that failed is asked again after it: a process may be a container that lives for hours."""
_TAKEN = range(200, 300)
"""HTTP statuses. A redirect is followed by nobody."""
_logger = logs.bind(__name__)


class HttpLineage:
    """A `LineageSink` that posts each event as JSON: https://openlineage.io/apidocs/openapi.

    It asks an endpoint that failed no more for a minute: a run of many tables waits for it once.

    Args:
        url: The job argument `lineage_url`, such as `http://marquez.internal:5000/api/v1/lineage`.
        seconds: How long to wait for a connection, and for an answer.
        pause_seconds: How long not to ask an endpoint that failed.
    """

    def __init__(self, url: str, seconds: float = _SECONDS, pause_seconds: float = _PAUSE_SECONDS) -> None:
        self._url = url
        self._pool = urllib3.PoolManager(timeout=seconds, retries=False)
        self._pause_seconds = pause_seconds
        self._ask_again_at = 0.0  # of the process's clock

    def send(self, events: Sequence[Mapping[str, object]]) -> bool:
        """Send events, in order; see `LineageSink`."""
        if time.monotonic() < self._ask_again_at:
            return False
        if all(map(self._post, events)):
            return True
        self._ask_again_at = time.monotonic() + self._pause_seconds
        return False

    def _post(self, event: Mapping[str, object]) -> bool:
        headers = {"Content-Type": "application/json"}
        try:
            answer = self._pool.request("POST", self._url, body=json.dumps(event).encode(), headers=headers)
        except (urllib3.exceptions.HTTPError, ValueError) as error:  # ValueError: the URL has no host
            reason = type(error).__name__
        else:
            if answer.status in _TAKEN:
                return True
            reason = f"HTTP {answer.status}"
        _logger.warning("no lineage was sent to %s: %s. Later runs send it", self._url, reason)
        return False
