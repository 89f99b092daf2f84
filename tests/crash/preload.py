"""Imports everything that runs need, once, in the process that all runs are forked from."""

from __future__ import annotations

import boto3

import cdclake.lake.storage.iceberg_manifests  # noqa: F401 - imported by the first change of an Iceberg table
import tests.crash.children  # noqa: F401 - imports everything that a run needs
from cdclake_devkit.local.environment import DEFAULT_REGION

# A session reads the models of its services from disk once. These clients have no usable credentials or endpoint.
boto3.setup_default_session(region_name=DEFAULT_REGION)
for service in ("s3", "dynamodb"):
    boto3.client(service, aws_access_key_id="none", aws_secret_access_key="none")
