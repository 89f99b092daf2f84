"""Throws away the stack that may be thrown away, and builds it anew: the data must be there all the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, WaiterError

from cdclake.adapters.s3 import S3Store
from cdclake.errors import IntegrityError
from cdclake_infra.build import PIPELINE, STORAGE
from deploy_local.deployed import Deployed
from deploy_local.deployment import POLL, deploy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deploy_local.assembly import StackToDeploy
    from deploy_local.emulator import Emulator


def rebuild(emulator: Emulator, stacks: Sequence[StackToDeploy]) -> str:
    """Delete the pipeline, deploy it again, and compare.

    Args:
        emulator: Where all is deployed.
        stacks: What is deployed.

    Raises:
        IntegrityError: The storage could be deleted, the pipeline could not, or data went with it.
        ConfigurationError: The pipeline could not be deployed again.
    """
    _refuses_to_go(emulator, STORAGE)
    deployed = Deployed(emulator)
    raw, before = deployed.raw_bucket, _data(emulator, deployed)
    notified = _notified(emulator, raw)
    _delete(emulator, PIPELINE)
    if _notified(emulator, raw):
        raise IntegrityError("The raw bucket still tells the function that is gone", remedy="See on_raw_file.py")
    (pipeline,) = [stack for stack in stacks if stack.name == PIPELINE]
    deploy(emulator, pipeline)
    again = Deployed(emulator)
    if _data(emulator, again) != before:
        raise IntegrityError("Data went with the pipeline", remedy="See what its stack holds")
    if _notified(emulator, raw) != notified:
        raise IntegrityError("The raw bucket tells the function otherwise than before", remedy="See on_raw_file.py")
    files, tables = before
    return (
        f"{STORAGE} refused to go; {PIPELINE} went and came back, and {len(files)} objects and {tables} tables stayed"
    )


def _refuses_to_go(emulator: Emulator, stack: str) -> None:
    try:
        emulator.client("cloudformation").delete_stack(StackName=stack)
    except ClientError as error:
        if "protection" in str(error).lower():
            return
        raise
    message = f"{stack} let itself be deleted"
    raise IntegrityError(message, remedy="Set its termination protection")


def _delete(emulator: Emulator, stack: str) -> None:
    cloudformation = emulator.client("cloudformation")
    cloudformation.delete_stack(StackName=stack)
    try:
        cloudformation.get_waiter("stack_delete_complete").wait(StackName=stack, WaiterConfig=POLL)
    except WaiterError as error:
        message = f"{stack} could not be deleted: {error}"
        raise IntegrityError(message, remedy="See its constructs") from error


def _data(emulator: Emulator, deployed: Deployed) -> tuple[frozenset[str], int]:
    """Keys in the lake bucket, and how many tables the state table has."""
    keys = frozenset(found.key for found in S3Store(emulator.client("s3"), deployed.lake_bucket).list(""))
    pages = emulator.client("dynamodb").get_paginator("scan").paginate(TableName=deployed.state_table)
    return keys, sum(page["Count"] for page in pages)


def _notified(emulator: Emulator, bucket: str) -> list[dict[str, Any]]:
    """What a bucket tells functions, without the ids, which CloudFormation makes up."""
    found = emulator.client("s3").get_bucket_notification_configuration(Bucket=bucket)
    told: list[dict[str, Any]] = found.get("LambdaFunctionConfigurations", [])
    return [{name: value for name, value in one.items() if name != "Id"} for one in told]
