"""Puts the stacks together: one that keeps the data, and one that can be thrown away and built anew."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

from aws_cdk import App, CfnOutput, Stack, Validations
from cdk_nag import AwsSolutionsChecks

from cdclake.errors import ConfigurationError
from cdclake_infra.jobs import Jobs
from cdclake_infra.library import ROOT
from cdclake_infra.monitoring import Monitoring
from cdclake_infra.on_raw_file import OnRawFile
from cdclake_infra.places import Places
from cdclake_infra.sample_replication import SampleReplication
from cdclake_infra.sample_source import SampleSource
from cdclake_infra.schedule import Schedule
from cdclake_infra.settings import Settings
from cdclake_infra.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

STORAGE, PIPELINE, SAMPLE = "CdclakeStorage", "CdclakePipeline", "CdclakeSample"

_CDK_FLAGS = {
    # Access logs are allowed by a bucket policy: buckets without ACLs can have no other.
    "@aws-cdk/aws-s3:serverAccessLogsUseBucketPolicy": True,
    "@aws-cdk/aws-s3:createDefaultLoggingPolicy": True,
}


class StorageStack(Stack):
    """Buckets, state table, catalog database; protected against deletion."""

    def __init__(self, app: App, name: str, *, settings: Settings) -> None:
        super().__init__(
            app,
            name,
            description="cdclake: raw bucket, lake bucket, state table, catalog database",
            termination_protection=not settings.delete_data_with_stacks,
        )
        Storage(self, "Storage", settings=settings)


class PipelineStack(Stack):
    """Jobs, workflow, function, alarms. It holds no data, and may be deleted and deployed again at any time."""

    def __init__(self, app: App, name: str, *, settings: Settings) -> None:
        super().__init__(app, name, description="cdclake: jobs, workflow, function, alarms")
        places = Places.of(settings)
        jobs = Jobs(self, "Jobs", settings=settings, places=places)
        Schedule(self, "Schedule", settings=settings, job=jobs.controller)
        told = OnRawFile(self, "OnRawFile", places=places, told=settings.start_by_file)
        watched = Monitoring(
            self, "Monitoring", settings=settings, function=told.function, undelivered=told.undelivered
        )
        for output, value in (
            ("RawBucket", places.raw_bucket),
            ("RawPrefix", places.raw_prefix),
            ("LakeBucket", places.lake_bucket),
            ("LakePrefix", places.lake_prefix),
            ("StateTable", places.state_table),
            ("CatalogDatabase", places.catalog_database),
            ("AlarmTopic", watched.topic.topic_arn),
        ):
            if value:
                CfnOutput(self, output, value=value)


class SampleStack(Stack):
    """A database to try cdclake with, and its replication to the raw bucket. To be thrown away afterwards."""

    def __init__(self, app: App, name: str, *, settings: Settings) -> None:
        super().__init__(app, name, description="cdclake: sample database and its DMS task")
        source = SampleSource(self, "Source")
        places = Places.of(settings)
        replication = SampleReplication(self, "Replication", settings=settings, places=places, source=source)
        assert source.database.secret is not None  # it was made with one
        CfnOutput(self, "Task", value=replication.task.ref)
        CfnOutput(self, "Database", value=source.database.db_instance_endpoint_address)
        CfnOutput(self, "Secret", value=source.database.secret.secret_arn)
        CfnOutput(self, "Bastion", value=source.bastion.instance_id)


def build_app(context: Mapping[str, object] | None = None, outdir: Path | None = None) -> App:
    """The app, not synthesized yet. Synthesis fails if cdk-nag finds what nobody has given a reason for.

    Args:
        context: The CDK's context beside that of the `cdk` command, if it is that which runs us.
        outdir: Where to write the templates; None: where the `cdk` command wants them, or a temporary folder.

    Raises:
        ConfigurationError: A setting is wrong, or the CDK refuses what comes of it.
    """
    with refusals():
        return _app(context, outdir)


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what the CDK raises within the block into an error of ours.

    Raises:
        ConfigurationError: The CDK refused something.
    """
    try:
        yield
    except RuntimeError as error:  # what becomes of every JavaScript error
        message = f"Synthesis failed: {error}"
        raise ConfigurationError(message, remedy="Correct what is named above") from error


def _app(context: Mapping[str, object] | None, outdir: Path | None) -> App:
    app = App(
        context={**_CDK_FLAGS, **(context or {})}, outdir=str(outdir) if outdir else None, analytics_reporting=False
    )
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    settings = Settings.from_context(app.node.get_all_context())
    uses_data: list[Stack] = [PipelineStack(app, PIPELINE, settings=settings)]
    if settings.sample_database:
        uses_data.append(SampleStack(app, SAMPLE, settings=settings))
    if settings.creates_storage:
        storage = StorageStack(app, STORAGE, settings=settings)
        for stack in uses_data:
            stack.add_stack_dependency(storage)
    return app


def context_of_cdk_json() -> dict[str, object]:
    """The context in cdk.json, which the `cdk` command reads by itself."""
    context: dict[str, object] = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8")).get("context", {})
    return context
