"""Deploys the stacks of a cloud assembly with the same steps as the `cdk` command."""

from __future__ import annotations

import io
import json
import zipfile
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, WaiterError

from cdclake.errors import ConfigurationError
from deploy_local.assembly import ZIP
from deploy_local.unsupported import (
    RemovedResource,
    UnsupportedType,
    dead_letter_targets,
    remove_unsupported,
    with_dead_letter_outputs,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from deploy_local.assembly import Asset, StackToDeploy
    from deploy_local.emulator import Emulator

WORKFLOW = "AWS::Glue::Workflow"
UNSUPPORTED = {
    WORKFLOW: UnsupportedType(
        WORKFLOW, name_property="Name", replacement="created with Glue's CreateWorkflow and the template's properties"
    )
}
"""Types that ministack's CloudFormation lacks; any other unsupported type fails the deployment."""
_BOOTSTRAP_BUCKET_VERSIONING = {"Status": "Enabled"}
POLL = {"Delay": 1, "MaxAttempts": 180}
_CAPABILITIES = ["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"]


def bootstrap(emulator: Emulator, stacks: Sequence[StackToDeploy]) -> str:
    """Create what `cdk bootstrap` creates: the bucket for assets, and the bootstrap version."""
    s3, ssm = emulator.client("s3"), emulator.client("ssm")
    buckets = {asset.bucket for stack in stacks for asset in stack.assets}
    region: dict[str, Any] = {"CreateBucketConfiguration": {"LocationConstraint": emulator.account.region}}
    for bucket in sorted(buckets):
        s3.create_bucket(Bucket=bucket, **region)
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=_BOOTSTRAP_BUCKET_VERSIONING)
    for stack in stacks:
        version = str(stack.bootstrap_version)
        ssm.put_parameter(Name=stack.bootstrap_version_parameter, Type="String", Value=version, Overwrite=True)
    return f"version {max(stack.bootstrap_version for stack in stacks)}, with {', '.join(sorted(buckets))}"


def upload(emulator: Emulator, assets: Iterable[Asset]) -> None:
    """Upload assets to their buckets."""
    for asset in assets:
        data = zipped(asset.source) if asset.packaging == ZIP else asset.source.read_bytes()
        emulator.client("s3").put_object(Bucket=asset.bucket, Key=asset.key, Body=data)


def deploy(emulator: Emulator, stack: StackToDeploy) -> list[RemovedResource]:
    """Create a stack without the types that ministack lacks, and wait for it.

    Returns:
        The resources that were removed from the template and created in another way.

    Raises:
        ConfigurationError: The stack was not created; the message contains the failed resources.
    """
    upload(emulator, stack.assets)
    template, removed = remove_unsupported(stack.template, UNSUPPORTED)
    for resource in removed:
        _create_workflow(emulator, resource)
    cloudformation = emulator.client("cloudformation")
    try:
        cloudformation.create_stack(
            StackName=stack.name,
            TemplateURL=_template_url(emulator, stack, with_dead_letter_outputs(template)),
            Capabilities=_CAPABILITIES,
            EnableTerminationProtection=stack.termination_protection,
        )
        cloudformation.get_waiter("stack_create_complete").wait(StackName=stack.name, WaiterConfig=POLL)
    except (ClientError, WaiterError) as error:
        reason = _failures(cloudformation, stack.name) or str(error)
        message = f"The stack {stack.name} was not created: {reason}"
        raise ConfigurationError(message, remedy="Correct its constructs") from error
    (created,) = cloudformation.describe_stacks(StackName=stack.name)["Stacks"]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in created.get("Outputs", [])}
    for function, target in dead_letter_targets(outputs).items():
        emulator.client("lambda").update_function_configuration(
            FunctionName=function, DeadLetterConfig={"TargetArn": target}
        )
    return removed


def _create_workflow(emulator: Emulator, resource: RemovedResource) -> None:
    """Create a workflow, unless it is left over from a deleted stack, which did not contain it."""
    with suppress(emulator.client("glue").exceptions.AlreadyExistsException):
        emulator.client("glue").create_workflow(**resource.properties)


def zipped(folder: Path) -> bytes:
    """A folder as a zip archive, as the `cdk` command uploads it."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder))
    return content.getvalue()


def _template_url(emulator: Emulator, stack: StackToDeploy, template: dict[str, Any]) -> str:
    """Upload the template to the assets' bucket, because a request may contain at most 51,200 bytes of it."""
    bucket, key = stack.assets[0].bucket, f"{stack.name}.reduced.template.json"
    emulator.client("s3").put_object(Bucket=bucket, Key=key, Body=json.dumps(template).encode())
    return f"{emulator.endpoint}/{bucket}/{key}"


def _failures(cloudformation: Any, stack: str) -> str:  # noqa: ANN401  a boto3 client
    try:
        pages = cloudformation.get_paginator("describe_stack_events").paginate(StackName=stack)
        events = [event for page in pages for event in page["StackEvents"]]
    except ClientError:
        return ""  # CloudFormation rejected the stack before creating it
    return "; ".join(
        f"{event['LogicalResourceId']} ({event['ResourceType']}): {event.get('ResourceStatusReason', '')}"
        for event in reversed(events)
        if event["ResourceStatus"].endswith("_FAILED")
    )
