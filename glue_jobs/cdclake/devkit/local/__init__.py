"""The embedded AWS: S3, DynamoDB, Glue and Lambda on this machine, so that all of cdclake runs without an account."""

from cdclake.devkit.local.deploy import Deployment, deploy
from cdclake.devkit.local.server import EmbeddedAws
from cdclake.devkit.local.service import serve

__all__ = ["Deployment", "EmbeddedAws", "deploy", "serve"]
