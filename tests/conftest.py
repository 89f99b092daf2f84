"""Fixtures that many tests share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from moto import mock_aws

from cdclake.adapters.memory import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

REGION = "eu-central-1"


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still until a test moves it."""
    return ManualClock()


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """AWS embedded in this process, empty; boto3 finds made-up credentials and a region."""
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with mock_aws():
        yield
