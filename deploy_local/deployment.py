"""Deploys the stacks of a cloud assembly, step by step as the `cdk` command does it."""

from __future__ import annotations

import io
import json
import zipfile
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, WaiterError

from cdclake.errors import ConfigurationError
from deploy_local.assembly import ZIP
from deploy_local.reduce import Lacking, TakenOut, dead_letters, reduced, with_dead_letters

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from deploy_local.assembly import Asset, StackToDeploy
    from deploy_local.emulator import Emulator

WORKFLOW = "AWS::Glue::Workflow"
LACKING = {
    WORKFLOW: Lacking(
        WORKFLOW, name_property="Name", instead="made of the template's properties by Glue's CreateWorkflow"
    )
}
"""What ministack's CloudFormation has not; another such type fails the deployment, by name."""
_BOOTSTRAP_BUCKET_VERSIONING = {"Status": "Enabled"}
POLL = {"Delay": 1, "MaxAttempts": 180}
_CAPABILITIES = ["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"]


def bootstrap(emulator: Emulator, stacks: Sequence[StackToDeploy]) -> str:
    """Make what `cdk bootstrap` leaves in an account: the bucket of the assets, and its own version."""
    s3, ssm = emulator.client("s3"), emulator.client("ssm")
    buckets = {asset.bucket for stack in stacks for asset in stack.assets}
    place: dict[str, Any] = {"CreateBucketConfiguration": {"LocationConstraint": emulator.account.region}}
    for bucket in sorted(buckets):
        s3.create_bucket(Bucket=bucket, **place)
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=_BOOTSTRAP_BUCKET_VERSIONING)
    for stack in stacks:
        version = str(stack.bootstrap_version)
        ssm.put_parameter(Name=stack.bootstrap_version_parameter, Type="String", Value=version, Overwrite=True)
    return f"version {max(stack.bootstrap_version for stack in stacks)}, with {', '.join(sorted(buckets))}"


def upload(emulator: Emulator, assets: Iterable[Asset]) -> None:
    """Put what the stacks expect where they expect it."""
    for asset in assets:
        data = zipped(asset.source) if asset.packaging == ZIP else asset.source.read_bytes()
        emulator.client("s3").put_object(Bucket=asset.bucket, Key=asset.key, Body=data)


def deploy(emulator: Emulator, stack: StackToDeploy) -> list[TakenOut]:
    """Create a stack, less what ministack lacks, and wait until it is there.

    Returns:
        What was taken out of the template, and made in another way.

    Raises:
        ConfigurationError: The stack was not created; says which resource failed, and why.
    """
    upload(emulator, stack.assets)
    template, taken_out = reduced(stack.template, LACKING)
    for one in taken_out:
        _make_instead(emulator, one)
    cloudformation = emulator.client("cloudformation")
    try:
        cloudformation.create_stack(
            StackName=stack.name,
            TemplateURL=_template_url(emulator, stack, with_dead_letters(template)),
            Capabilities=_CAPABILITIES,
            EnableTerminationProtection=stack.termination_protection,
        )
        cloudformation.get_waiter("stack_create_complete").wait(StackName=stack.name, WaiterConfig=POLL)
    except (ClientError, WaiterError) as error:
        why = _failures(cloudformation, stack.name) or str(error)
        message = f"The stack {stack.name} was not created: {why}"
        raise ConfigurationError(message, remedy="Correct its constructs") from error
    (created,) = cloudformation.describe_stacks(StackName=stack.name)["Stacks"]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in created.get("Outputs", [])}
    for function, target in dead_letters(outputs).items():
        emulator.client("lambda").update_function_configuration(
            FunctionName=function, DeadLetterConfig={"TargetArn": target}
        )
    return taken_out


def _make_instead(emulator: Emulator, taken_out: TakenOut) -> None:
    """Make a workflow, unless one is left of a stack that was deleted, which did not know of it."""
    with suppress(emulator.client("glue").exceptions.AlreadyExistsException):
        emulator.client("glue").create_workflow(**taken_out.properties)


def zipped(folder: Path) -> bytes:
    """A folder as the zip archive that the `cdk` command uploads."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder))
    return content.getvalue()


def _template_url(emulator: Emulator, stack: StackToDeploy, template: dict[str, Any]) -> str:
    """Put the template in the bucket of the assets: CloudFormation takes 51,200 bytes of it in a request at most."""
    bucket, key = stack.assets[0].bucket, f"{stack.name}.reduced.template.json"
    emulator.client("s3").put_object(Bucket=bucket, Key=key, Body=json.dumps(template).encode())
    return f"{emulator.endpoint}/{bucket}/{key}"


def _failures(cloudformation: Any, stack: str) -> str:  # noqa: ANN401  a boto3 client
    try:
        pages = cloudformation.get_paginator("describe_stack_events").paginate(StackName=stack)
        events = [event for page in pages for event in page["StackEvents"]]
    except ClientError:
        return ""  # there is no such stack: it was refused before it began
    return "; ".join(
        f"{event['LogicalResourceId']} ({event['ResourceType']}): {event.get('ResourceStatusReason', '')}"
        for event in reversed(events)
        if event["ResourceStatus"].endswith("_FAILED")
    )
