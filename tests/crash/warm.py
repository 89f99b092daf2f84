"""Imported once by the process that all runs are forked from, so that none of them waits for it."""

from __future__ import annotations

import boto3

import tests.crash.children  # noqa: F401 - and with it, everything a run needs
from cdclake.devkit.local.environment import DEFAULT_REGION

# A session reads its models of the services from disk once. One with credentials or an endpoint is not made here.
boto3.setup_default_session(region_name=DEFAULT_REGION)
for service in ("s3", "dynamodb"):
    boto3.client(service, aws_access_key_id="none", aws_secret_access_key="none")
