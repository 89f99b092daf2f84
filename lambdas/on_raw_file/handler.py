"""Lambda function for object-created events of the raw bucket, and for Spark runs that failed: triggers runs of tables.

A burst of events starts one ProcessTable run per table, see `cdclake.control.run.trigger`. S3 may deliver events twice,
late and in any order. So an event only means that the table may have new files, unless a successful run began to list
after the file was written. A transaction file holds rows of many tables, and its name does not show which. So it
triggers every active table that reads its folder.

When a run of a Spark job fails, EventBridge sends Glue's event. If the run still holds tables, it has died, and a new
run goes on with them, see `cdclake.control.run.dead_spark_run`.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Callable, NamedTuple
from urllib.parse import unquote_plus

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.logging.formatter import BasePowertoolsFormatter
from aws_lambda_powertools.utilities.data_classes import S3Event

from cdclake import logs
from cdclake.adapters.aws import Remedies, client, server_clock, translated_errors
from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.glue import GlueJobs
from cdclake.control.jobs.arguments import folder_prefix, parse_new_table
from cdclake.control.jobs.entry import error_line
from cdclake.control.run.dead_spark_run import continue_after
from cdclake.control.run.trigger import TriggerResult, have_listed, trigger_table
from cdclake.errors import ConfigurationError, JobRunError
from cdclake.model.layout import RESERVED_SCHEMAS
from cdclake.model.metrics import Unit, namespace
from cdclake.model.names import JOB_PROCESS_TABLE, Argument
from cdclake.model.raw.files import is_transactions_key, split_raw_key
from cdclake.model.table.state import TableState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from aws_lambda_powertools.utilities.typing import LambdaContext
    from mypy_boto3_lambda import LambdaClient

    from cdclake.ports import JobRun, JobRunner, StateStore

RAW_PREFIX, STATE_TABLE = "RAW_PREFIX", "STATE_TABLE"
"""Environment variables: prefix of the schemas' folders in the raw bucket (may be empty), state table."""
NAME_PREFIX, NEW_TABLE = "NAME_PREFIX", "NEW_TABLE"
"""Optional environment variables, like the Controller's arguments: prefix of the names of jobs and of the metrics'
namespace, settings for newly registered tables.
"""
SMALL_CHANGES_FUNCTION = "SMALL_CHANGES_FUNCTION"
"""Optional environment variable: name of the function that works as ProcessTable and loads small changes itself."""
FAILED = "failed"
SERVICE = "on_raw_file"
"""Dimension of the function's metrics."""
log = logs.bind("cdclake.on_raw_file")


class Dependencies(NamedTuple):
    """What the function works with; created once per container."""

    states: StateStore
    jobs: JobRunner
    raw_prefix: str
    new_table: Mapping[str, str] = {}
    name_prefix: str = ""


class NewFile(NamedTuple):
    """A created object from an event, with its key decoded."""

    bucket: str
    key: str
    written_utc: datetime


class AffectedTable(NamedTuple):
    """A table that an event affects, in the state of a new table, and when its newest file was written."""

    table: TableState
    written_utc: datetime


def handler(event: Mapping[str, Any], context: LambdaContext) -> dict[str, str]:
    """Entry point of Lambda. Returns the outcome of each table, see `handle`."""
    return _function()(event, context)


def handle(event: Mapping[str, Any], dependencies: Dependencies, now: datetime) -> tuple[dict[str, str], list[str]]:
    """Trigger every table that an event affects. A table that fails does not stop the others.

    Args:
        event: S3's or EventBridge's.
        dependencies: State table, jobs, names.

    Returns:
        The outcome of each table by its path: `registered`, `inactive`, `seen`, `started`, `collapsed`, `busy` or
        `failed`; and the errors of those that failed.
    """
    outcomes: dict[str, str] = {}
    errors = []
    for path, result in _after_ended_run(event, dependencies, now).items():
        outcomes[path] = result.outcome.value
        if result.error:
            errors.append(error_line(result.error))
    files = list(new_files(event))
    affected = tables_of(files, dependencies.raw_prefix)
    affected += transaction_tables(files, dependencies.states, dependencies.raw_prefix)
    for table, written_utc in _distinct(affected):
        with logs.context(table=str(table.name)):
            try:
                outcomes[table.path] = _process(table, written_utc, dependencies, now)
            except Exception as error:
                log.exception(FAILED)
                outcomes[table.path] = FAILED
                errors.append(error_line(error))
    return outcomes, errors


def _after_ended_run(
    event: Mapping[str, Any], dependencies: Dependencies, now: datetime
) -> Mapping[str, TriggerResult]:
    """Go on with the tables of the Spark run whose end an event reports; empty for an event of another kind."""
    if event.get("source") != "aws.glue":
        return {}
    ended = event["detail"]
    job = ended["jobName"].removeprefix(dependencies.name_prefix)
    log.info("a Spark run ended as %s", ended["state"], extra={"started": ended["jobRunId"]})
    return continue_after(dependencies.states, dependencies.jobs, job, ended["jobRunId"], now)


def new_files(event: Mapping[str, Any]) -> Iterator[NewFile]:
    """The created objects of an event.

    Events of other kinds have none: S3 sends an `s3:TestEvent` without records when the notification is configured.

    Args:
        event: S3's event. Keys in it are URL-encoded, a space as `+` (S3 user guide, "Event message structure").
    """
    if "Records" not in event:
        return
    for record in S3Event(dict(event)).records:
        if record.event_name.startswith("ObjectCreated:"):
            written_utc = datetime.fromisoformat(record.event_time.replace("Z", "+00:00"))
            yield NewFile(record.s3.bucket.name, unquote_plus(record.s3.get_object.key), written_utc)


def tables_of(files: Iterable[NewFile], raw_prefix: str) -> list[AffectedTable]:
    """The tables that have new files of their own. Objects that are not raw data of a table are ignored.

    So are those of a schema whose name is reserved. The Controller names it while its folder is there.

    Args:
        files: New files, any order.
        raw_prefix: Prefix of the schemas' folders, empty or with a trailing slash.
    """
    split = ((file, split_raw_key(file.key, raw_prefix)) for file in files)
    tables = (
        AffectedTable(TableState.new(file.bucket, parts.schema_prefix, parts.folder), file.written_utc)
        for file, parts in split
        if parts
    )
    return _distinct(one for one in tables if one.table.name.schema not in RESERVED_SCHEMAS)


def transaction_tables(files: Iterable[NewFile], states: StateStore, raw_prefix: str) -> list[AffectedTable]:
    """The active tables that read the folders of new transaction files.

    Args:
        files: New files, any order.
        states: The state table; read only if there is a transaction file.
        raw_prefix: Prefix of the schemas' folders, empty or with a trailing slash.
    """
    shared = [file for file in files if file.key.startswith(raw_prefix) and is_transactions_key(file.key)]
    by_bucket = {bucket: list(states.all(f"{bucket}/{raw_prefix}")) for bucket in {file.bucket for file in shared}}
    return _distinct(
        AffectedTable(state, file.written_utc)
        for file in shared
        for state in by_bucket[file.bucket]
        if state.active and state.transactions_folder == f"{file.key.rpartition('/')[0]}/"
    )


def _distinct(affected: Iterable[AffectedTable]) -> list[AffectedTable]:
    """Each table once, in the order of first occurrence, with the time of its newest file."""
    newest: dict[str, AffectedTable] = {}
    for one in affected:
        known = newest.setdefault(one.table.path, one)
        if one.written_utc > known.written_utc:
            newest[one.table.path] = known._replace(written_utc=one.written_utc)
    return list(newest.values())


def _process(table: TableState, written_utc: datetime, dependencies: Dependencies, now: datetime) -> str:
    states, path = dependencies.states, table.path
    state = states.get(path)
    if state is None:
        states.register(table.with_attributes(**dependencies.new_table))  # inactive
        outcome = "registered"
    elif not state.active:
        outcome = "inactive"
    elif have_listed(state, written_utc, now):
        outcome = "seen"
    else:
        outcome = trigger_table(states, dependencies.jobs, path, now).outcome.value
    log.info(outcome, extra={"change": (state.last_change or None) if state else None})
    return outcome


class FunctionForProcessTable:
    """Runs of jobs, of which a function does those of ProcessTable.

    Args:
        client: Lambda client.
        function: Name of the function `small_changes`.
        jobs: Starts the other jobs.
    """

    def __init__(self, client: LambdaClient, function: str, jobs: JobRunner) -> None:
        self._client, self._function, self._jobs = client, function, jobs

    def start(self, job: str, arguments: Mapping[str, str]) -> str:
        """Start a run and return its id: of a job, or of the function's request.

        Raises:
            ConfigurationError: The function does not exist, or the caller may not call it.
        """
        if job != JOB_PROCESS_TABLE:
            return self._jobs.start(job, arguments)
        remedies = Remedies(
            missing=f"Deploy the function {self._function} in this region and account, or correct its name",
            denied=f"Grant the caller lambda:InvokeFunction on the function {self._function}",
        )
        with translated_errors(remedies, function=self._function):
            answer = self._client.invoke(
                FunctionName=self._function,
                InvocationType="Event",
                Payload=json.dumps({Argument.PATHS: arguments[Argument.PATHS]}).encode(),
            )
        return answer["ResponseMetadata"]["RequestId"]

    def get(self, job: str, run_id: str) -> JobRun:
        """The state of a run of a job."""
        return self._jobs.get(job, run_id)


class _Formatter(logs.JsonFormatter, BasePowertoolsFormatter):
    """Writes log lines like the jobs do; Powertools sets their fields."""

    def append_keys(self, **additional_keys: object) -> None:
        """Add fields to all later lines."""
        self.fields.update({name: value for name, value in additional_keys.items() if value is not None})

    def clear_state(self) -> None:
        """Remove all fields."""
        self.fields.clear()


@lru_cache(maxsize=1)
def _function() -> Callable[[Mapping[str, Any], LambdaContext], dict[str, str]]:
    """The function with its logger and metrics; created once per container.

    Powertools configures the logger `cdclake`, and so the loggers of all modules of cdclake.
    """
    logger = Logger(service="cdclake", logger_formatter=_Formatter())
    metrics = Metrics(namespace=namespace(os.environ.get(NAME_PREFIX, "")), service=SERVICE)
    dependencies = _surroundings()

    @logger.inject_lambda_context
    @metrics.log_metrics
    def function(event: Mapping[str, Any], context: LambdaContext) -> dict[str, str]:
        logger.append_keys(run_id=context.aws_request_id)
        outcomes, errors = handle(event, dependencies, server_clock())
        metrics.add_metric(name="Tables", unit=Unit.COUNT.value, value=len(outcomes))
        for outcome, count in Counter(outcomes.values()).items():
            metrics.add_metric(name=outcome.capitalize(), unit=Unit.COUNT.value, value=count)
        if errors:
            message = f"{len(errors)} of {len(outcomes)} tables failed: {'; '.join(errors)}"
            remedy = "Lambda retries, then moves the event to its dead-letter queue; the hourly Controller tries too"
            raise JobRunError(message, remedy=remedy)
        return outcomes

    return function


def _surroundings() -> Dependencies:
    missing = [name for name in (RAW_PREFIX, STATE_TABLE) if name not in os.environ]
    if missing:
        message = f"The function's environment lacks {', '.join(missing)}"
        raise ConfigurationError(message, remedy="Set it in the function's configuration")
    jobs: JobRunner = GlueJobs(client("glue"), os.environ.get(NAME_PREFIX, ""))
    if function := os.environ.get(SMALL_CHANGES_FUNCTION):
        jobs = FunctionForProcessTable(client("lambda"), function, jobs)
    return Dependencies(
        states=DynamoState(client("dynamodb"), os.environ[STATE_TABLE]),
        jobs=jobs,
        raw_prefix=folder_prefix(os.environ[RAW_PREFIX]),
        new_table=parse_new_table(os.environ.get(NEW_TABLE, "")),
        name_prefix=os.environ.get(NAME_PREFIX, ""),
    )
