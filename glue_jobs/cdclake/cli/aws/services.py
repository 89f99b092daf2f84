"""The AWS services a command talks to."""

from __future__ import annotations

import os
import re
from datetime import datetime, timezone
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Callable
from urllib.parse import urlsplit
from uuid import uuid4

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from cdclake.adapters.catalog import GlueCatalog
from cdclake.adapters.dms import DmsStatistics
from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.glue import GlueJobs
from cdclake.adapters.s3 import S3Store
from cdclake.cli.aws.job_history import GlueHistory
from cdclake.commit.log import ChangeLog
from cdclake.control.admin.table_admin import RegisteredTable
from cdclake.control.controller import Source
from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from cdclake.cli.options import Target
    from cdclake.control.admin.installation import Installation
    from cdclake.model.table import TableName

# A person waits: fewer and shorter tries than the jobs make.
_CONFIG = Config(
    retries={"mode": "standard", "total_max_attempts": 3}, connect_timeout=5, read_timeout=60, max_pool_connections=32
)
_ENDPOINT = re.compile(r"https?://[^/?#\s]+")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Services:
    """Adapters for a target, made when first used.

    Args:
        target: What the command works on.
        client: Makes a boto3 client of a service.
    """

    def __init__(self, target: Target, client: Callable[[str], Any]) -> None:
        self._target = target
        self._client = client

    @cached_property
    def state(self) -> DynamoState:
        """The state table."""
        return DynamoState(self._client("dynamodb"), self._target.state_table)

    @cached_property
    def raw(self) -> S3Store:
        """The raw bucket."""
        return S3Store(self._client("s3"), self._target.raw_bucket)

    @cached_property
    def lake(self) -> S3Store:
        """The lake bucket."""
        return S3Store(self._client("s3"), self._target.lake_bucket)

    @cached_property
    def jobs(self) -> GlueJobs:
        """The Glue jobs."""
        return GlueJobs(self._client("glue"))

    @cached_property
    def statistics(self) -> DmsStatistics:
        """How far DMS tasks are."""
        return DmsStatistics(lambda: self._client("dms"))

    @cached_property
    def history(self) -> GlueHistory:
        """Their runs."""
        return GlueHistory(self._client("glue"))

    def catalog(self, database: str) -> GlueCatalog:
        """A database of the Glue Data Catalog."""
        return GlueCatalog(self._client("glue"), database)

    @property
    def installation(self) -> Installation:
        """The buckets and the state table."""
        return self._target.installation

    @property
    def source(self) -> Source:
        """What a plan is made from."""
        target = self._target
        return Source(self.raw, self.state, target.raw_bucket, target.installation.raw_folder, self.statistics)

    def log(self, name: TableName) -> ChangeLog:
        """A lake table's change log."""
        return ChangeLog(self.lake, self._target.installation.layout(name))

    def open_table(self, name: TableName, made_by: str = "") -> RegisteredTable:
        """A registered table and its lake table, for one thing that a person does to it.

        Args:
            name: The table.
            made_by: The person, for the change record.

        Raises:
            UnknownTableError: It is not registered.
        """
        state = self._target.installation.find_table(self.state, name)
        run_id = f"by-hand-{uuid4().hex}"
        return RegisteredTable(self.state, state, self.log(name), run_id, now_utc, self.catalog, made_by)


def now_utc() -> datetime:
    """The time."""
    return datetime.now(timezone.utc)


def connect(target: Target) -> Services:
    """The services of a target, with the credentials that the AWS CLI would use.

    Raises:
        botocore.exceptions.BotoCoreError: There is no such profile.
    """
    client = partial(session_of(target).client, endpoint_url=endpoint_of(target), config=_CONFIG)
    return Services(target, client)


def stack_outputs(target: Target) -> dict[str, str]:
    """What the target's CloudFormation stack tells, by name.

    Raises:
        ConfigurationError: There is no such stack.
    """
    client = session_of(target).client("cloudformation", endpoint_url=endpoint_of(target), config=_CONFIG)
    try:
        (stack,) = client.describe_stacks(StackName=target.stack or "")["Stacks"]
    except ClientError as error:
        if (
            error.response.get("Error", {}).get("Code") != "ValidationError"
        ):  # how CloudFormation says that there is none
            raise
        message = f"There is no CloudFormation stack {target.stack} in this account and region"
        raise ConfigurationError(message, remedy="Correct --stack or CDCLAKE_STACK, --profile or --region") from error
    return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}


def endpoint_of(target: Target) -> str | None:
    """URL to use in place of AWS's own; None for that.

    Raises:
        ConfigurationError: It is no URL.
    """
    endpoint = target.endpoint_url or os.environ.get("AWS_ENDPOINT_URL") or None
    if endpoint and not _ENDPOINT.match(endpoint):
        message = f"'{endpoint}' is not the URL of an endpoint"
        raise ConfigurationError(message, remedy="Write --endpoint-url or AWS_ENDPOINT_URL as http://host:port")
    return endpoint


def session_of(target: Target) -> boto3.Session:
    """The boto3 session to work on a target with.

    Raises:
        botocore.exceptions.BotoCoreError: There is no such profile.
    """
    session = boto3.Session(profile_name=target.profile, region_name=target.region)
    if urlsplit(endpoint_of(target) or "").hostname in _LOOPBACK:
        return _with_anything_missing(session, target.profile)
    return session


def _with_anything_missing(session: boto3.Session, profile: str | None) -> boto3.Session:
    """The embedded AWS on this machine takes any credentials and region, so having none is no reason to stop."""
    region = session.region_name or "us-east-1"
    if session.get_credentials() is None:
        return boto3.Session("local", "local", region_name=region)
    return boto3.Session(profile_name=profile, region_name=region)
