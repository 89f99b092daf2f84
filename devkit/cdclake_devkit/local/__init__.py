"""The embedded AWS: S3, DynamoDB, Glue, Lambda and EventBridge, so that cdclake runs without an AWS account."""

from cdclake_devkit.local.deploy import LocalDeployment, deploy
from cdclake_devkit.local.server import EmbeddedAws
from cdclake_devkit.local.service import run, serve

__all__ = ["EmbeddedAws", "LocalDeployment", "deploy", "run", "serve"]
