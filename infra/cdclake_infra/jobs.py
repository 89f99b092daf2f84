"""The four Glue jobs, with their arguments and roles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import Acknowledgment, Duration, Validations
from aws_cdk import aws_glue as glue
from constructs import Construct

from cdclake.model.metrics import NAMESPACE
from cdclake.model.names import (
    JOB_CONTROLLER,
    JOB_LOAD_INCREMENTAL,
    JOB_LOAD_INITIAL,
    JOB_PROCESS_TABLE,
    Argument,
    Sentinel,
)
from cdclake_infra import grants
from cdclake_infra.library import pinned
from cdclake_infra.network import Network
from cdclake_infra.uploads import Uploads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aws_cdk import aws_iam as iam

    from cdclake_infra.grants import Grant
    from cdclake_infra.places import Places
    from cdclake_infra.settings import Settings
    from cdclake_infra.uploads import Upload

GLUE, GLUE_NAMESPACE = "glue.amazonaws.com", "Glue"
LOADS = (JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL)
PYTHON_SHELL_LOGS, SPARK_LOGS = "/aws-glue/python-jobs/", "/aws-glue/jobs/"
"""What the names of Glue's log groups begin with."""
CONTROLLER_TIMEOUT_MINUTES = 60
PROCESS_TABLE_MARGIN_MINUTES = 60
"""What ProcessTable has for itself, beside waiting for a full load and for the increment after it."""
PROCESS_TABLE_END_MINUTES = 15
"""What of that it has at its end, to stop its Spark job and give back its leases before Glue ends it."""
MODULES = "--additional-python-modules"

_LOGS_REASON = (
    "CloudWatch encrypts every log group at rest, with a key of AWS's. Logs hold names and errors, and no rows"
)
_ACKNOWLEDGED = {
    "AwsSolutions-GL1": _LOGS_REASON,
    "@aws-cdk/aws-glue-alpha:unencryptedContinuousLogging": _LOGS_REASON,
    "AwsSolutions-GL3": "No job uses bookmarks: what has been applied stands in the lake's change log",
}


class Jobs(Construct):
    """Controller and ProcessTable (Python shell), LoadInitial and LoadIncremental (Spark).

    Attributes:
        controller: The job to start by the clock.
    """

    def __init__(self, scope: Construct, name: str, *, settings: Settings, places: Places) -> None:
        super().__init__(scope, name)
        self._settings = settings
        self._places = places
        self._uploads = Uploads(self, "Code")
        self._network = Network(self, "Network", settings=settings) if settings.vpc_id else None
        self.controller = self._controller()
        self._process_table()
        self._spark_job(JOB_LOAD_INITIAL, "load_initial.py", settings.load_initial_timeout_minutes)
        self._spark_job(JOB_LOAD_INCREMENTAL, "load_incremental.py", settings.load_incremental_timeout_minutes)

    def _controller(self) -> glue.IJob:
        places = self._places
        return self._shell_job(
            JOB_CONTROLLER,
            "controller.py",
            description="cdclake: registers new tables, and starts a run for each active table that has work",
            arguments={
                Argument.BUCKET: places.raw_bucket,
                Argument.PREFIX: places.raw_prefix,
                Argument.STATE_TABLE: places.state_table,
                Argument.TABLE_METRICS: _flag(self._settings.table_metrics),
            },
            may=[
                grants.put_metrics(NAMESPACE),
                grants.list_raw(places),
                grants.use_state(places, "GetItem", "PutItem", "UpdateItem", "Scan"),
                grants.start_jobs(JOB_PROCESS_TABLE),
                grants.read_task_statistics(),
            ],
            timeout_minutes=CONTROLLER_TIMEOUT_MINUTES,
            concurrent_runs=1,
        )

    def _process_table(self) -> glue.IJob:
        places, settings = self._places, self._settings
        timeout_minutes = (
            settings.load_initial_timeout_minutes
            + settings.load_incremental_timeout_minutes
            + PROCESS_TABLE_MARGIN_MINUTES
        )
        return self._shell_job(
            JOB_PROCESS_TABLE,
            "process_table.py",
            description="cdclake: brings one table, or several, up to date, by running the Spark jobs they need",
            arguments={
                Argument.OUT_BUCKET: places.lake_bucket,
                Argument.OUT_PREFIX: places.lake_prefix,
                Argument.STATE_TABLE: places.state_table,
                Argument.CATALOG_DATABASE: places.catalog_database,
                Argument.TIMEOUT_MINUTES: str(timeout_minutes - PROCESS_TABLE_END_MINUTES),
                Argument.TABLE_METRICS: _flag(self._settings.table_metrics),
            },
            may=[
                grants.put_metrics(NAMESPACE),
                grants.list_raw(places),
                grants.list_lake(places),
                grants.write_lake(places),
                *grants.use_key(places),
                grants.use_state(places, "GetItem", "UpdateItem"),
                grants.start_jobs(*LOADS, JOB_PROCESS_TABLE),  # a table that never rests is handed to a fresh run
                grants.follow_jobs(*LOADS),
                grants.read_task_statistics(),
                *([grants.keep_catalog(places)] if places.catalog_database else []),
            ],
            timeout_minutes=timeout_minutes,
            concurrent_runs=settings.concurrent_tables,
        )

    def _shell_job(
        self,
        job: str,
        file: str,
        *,
        description: str,
        arguments: Mapping[str, str],
        may: Sequence[Grant],
        timeout_minutes: int,
        concurrent_runs: int,
    ) -> glue.IJob:
        script, library = self._uploads.script(file), self._uploads.shell_library
        made = glue.PythonShellJob(
            self,
            job,
            job_name=job,
            description=description,
            role=self._role(job, [script, library], [grants.write_job_logs(PYTHON_SHELL_LOGS), *may]),
            script=script.code,
            python_version=glue.PythonVersion.THREE_NINE,
            max_capacity=glue.MaxCapacity.DPU_1_16TH,
            extra_python_files=[library.code],
            library_set=glue.LibrarySet.NONE,  # the other set is large, and comes with a boto3 of its own
            # An empty argument would say no more than one that is left out.
            default_arguments={
                MODULES: pinned("boto3"),
                **{f"--{name}": value for name, value in arguments.items() if value},
            },
            continuous_logging=glue.ContinuousLoggingProps(enabled=True),
            connections=self._connections(),
            timeout=Duration.minutes(timeout_minutes),
            max_concurrent_runs=concurrent_runs,
            max_retries=0,  # the next run tries again, and knows what is left to do
            job_run_queuing_enabled=concurrent_runs > 1,
        )
        _acknowledge(made)
        return made

    def _spark_job(self, job: str, file: str, timeout_minutes: int) -> glue.IJob:
        places, settings = self._places, self._settings
        script, library = self._uploads.script(file), self._uploads.spark_library
        may = [
            grants.write_job_logs(SPARK_LOGS),
            grants.put_metrics(GLUE_NAMESPACE),
            grants.list_raw(places),
            grants.read_raw(places),
            grants.list_lake(places),
            grants.write_lake(places),
            *grants.use_key(places),
        ]
        made = glue.PySparkEtlJob(
            self,
            job,
            job_name=job,
            description="cdclake: computes a change of each table, commits it and makes it visible",
            role=self._role(job, [script, library], may),
            script=script.code,
            glue_version=glue.GlueVersion.V5_1,
            worker_configuration=glue.WorkerConfiguration(
                worker_type=glue.WorkerType[settings.worker_type.replace(".", "_")],
                number_of_workers=settings.most_workers,
            ),
            extra_python_files=[library.code],
            default_arguments={MODULES: pinned("boto3", "numpy", "pyarrow", "xxhash"), "--enable-auto-scaling": "true"},
            continuous_logging=glue.ContinuousLoggingProps(enabled=True),
            enable_metrics=True,
            enable_observability_metrics=True,
            connections=self._connections(),
            timeout=Duration.minutes(timeout_minutes),
            max_concurrent_runs=settings.concurrent_tables,
            max_retries=0,  # as above
            job_run_queuing_enabled=True,
        )
        _acknowledge(made)
        return made

    def _role(self, job: str, code: Sequence[Upload], may: Sequence[Grant]) -> iam.IRole:
        read = grants.read_code(*(upload.arn for upload in code))
        join = self._network.may_join() if self._network else []
        return grants.role(self, f"{job}Role", service=GLUE, grants=[read, *may, *join])

    def _connections(self) -> list[glue.IConnection] | None:
        return [self._network.connection] if self._network else None


def _flag(wanted: bool) -> str:
    return Sentinel.ACTIVE if wanted else Sentinel.INACTIVE


def _acknowledge(job: Construct) -> None:
    rules = [Acknowledgment(id=rule, reason=reason) for rule, reason in _ACKNOWLEDGED.items()]
    Validations.of(job).acknowledge(*rules)
