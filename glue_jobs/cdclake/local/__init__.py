"""The embedded AWS: S3, DynamoDB, Glue and Lambda on this machine, so that all of cdclake runs without an account."""

from cdclake.local.deploy import Deployment, deploy
from cdclake.local.server import EmbeddedAws
from cdclake.local.service import serve

__all__ = ["Deployment", "EmbeddedAws", "deploy", "serve"]
