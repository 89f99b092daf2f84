"""The embedded AWS: S3, DynamoDB, Glue and Lambda on this machine, so that cdclake runs without an AWS account."""

from cdclake.devkit.local.deploy import LocalDeployment, deploy
from cdclake.devkit.local.server import EmbeddedAws
from cdclake.devkit.local.service import serve

__all__ = ["EmbeddedAws", "LocalDeployment", "deploy", "serve"]
