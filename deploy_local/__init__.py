"""Proof of the deployment without an account: `make deploy-local`.

What `cdk deploy` would deploy is deployed on a local CloudFormation (ministack, in an environment of its own), looked
at through the services' own APIs, and made to work: raw files go in, lake rows must come out.
"""
