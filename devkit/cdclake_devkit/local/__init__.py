"""The embedded AWS: S3, DynamoDB, Glue and Lambda on this machine, so that cdclake runs without an AWS account."""

from cdclake_devkit.local.deploy import LocalDeployment, deploy
from cdclake_devkit.local.server import EmbeddedAws
from cdclake_devkit.local.service import serve

__all__ = ["EmbeddedAws", "LocalDeployment", "deploy", "serve"]
