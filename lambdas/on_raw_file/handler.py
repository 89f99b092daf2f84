"""Lambda behind the raw bucket's object-created events: gets the tables that the new files belong to looked at.

A burst of events ends in one ProcessTable run for each table, see `cdclake.control.run.trigger`. Events may come
twice, late and in any order, as S3 delivers them. An event says only that a table is worth a look, until a run that
began to list after the file was written has ended well. A transaction file holds rows of many tables, and its name does
not tell which: every active table that reads its folder is looked at.
"""

from __future__ import annotations

import os
from collections import Counter
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Callable, NamedTuple
from urllib.parse import unquote_plus

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.logging.formatter import BasePowertoolsFormatter
from aws_lambda_powertools.utilities.data_classes import S3Event

from cdclake import logs
from cdclake.adapters.aws import client
from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.glue import GlueJobs
from cdclake.control.jobs.arguments import folder_prefix, parse_new_table
from cdclake.control.jobs.entry import error_line
from cdclake.control.run.trigger import trigger_table
from cdclake.errors import ConfigurationError, JobRunError
from cdclake.model.metrics import NAMESPACE, Unit
from cdclake.model.rawfiles import is_transactions_key, split_raw_key
from cdclake.model.table import TableState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from aws_lambda_powertools.utilities.typing import LambdaContext

    from cdclake.ports import JobRunner, StateStore

RAW_PREFIX, STATE_TABLE, PROCESS_TABLE_JOB = "RAW_PREFIX", "STATE_TABLE", "PROCESS_TABLE_JOB"
"""Environment: prefix of the schemas' folders in the raw bucket (may be empty), the state table, the job to start."""
NEW_TABLE = "NEW_TABLE"
"""Environment, if there is more to say: settings that a table is registered with, as the Controller's argument."""
CLOCK_TOLERANCE = timedelta(seconds=10)
"""How far S3's clock and that of a run may differ."""
FAILED = "failed"
SERVICE = "on_raw_file"
"""Dimension of the function's metrics."""
log = logs.bind("cdclake.on_raw_file")


class Dependencies(NamedTuple):
    """What the function works with; made once for each container."""

    states: StateStore
    jobs: JobRunner
    raw_prefix: str
    process_table_job: str
    new_table: Mapping[str, str] = {}


class NewFile(NamedTuple):
    """An object that an event says was created, with its key decoded."""

    bucket: str
    key: str
    written_utc: datetime


class AffectedTable(NamedTuple):
    """A table that an event's files belong to, as it is seen for the first time, and when the newest was written."""

    table: TableState
    written_utc: datetime


def handler(event: Mapping[str, Any], context: LambdaContext) -> dict[str, str]:
    """What Lambda calls. Returns what became of each table, see `handle`."""
    return _function()(event, context)


def handle(event: Mapping[str, Any], dependencies: Dependencies, now: datetime) -> tuple[dict[str, str], list[str]]:
    """Get every table looked at that an event's files belong to. A table that fails does not stop the others.

    Args:
        event: S3's event.
        dependencies: State table, jobs, names.
        now: The time.

    Returns:
        For each table's path what was done: `registered`, `inactive`, `seen`, `started`, `collapsed`, `busy` or
        `failed`; and for each that failed, why.
    """
    done: dict[str, str] = {}
    errors = []
    files = list(new_files(event))
    mentions = [*tables_of(files, dependencies.raw_prefix)]
    mentions += transaction_tables(files, dependencies.states, dependencies.raw_prefix)
    for mention in _each_once(mentions):
        table = mention.table
        with logs.context(table=str(table.name)):
            try:
                done[table.path] = _see_to(mention, dependencies, now)
            except Exception as error:
                log.exception(FAILED)
                done[table.path] = FAILED
                errors.append(error_line(error))
    return done, errors


def new_files(event: Mapping[str, Any]) -> Iterator[NewFile]:
    """The objects that an event says were created.

    Events of other kinds have none: S3 sends an `s3:TestEvent` without records when the notification is set up.

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
    """The tables that have new files of their own. Objects that are no raw data of a table are passed over.

    Args:
        files: New files, any order.
        raw_prefix: Prefix of the schemas' folders, empty or with a trailing slash.
    """
    found = ((file, split_raw_key(file.key, raw_prefix)) for file in files)
    return _each_once(
        AffectedTable(TableState.new(file.bucket, parts.schema_prefix, parts.folder), file.written_utc)
        for file, parts in found
        if parts
    )


def transaction_tables(files: Iterable[NewFile], states: StateStore, raw_prefix: str) -> list[AffectedTable]:
    """The active tables that read the folders of new transaction files.

    Args:
        files: New files, any order.
        states: The state table; read only if there is a transaction file.
        raw_prefix: Prefix of the schemas' folders, empty or with a trailing slash.
    """
    shared = [file for file in files if file.key.startswith(raw_prefix) and is_transactions_key(file.key)]
    by_bucket = {bucket: list(states.all(f"{bucket}/{raw_prefix}")) for bucket in {file.bucket for file in shared}}
    return _each_once(
        AffectedTable(state, file.written_utc)
        for file in shared
        for state in by_bucket[file.bucket]
        if state.active and state.transactions_folder == f"{file.key.rpartition('/')[0]}/"
    )


def _each_once(mentions: Iterable[AffectedTable]) -> list[AffectedTable]:
    """Each table once, in the order of their first mention, with the time of its newest file."""
    newest: dict[str, AffectedTable] = {}
    for mention in mentions:
        known = newest.setdefault(mention.table.path, mention)
        if mention.written_utc > known.written_utc:
            newest[mention.table.path] = known._replace(written_utc=mention.written_utc)
    return list(newest.values())


def _see_to(mention: AffectedTable, dependencies: Dependencies, now: datetime) -> str:
    states, path = dependencies.states, mention.table.path
    state = states.get(path)
    if state is None:
        states.register(mention.table.with_attributes(**dependencies.new_table))  # inactive
        outcome = "registered"
    elif not state.active:
        outcome = "inactive"
    elif state.last_listed_utc and mention.written_utc + CLOCK_TOLERANCE < state.last_listed_utc:
        outcome = "seen"
    else:
        outcome = trigger_table(states, dependencies.jobs, path, now, job=dependencies.process_table_job).outcome.value
    log.info(outcome, extra={"change": (state.last_change or None) if state else None})
    return outcome


class _Formatter(logs.JsonFormatter, BasePowertoolsFormatter):
    """Writes lines as the jobs do; their fields are Powertools' to set."""

    def append_keys(self, **additional_keys: object) -> None:
        """Give fields to all lines from now on."""
        self.fields.update({name: value for name, value in additional_keys.items() if value is not None})

    def clear_state(self) -> None:
        """Forget all fields."""
        self.fields.clear()


@lru_cache(maxsize=1)
def _function() -> Callable[[Mapping[str, Any], LambdaContext], dict[str, str]]:
    """The function with its logger and metrics; made once for each container.

    Powertools sets up the logger `cdclake`, and with it those of all our modules.
    """
    logger = Logger(service="cdclake", logger_formatter=_Formatter())
    metrics = Metrics(namespace=NAMESPACE, service=SERVICE)
    dependencies = _surroundings()

    @logger.inject_lambda_context
    @metrics.log_metrics
    def function(event: Mapping[str, Any], context: LambdaContext) -> dict[str, str]:
        logger.append_keys(run_id=context.aws_request_id)
        done, errors = handle(event, dependencies, datetime.now(timezone.utc))
        metrics.add_metric(name="Tables", unit=Unit.COUNT.value, value=len(done))
        for outcome, count in Counter(done.values()).items():
            metrics.add_metric(name=outcome.capitalize(), unit=Unit.COUNT.value, value=count)
        if errors:
            message = f"{len(errors)} of {len(done)} tables could not be seen to: {'; '.join(errors)}"
            remedy = "Lambda tries again, and at last puts the event in its dead-letter queue; the Controller comes by"
            raise JobRunError(message, remedy=remedy)
        return done

    return function


def _surroundings() -> Dependencies:
    missing = [name for name in (RAW_PREFIX, STATE_TABLE, PROCESS_TABLE_JOB) if name not in os.environ]
    if missing:
        message = f"The function's environment lacks {', '.join(missing)}"
        raise ConfigurationError(message, remedy="Set it in the function's configuration")
    return Dependencies(
        states=DynamoState(client("dynamodb"), os.environ[STATE_TABLE]),
        jobs=GlueJobs(client("glue")),
        raw_prefix=folder_prefix(os.environ[RAW_PREFIX]),
        process_table_job=os.environ[PROCESS_TABLE_JOB],
        new_table=parse_new_table(os.environ.get(NEW_TABLE, "")),
    )
