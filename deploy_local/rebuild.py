"""Deletes the pipeline stack and deploys it again; the data must survive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, WaiterError

from cdclake.adapters.s3 import S3Store
from cdclake.errors import IntegrityError
from cdclake_infra.build import PIPELINE, STORAGE
from deploy_local.deploy import POLL, deploy
from deploy_local.deployment import Deployment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deploy_local.assembly import StackToDeploy
    from deploy_local.emulator import Emulator


def rebuild(emulator: Emulator, stacks: Sequence[StackToDeploy]) -> str:
    """Delete the pipeline stack, deploy it again, and compare.

    Raises:
        IntegrityError: The storage stack could be deleted, the pipeline stack could not, or data was lost.
        ConfigurationError: The pipeline stack could not be deployed again.
    """
    _require_protection(emulator, STORAGE)
    deployment = Deployment(emulator)
    raw, before = deployment.raw_bucket, _data(emulator, deployment)
    notifications = _notifications(emulator, raw)
    _delete(emulator, PIPELINE)
    if _notifications(emulator, raw):
        raise IntegrityError("The raw bucket still notifies the deleted function", remedy="See on_raw_file.py")
    (pipeline,) = [stack for stack in stacks if stack.name == PIPELINE]
    deploy(emulator, pipeline)
    again = Deployment(emulator)
    if _data(emulator, again) != before:
        raise IntegrityError("Data was deleted with the pipeline stack", remedy="See the stack's resources")
    if _notifications(emulator, raw) != notifications:
        raise IntegrityError("The raw bucket's notifications have changed", remedy="See on_raw_file.py")
    files, tables = before
    return f"{STORAGE} is protected; {len(files)} objects and {tables} tables survived a new deployment of {PIPELINE}"


def _require_protection(emulator: Emulator, stack: str) -> None:
    try:
        emulator.client("cloudformation").delete_stack(StackName=stack)
    except ClientError as error:
        if "protection" in str(error).lower():
            return
        raise
    message = f"{stack} could be deleted"
    raise IntegrityError(message, remedy="Set its termination protection")


def _delete(emulator: Emulator, stack: str) -> None:
    cloudformation = emulator.client("cloudformation")
    cloudformation.delete_stack(StackName=stack)
    try:
        cloudformation.get_waiter("stack_delete_complete").wait(StackName=stack, WaiterConfig=POLL)
    except WaiterError as error:
        message = f"{stack} could not be deleted: {error}"
        raise IntegrityError(message, remedy="See its constructs") from error


def _data(emulator: Emulator, deployment: Deployment) -> tuple[frozenset[str], int]:
    """Keys in the lake bucket, and the number of tables in the state table."""
    keys = frozenset(entry.key for entry in S3Store(emulator.client("s3"), deployment.lake_bucket).list(""))
    pages = emulator.client("dynamodb").get_paginator("scan").paginate(TableName=deployment.state_table)
    return keys, sum(page["Count"] for page in pages)


def _notifications(emulator: Emulator, bucket: str) -> list[dict[str, Any]]:
    """A bucket's notifications to functions, without the ids that CloudFormation generates."""
    response = emulator.client("s3").get_bucket_notification_configuration(Bucket=bucket)
    targets: list[dict[str, Any]] = response.get("LambdaFunctionConfigurations", [])
    return [{name: value for name, value in target.items() if name != "Id"} for target in targets]
