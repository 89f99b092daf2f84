"""Tests the deployment without an AWS account: `make deploy-local`.

Deploys the stacks on a local CloudFormation (ministack, in its own environment), inspects them through the services'
APIs, and runs them: raw files go in, and the expected lake rows must come out.
"""
