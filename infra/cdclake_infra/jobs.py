"""The four Glue jobs, with their arguments and roles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import Acknowledgment, Duration, Validations
from aws_cdk import aws_glue as glue
from constructs import Construct

from cdclake.control.run.process_table import TIMEOUT_SECONDS
from cdclake.lake.spark.worker import VARIABLE
from cdclake.model.metrics import namespace
from cdclake.model.names import (
    JOB_CONTROLLER,
    JOB_LOAD_INCREMENTAL,
    JOB_LOAD_INITIAL,
    JOB_PROCESS_TABLE,
    Argument,
    Sentinel,
)
from cdclake_infra import job_permissions
from cdclake_infra.network import Network
from cdclake_infra.resource_names import new_table
from cdclake_infra.roles import create_role
from cdclake_infra.uploads import Uploads
from cdclake_infra.wheels import GLUE_VERSIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aws_cdk import aws_iam as iam

    from cdclake_infra.resource_names import ResourceNames
    from cdclake_infra.roles import Statement
    from cdclake_infra.settings import Settings
    from cdclake_infra.uploads import Upload

GLUE, GLUE_NAMESPACE = "glue.amazonaws.com", "Glue"
PYTHON_SHELL_LOGS, SPARK_LOGS = "/aws-glue/python-jobs/", "/aws-glue/jobs/"
"""Prefixes of Glue's log group names."""
CONTROLLER_TIMEOUT_MINUTES = 60
PROCESS_TABLE_TIMEOUT_MINUTES = round(TIMEOUT_SECONDS / 60)
MODULES, INSTALLER_OPTION = "--additional-python-modules", "--python-modules-installer-option"

_LOGS_REASON = "CloudWatch encrypts every log group at rest with an AWS key. Logs contain names and errors, never rows"
_ACKNOWLEDGED = {
    "AwsSolutions-GL1": _LOGS_REASON,
    "@aws-cdk/aws-glue-alpha:unencryptedContinuousLogging": _LOGS_REASON,
    "@aws-cdk/aws-glue-alpha:plaintextJobArgumentSecret": "hash_secret is the name of a secret, which the run reads",
    "AwsSolutions-GL3": "No job uses bookmarks: the lake's change log records what has been applied",
}


class Jobs(Construct):
    """Controller and ProcessTable (Python shell), LoadInitial and LoadIncremental (Spark).

    Attributes:
        controller: The job that the schedule starts.
        network: The network that the jobs run in; None: Glue's.
    """

    def __init__(self, scope: Construct, name: str, *, settings: Settings, names: ResourceNames) -> None:
        super().__init__(scope, name)
        self._settings = settings
        self._names = names
        self._uploads = Uploads(self, "Code", spark=GLUE_VERSIONS[settings.glue_version])
        self.network = Network(self, "Network", settings=settings, names=names) if settings.vpc_id else None
        self.controller = self._controller()
        self._process_table()
        self._spark_job(JOB_LOAD_INITIAL, "load_initial.py", settings.load_initial_timeout_minutes)
        self._spark_job(JOB_LOAD_INCREMENTAL, "load_incremental.py", settings.load_incremental_timeout_minutes)

    def _controller(self) -> glue.IJob:
        names = self._names
        return self._shell_job(
            JOB_CONTROLLER,
            "controller.py",
            description="cdclake: registers new tables and starts a run for each active table with new files",
            arguments={
                Argument.BUCKET: names.raw_bucket,
                Argument.PREFIX: names.raw_prefix,
                Argument.STATE_TABLE: names.state_table,
                Argument.NEW_TABLE: new_table(names),
                Argument.TABLE_METRICS: _flag(self._settings.table_metrics),
                Argument.NAME_PREFIX: names.prefix,
            },
            permissions=[
                job_permissions.list_raw(names),
                job_permissions.use_state(names, "GetItem", "PutItem", "UpdateItem", "Scan"),
                job_permissions.start_jobs(names, JOB_PROCESS_TABLE),
                job_permissions.read_task_statistics(),
            ],
            timeout_minutes=CONTROLLER_TIMEOUT_MINUTES,
            concurrent_runs=1,
        )

    def _process_table(self) -> glue.IJob:
        names, settings = self._names, self._settings
        return self._shell_job(
            JOB_PROCESS_TABLE,
            "process_table.py",
            description="cdclake: decides what is due for one or more tables, and starts the Spark jobs that load it",
            arguments=run_arguments(settings, names),
            permissions=job_permissions.decide_for_tables(names),
            timeout_minutes=PROCESS_TABLE_TIMEOUT_MINUTES,
            concurrent_runs=settings.concurrent_tables,
        )

    def _shell_job(
        self,
        job: str,
        file: str,
        *,
        description: str,
        arguments: Mapping[str, str],
        permissions: Sequence[Statement],
        timeout_minutes: int,
        concurrent_runs: int,
    ) -> glue.IJob:
        uploads = self._uploads
        script, libraries = uploads.script(file), [uploads.shell_package, uploads.shell_libraries]
        created = glue.PythonShellJob(
            self,
            job,
            job_name=f"{self._names.prefix}{job}",
            description=description,
            role=self._role(
                job, [script, *libraries], [job_permissions.write_job_logs(PYTHON_SHELL_LOGS), *permissions]
            ),
            script=script.code,
            python_version=glue.PythonVersion.THREE_NINE,
            max_capacity=glue.MaxCapacity.DPU_1_16TH,
            extra_python_files=[library.code for library in libraries],
            library_set=glue.LibrarySet.NONE,  # the analytics set is large and has its own boto3
            default_arguments={f"--{name}": value for name, value in arguments.items() if value},
            continuous_logging=glue.ContinuousLoggingProps(enabled=True),
            connections=self._connections(),
            timeout=Duration.minutes(timeout_minutes),
            max_concurrent_runs=concurrent_runs,
            max_retries=0,  # the next scheduled run continues where this one stopped
            job_run_queuing_enabled=concurrent_runs > 1,
        )
        _acknowledge(created)
        return created

    def _spark_job(self, job: str, file: str, timeout_minutes: int) -> glue.IJob:
        names, settings = self._names, self._settings
        uploads = self._uploads
        script, package, libraries = uploads.script(file), uploads.spark_package, uploads.spark_libraries
        permissions = [
            job_permissions.write_job_logs(SPARK_LOGS),
            job_permissions.put_metrics(GLUE_NAMESPACE, "PutGlueMetrics"),
            job_permissions.read_raw(names),
            *job_permissions.read_hash_secret(settings.hash_secret),
            *job_permissions.work_on_tables(names),
            job_permissions.start_jobs(names, JOB_PROCESS_TABLE),  # for the work that is left when its time is over
        ]
        created = glue.PySparkEtlJob(
            self,
            job,
            job_name=f"{self._names.prefix}{job}",
            description="cdclake: brings the tables up to date that ProcessTable hands over",
            role=self._role(job, [script, package, libraries], permissions),
            script=script.code,
            glue_version=glue.GlueVersion[f"V{settings.glue_version.replace('.', '_')}"],
            worker_configuration=glue.WorkerConfiguration(
                worker_type=glue.WorkerType[settings.worker_type.replace(".", "_")],
                number_of_workers=settings.most_workers,
            ),
            extra_python_files=[package.code],
            default_arguments={
                f"--{Argument.TIMEOUT_MINUTES}": str(timeout_minutes),
                MODULES: libraries.url,
                INSTALLER_OPTION: "--no-index",
                "--enable-auto-scaling": "true",
                **({} if settings.quick_tasks else {"--conf": f"spark.executorEnv.{VARIABLE}=false"}),
            },
            continuous_logging=glue.ContinuousLoggingProps(enabled=True),
            enable_metrics=True,
            enable_observability_metrics=True,
            connections=self._connections(),
            timeout=Duration.minutes(timeout_minutes),
            max_concurrent_runs=settings.concurrent_tables,
            max_retries=0,  # as above
            job_run_queuing_enabled=True,
        )
        _acknowledge(created)
        return created

    def _role(self, job: str, code: Sequence[Upload], permissions: Sequence[Statement]) -> iam.IRole:
        read = job_permissions.read_code(
            *(upload.arn for upload in code), kms_key_arn=self._settings.bootstrap_kms_key_arn
        )
        join = self.network.join_statements() if self.network else []
        metrics = job_permissions.put_metrics(namespace(self._names.prefix))
        return create_role(self, f"{job}Role", service=GLUE, statements=[*read, metrics, *permissions, *join])

    def _connections(self) -> list[glue.IConnection] | None:
        return [self.network.connection] if self.network else None


def run_arguments(settings: Settings, names: ResourceNames) -> dict[str, str]:
    """The arguments of a run that decides what is due for tables. It passes them on; empty ones are left out."""
    arguments = {
        Argument.OUT_BUCKET: names.lake_bucket,
        Argument.OUT_PREFIX: names.lake_prefix,
        Argument.STATE_TABLE: names.state_table,
        Argument.CATALOG_DATABASE: names.catalog_database,
        Argument.TABLE_METRICS: _flag(settings.table_metrics),
        Argument.NAME_PREFIX: names.prefix,
        Argument.LINEAGE_URL: settings.lineage_url,
        Argument.HASH_SECRET: settings.hash_secret,
    }
    return {name: value for name, value in arguments.items() if value}


def _flag(value: bool) -> str:
    return Sentinel.ACTIVE if value else Sentinel.INACTIVE


def _acknowledge(job: Construct) -> None:
    rules = [Acknowledgment(id=rule, reason=reason) for rule, reason in _ACKNOWLEDGED.items()]
    Validations.of(job).acknowledge(*rules)
