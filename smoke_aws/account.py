"""The AWS account that the credentials of this shell belong to."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import boto3

from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path


class AwsAccount:
    """The `deploy_local.deployment.Services` of an account.

    Args:
        folder: Existing folder for results.

    Raises:
        ConfigurationError: No region is configured.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._session: Any = boto3.session.Session()
        self.region: str = self._session.region_name or ""
        if not self.region:
            raise ConfigurationError("No AWS region is configured", remedy="Set AWS_DEFAULT_REGION")
        self.client = lru_cache(self.new_client)

    @cached_property
    def number(self) -> str:
        """The account's number."""
        number: str = self.client("sts").get_caller_identity()["Account"]
        return number

    def new_client(self, service: str) -> Any:  # noqa: ANN401 - boto3 creates client classes at run time
        """A new boto3 client, which the caller closes."""
        return self._session.client(service, region_name=self.region)
