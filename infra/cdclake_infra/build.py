"""Builds the stacks: one keeps the data, the other can be deleted and deployed again at any time."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

from aws_cdk import App, CfnOutput, Stack, Tags, Validations
from cdk_nag import AwsSolutionsChecks

from cdclake.errors import ConfigurationError
from cdclake_infra.jobs import Jobs
from cdclake_infra.library import ROOT
from cdclake_infra.monitoring import Monitoring
from cdclake_infra.on_raw_file import OnRawFile
from cdclake_infra.resource_names import ResourceNames
from cdclake_infra.sample_replication import SampleReplication
from cdclake_infra.sample_source import SampleSource
from cdclake_infra.schedule import Schedule
from cdclake_infra.settings import Settings
from cdclake_infra.settings_file import with_settings_file
from cdclake_infra.small_changes import SmallChanges
from cdclake_infra.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

STORAGE, PIPELINE, SAMPLE = "CdclakeStorage", "CdclakePipeline", "CdclakeSample"

_CDK_FLAGS = {
    # Access logs need a bucket policy, because the buckets have no ACLs.
    "@aws-cdk/aws-s3:serverAccessLogsUseBucketPolicy": True,
    "@aws-cdk/aws-s3:createDefaultLoggingPolicy": True,
}


class StorageStack(Stack):
    """Buckets, state table and catalog database, protected against deletion."""

    def __init__(self, app: App, name: str, *, settings: Settings) -> None:
        super().__init__(
            app,
            name,
            description="cdclake: raw bucket, lake bucket, state table, catalog database",
            termination_protection=not settings.delete_data_with_stacks,
        )
        Storage(self, "Storage", settings=settings)


class PipelineStack(Stack):
    """Jobs, workflow, functions and alarms. Contains no data; can be deleted and deployed again at any time."""

    def __init__(self, app: App, name: str, *, settings: Settings) -> None:
        super().__init__(app, name, description="cdclake: jobs, workflow, functions, alarms")
        names = ResourceNames.of(settings)
        jobs = Jobs(self, "Jobs", settings=settings, names=names)
        Schedule(self, "Schedule", settings=settings, names=names, job=jobs.controller)
        small_changes = (
            SmallChanges(self, "SmallChanges", settings=settings, names=names, network=jobs.network)
            if settings.small_changes_on_lambda
            else None
        )
        on_raw_file = OnRawFile(
            self,
            "OnRawFile",
            names=names,
            notified=settings.start_by_file,
            small_changes=settings.small_changes_on_lambda,
        )
        monitoring = Monitoring(
            self,
            "Monitoring",
            settings=settings,
            names=names,
            on_raw_file=on_raw_file,
            small_changes=small_changes,
        )
        for output, value in (
            ("NamePrefix", names.prefix),
            ("RawBucket", names.raw_bucket),
            ("RawPrefix", names.raw_prefix),
            ("LakeBucket", names.lake_bucket),
            ("LakePrefix", names.lake_prefix),
            ("StateTable", names.state_table),
            ("CatalogDatabase", names.catalog_database),
            ("AlarmTopic", monitoring.topic.topic_arn),
        ):
            if value:
                CfnOutput(self, output, value=value)


class SampleStack(Stack):
    """A database to try cdclake with, and its replication to the raw bucket. Delete it afterwards."""

    def __init__(self, app: App, name: str, *, settings: Settings) -> None:
        super().__init__(app, name, description="cdclake: sample database and its DMS task")
        source = SampleSource(self, "Source")
        names = ResourceNames.of(settings)
        replication = SampleReplication(self, "Replication", settings=settings, names=names, source=source)
        assert source.database.secret is not None  # SampleSource creates it with one
        CfnOutput(self, "Task", value=replication.task.ref)
        CfnOutput(self, "Database", value=source.database.db_instance_endpoint_address)
        CfnOutput(self, "Secret", value=source.database.secret.secret_arn)
        CfnOutput(self, "Bastion", value=source.bastion.instance_id)


def build_app(
    context: Mapping[str, object] | None = None, outdir: Path | None = None, *, settings_file: Path | None = None
) -> App:
    """Build the app, without synthesizing it. Synthesis fails on cdk-nag findings without an acknowledged reason.

    Args:
        context: Context for the CDK, in addition to the `cdk` command's.
        outdir: Where to write the templates; None: the folder that the `cdk` command sets, or a temporary folder.
        settings_file: A file of settings, which is read if it is there and the context names no other; None: none.

    Raises:
        ConfigurationError: A setting is invalid, or the CDK rejects the result.
    """
    with cdk_errors():
        return _app(context, outdir, settings_file)


@contextmanager
def cdk_errors() -> Iterator[None]:
    """Convert errors of the CDK within the block.

    Raises:
        ConfigurationError: The CDK raised an error.
    """
    try:
        yield
    except RuntimeError as error:  # jsii raises it for every JavaScript error
        message = f"Synthesis failed: {error}"
        raise ConfigurationError(message, remedy="Correct the error above") from error


def _app(context: Mapping[str, object] | None, outdir: Path | None, settings_file: Path | None) -> App:
    app = App(
        context={**_CDK_FLAGS, **(context or {})}, outdir=str(outdir) if outdir else None, analytics_reporting=False
    )
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    settings = Settings.from_context(with_settings_file(app.node.get_all_context(), settings_file))
    prefix = settings.name_prefix
    dependents: list[Stack] = [PipelineStack(app, f"{prefix}{PIPELINE}", settings=settings)]
    if settings.sample_database:
        dependents.append(SampleStack(app, f"{prefix}{SAMPLE}", settings=settings))
    if settings.creates_storage:
        storage = StorageStack(app, f"{prefix}{STORAGE}", settings=settings)
        for stack in dependents:
            stack.add_stack_dependency(storage)
    for key, value in settings.tags:
        Tags.of(app).add(key, value)
    return app


def context_of_cdk_json() -> dict[str, object]:
    """The context in cdk.json, which the `cdk` command passes on."""
    context: dict[str, object] = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8")).get("context", {})
    return context
