"""Sends OpenLineage events over HTTP."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import urllib3

from cdclake import logs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SECONDS = 2.0
"""The run holds its table's lease meanwhile, so an endpoint that hangs must not cost much time."""
_TAKEN = range(200, 300)
"""HTTP statuses. A redirect is followed by nobody."""
_logger = logs.bind(__name__)


class HttpLineage:
    """A `LineageSink` that posts each event as JSON: https://openlineage.io/apidocs/openapi.

    It asks an endpoint that failed no more in this process: a run of many tables waits for it once.

    Args:
        url: The job argument `lineage_url`, such as `http://marquez.internal:5000/api/v1/lineage`.
        seconds: How long to wait for a connection, and for an answer.
    """

    def __init__(self, url: str, seconds: float = _SECONDS) -> None:
        self._url = url
        self._pool = urllib3.PoolManager(timeout=seconds, retries=False)
        self._failed = False

    def send(self, events: Sequence[Mapping[str, object]]) -> bool:
        """Send events, in order; see `LineageSink`."""
        for event in events:
            if self._failed:
                return False
            self._failed = not self._post(event)
        return not self._failed

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
