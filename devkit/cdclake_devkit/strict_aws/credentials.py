"""Credentials that expire, as every role's credentials do."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any, Callable

from botocore.credentials import RefreshableCredentials

from cdclake_devkit.strict_aws.calls import Answer

if TYPE_CHECKING:
    from cdclake_devkit.strict_aws.calls import Call

_EXPIRED = {"s3": "ExpiredToken", "sts": "ExpiredToken", "cloudwatch": "ExpiredToken"}
"""The error code by service; ExpiredTokenException for all others.

https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/CommonErrors.html
"""


def utc_now() -> datetime:
    """The current time."""
    return datetime.now(timezone.utc)


class ExpiringCredentials:
    """Issues credentials, and refuses calls that are signed with expired ones. Other issuers' credentials pass.

    Args:
        lifetime_seconds: How long credentials are valid.
        clock: The current time.

    Attributes:
        issued: Number of credentials issued.
        refused: Number of calls refused.
    """

    def __init__(self, lifetime_seconds: float, clock: Callable[[], datetime] = utc_now) -> None:
        self._lifetime_seconds = lifetime_seconds
        self._clock = clock
        self._expiry: dict[str, datetime] = {}
        self._numbers = count(1)
        self._lock = Lock()
        self.issued = 0
        self.refused = 0

    def issue(self) -> dict[str, str]:
        """New credentials, in the form that botocore's providers return."""
        with self._lock:
            self.issued = next(self._numbers)
            key = f"ASIAEXPIRING{self.issued:08}"
            self._expiry[key] = expiry = self._clock() + timedelta(seconds=self._lifetime_seconds)
        return {"access_key": key, "secret_key": "fake", "token": f"token-{key}", "expiry_time": expiry.isoformat()}

    def renewing(self) -> Any:  # noqa: ANN401  botocore has no types
        """Credentials of a session, which botocore renews at half of their lifetime."""
        first, half = self.issue(), round(self._lifetime_seconds / 2)
        return RefreshableCredentials(
            first["access_key"],
            first["secret_key"],
            first["token"],
            expiry_time=datetime.fromisoformat(first["expiry_time"]),
            refresh_using=self.issue,
            method="test",
            time_fetcher=self._clock,
            advisory_timeout=half,
            mandatory_timeout=half,
        )

    def __call__(self, call: Call) -> Answer | None:
        """Refuse a call with expired credentials; a `Gate`. Both status and code are documented."""
        expiry = self._expiry.get(call.access_key)
        if expiry is None or self._clock() < expiry:
            return None
        with self._lock:
            self.refused += 1
        return Answer(400, _EXPIRED.get(call.service, "ExpiredTokenException"))
