"""Deploys cdclake to an AWS account for an hour, runs it there, measures, and removes everything: `make smoke-aws`."""
